package tree

import (
	"github.com/warrenfs/warren/backend"
)

// famSegment are the keys of the segment driver, which mean nothing elsewhere.
const famSegment = 's'

// Range is the keys from Start on and before End; nil: no bound.
type Range struct{ Start, End []byte }

// PortableRanges are the keys of a store that mean the same in any other,
// ascending: all but those in which content drivers keep their bytes and counts.
func PortableRanges() []Range {
	return []Range{{nil, []byte{famContent}}, {[]byte{famContent + 1}, []byte{famSegment}}, {[]byte{famSegment + 1}, nil}}
}

// Portable tells whether key is in one of PortableRanges.
func Portable(key []byte) bool {
	return len(key) > 0 && key[0] != famContent && key[0] != famSegment
}

// ExtentRef gives the content that the record under key names, if it is an
// extent that names any. IO for a damaged one.
func ExtentRef(key, value []byte) (ref backend.Ref, named bool, err error) {
	if len(key) != 21 || key[0] != famExtent {
		return ref, false, nil
	}
	e, err := decodeExtent(volumeOf(key), inoOf(key), endOf(key), value)
	if err != nil || e.inline != nil {
		return ref, false, err
	}
	return e.ref, true, nil
}

// WithRef gives the extent's record with its content at ref, which has the same
// bytes as before.
func WithRef(key, value []byte, ref backend.Ref) ([]byte, error) {
	e, err := decodeExtent(volumeOf(key), inoOf(key), endOf(key), value)
	if err != nil {
		return nil, err
	}
	e.ref = ref
	return e.encode(nil), nil
}

// SharedContent calls fn with the number of every content that more than one
// extent names.
func SharedContent(kv backend.Tx, fn func(id uint64)) error {
	return kv.ScanKeys([]byte{famShared}, []byte{famShared + 1}, func(key []byte) error {
		if id, ok := SharedID(key); ok {
			fn(id)
		}
		return nil
	})
}

// SharedID is the number of the content whose count stands under key.
func SharedID(key []byte) (id uint64, ok bool) {
	if len(key) != 9 || key[0] != famShared {
		return 0, false
	}
	return idOf(key), true
}
