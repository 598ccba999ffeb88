package segment

import (
	"github.com/warrenfs/warren/backend"
)

// Strays calls found with each whole record that the counts in tx hold for named
// and that none of the refs which each gives names: content whose extent was lost.
// It is for a repair, which gives it an extent again. Errors: those of tx and of
// each. A segment that cannot be read has no strays.
func (c *Content) Strays(tx backend.Tx, each func(fn func(backend.Ref) error) error, found func(backend.Ref)) error {
	a := newAuditor(c, func(string) {})
	if err := a.load(tx); err != nil {
		return err
	}
	named := map[uint64]map[int64]bool{}
	err := each(func(ref backend.Ref) error {
		if named[ref.Segment] == nil {
			named[ref.Segment] = map[int64]bool{}
		}
		named[ref.Segment][int64(ref.Offset)] = true
		return nil
	})
	if err != nil {
		return err
	}
	for _, number := range a.segments() {
		var refs []backend.Ref
		err := c.Walk(number, func(e Entry) error {
			at := int64(e.Ref.Offset)
			if at >= a.counts[number].end {
				return backend.ErrStop
			}
			if !e.Void && !e.Unknown && !named[number][at] && !a.freed[number][at] {
				refs = append(refs, e.Ref)
			}
			return nil
		})
		if err != nil {
			continue // the audit tells of it
		}
		for _, ref := range refs {
			if c.Check(tx, ref) == nil {
				found(ref)
			}
		}
	}
	return nil
}
