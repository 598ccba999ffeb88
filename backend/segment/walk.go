package segment

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Entry is one stretch of a segment, as Walk finds it.
type Entry struct {
	Ref     backend.Ref // of a record with a valid header; else zero but for Segment and Offset
	Size    int64       // bytes of the stretch
	Void    bool        // a record that was given back
	Unknown bool        // no valid record: damage, or a write that failed
}

// Segments gives the numbers of all segments that there are, in no order.
func (c *Content) Segments() []uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []uint64
	for n := range c.segs {
		out = append(out, n)
	}
	return out
}

// Walk goes through the headers of a segment, ascending. Behind damage it goes
// on at the next valid header. A valid header does not tell that something
// names the record, nor that its content is whole (Check does). An error from
// fn ends the walk and is returned, ErrStop without one. Error: IO.
func (c *Content) Walk(segment uint64, fn func(Entry) error) error {
	s, f, err := c.acquire(segment)
	if err != nil {
		return dirfs.Error("walk", fileName(segment), err)
	}
	defer c.release(s)
	size, _, err := f.Size()
	if err != nil {
		return dirfs.Error("walk", s.name(), err)
	}
	unknown := int64(-1)
	for at := int64(fileHead); at < size; {
		r, ok := header(s, f, at)
		if !ok && unknown < 0 {
			unknown = at
		}
		next := at + align
		if ok {
			next = at + r.size
		}
		if unknown >= 0 && (ok || next >= size) {
			end := at
			if !ok {
				end = size
			}
			err = fn(Entry{Ref: backend.Ref{Segment: segment, Offset: uint64(unknown)}, Size: end - unknown, Unknown: true})
			unknown = -1
		}
		if ok && err == nil {
			e := Entry{Ref: r.ref(segment), Size: r.size, Void: r.kind == kindVoid}
			err = fn(e)
		}
		if err == backend.ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}

// header reads the header at at, if there is a valid one.
func header(s *segFile, f dirfs.File, at int64) (record, bool) {
	var head [maxHead]byte
	n, _ := f.ReadAt(head[:], at) // a short read shows as no header
	return decodeRecord(head[:n], s.seed, at)
}
