package archive

import "bytes"

// Spans is what a Writer makes of spans of a file of size bytes: whole blocks of
// 4 KiB but for the file's last (tar(1) reads no others), at most 16,384, the
// last of which takes in what is too much. The data to be written are exactly
// those.
func Spans(spans []Span, size int64) []Span {
	out := spans[:0:0]
	for _, s := range spans {
		s.From, s.To = max(s.From, 0)&^(zeroBlock-1), min((s.To+zeroBlock-1)&^(zeroBlock-1), size)
		if s.From >= s.To {
			continue
		}
		n := len(out)
		if n > 0 && (s.From <= out[n-1].To || n == maxSpans) {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Holes calls fn with the parts of p, which stands at offset off of its file,
// that are not whole blocks of 4 KiB zeros. An error of fn ends it.
func Holes(p []byte, off int64, fn func(p []byte, off int64) error) error {
	from := 0
	flush := func(to int) error {
		if from == to {
			return nil
		}
		return fn(p[from:to], off+int64(from))
	}
	for at := 0; at < len(p); {
		next := min(at+int(zeroBlock-(off+int64(at))%zeroBlock), len(p))
		if isZero(p[at:next]) {
			if err := flush(at); err != nil {
				return err
			}
			from = next
		}
		at = next
	}
	return flush(len(p))
}

var zeros = make([]byte, zeroBlock)

func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }
