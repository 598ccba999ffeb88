package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

// Read copies bytes from off on into p and returns how many there are: less
// than len(p) only at the end of the file. It may give the volume's lock back
// before it returns; nothing may be asked of the Txn afterwards. Errors: IO
// for damaged content, IsDir, Invalid.
func (tx *Txn) Read(ino backend.Ino, p []byte, off uint64) (int, error) {
	n, err := tx.load(ino)
	if err != nil {
		return 0, err
	}
	if n.rec.typ != backend.TypeRegular {
		return 0, sizable(&n.rec, 0)
	}
	if off >= n.rec.size || len(p) == 0 {
		return 0, nil
	}
	if uint64(len(p)) > n.rec.size-off {
		p = p[:n.rec.size-off]
	}
	clear(p)
	if off >= n.rec.extents.high {
		return len(p), nil
	}
	st := n.rec.extents
	v, content := tx.v.id, tx.t.content
	err = tx.t.store.View(bg, func(kv backend.Tx) error {
		var keep [maxLookups]uint64
		at, ok := tx.v.endsIn(kv, n, off, off+uint64(len(p)))
		at = append(keep[:0], at...)
		tx.unlock() // the snapshot is taken: what follows cannot change
		each := func(e *extent) error {
			if st.void(e) {
				return nil
			}
			return copyExtent(content, kv, e, off, p)
		}
		if ok {
			return lookUpExtents(kv, v, ino, at, off, off+uint64(len(p)), each)
		}
		return extentsIn(kv, v, ino, st.high, off, off+uint64(len(p)), each)
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// scanExtents calls fn with each extent of ino that has bytes in [from, to),
// ascending, void ones included. Inline bytes are valid until fn returns.
func scanExtents(kv backend.Tx, v backend.VolumeID, ino backend.Ino, from, to uint64, fn func(*extent) error) error {
	start := extentKey(v, ino, from+1)
	end := backend.PrefixEnd(appendIno(nil, famExtent, v, ino))
	return kv.Scan(start, end, func(k, b []byte) error {
		e, err := decodeExtent(v, ino, endOf(k), b)
		if err != nil {
			return err
		}
		if e.start >= to {
			return backend.ErrStop
		}
		return fn(&e)
	})
}

// extentsIn is scanExtents of a file none of whose extents ends after high. A scan
// walks deleted keys and old versions, as many as a file has that is written in
// small pieces, and costs several lookups even without; so an extent that ends
// where the range does, and may be all there is to find, is looked up first: the
// last one of a file that grows, the page of a database.
func extentsIn(kv backend.Tx, v backend.VolumeID, ino backend.Ino, high, from, to uint64, fn func(*extent) error) error {
	to = min(to, high)
	if from >= to {
		return nil
	}
	b, err := kv.Get(extentKey(v, ino, to))
	if errors.Is(err, backend.NotFound) {
		return scanExtents(kv, v, ino, from, to, fn)
	}
	if err != nil {
		return err
	}
	e, err := decodeExtent(v, ino, to, b)
	if err != nil {
		return err
	}
	if e.start > from {
		return scanExtents(kv, v, ino, from, to, fn)
	}
	if err := fn(&e); err != backend.ErrStop {
		return err
	}
	return nil
}

// copyExtent copies what e has of [off, off+len(p)) to its place in p.
func copyExtent(c backend.Content, kv backend.Tx, e *extent, off uint64, p []byte) error {
	from, to := max(e.start, off), min(e.end, off+uint64(len(p)))
	if from >= to {
		return nil
	}
	dst := p[from-off : to-off]
	if e.inline != nil {
		copy(dst, e.inline[from-e.start:])
		return nil
	}
	return c.Get(kv, e.ref, e.off+uint32(from-e.start), dst)
}

// Seek finds the next offset at or after off that has data, or that has none
// (hole: the end of the file counts as one). NoDevice at or past the end, and
// when no data follows.
func (tx *Txn) Seek(ino backend.Ino, off uint64, hole bool) (uint64, error) {
	n, err := tx.load(ino)
	if err != nil {
		return 0, err
	}
	if n.rec.typ != backend.TypeRegular {
		return 0, backend.Invalid
	}
	if off >= n.rec.size {
		return 0, backend.NoDevice
	}
	at, found := off, false
	err = tx.t.store.View(bg, func(kv backend.Tx) error {
		at, found = off, false
		return tx.v.eachExtent(kv, n, off, func(e *extent) error {
			switch {
			case n.rec.extents.void(e):
				return nil
			case hole && e.start > at:
				return backend.ErrStop
			case hole:
				at = e.end
				return nil
			}
			at, found = max(e.start, off), true
			return backend.ErrStop
		})
	})
	if err != nil {
		return 0, err
	}
	if !hole && !found {
		return 0, backend.NoDevice
	}
	return min(at, n.rec.size), nil
}
