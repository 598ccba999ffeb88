package tree

import (
	"slices"

	"github.com/warrenfs/warren/backend"
)

// copyMax is how many extents one CopyRange takes at most.
const copyMax = 256

// CopyRange makes [dstOff, dstOff+n) of dst share what [srcOff, srcOff+n) of
// src holds. It returns how many bytes it did: less than n when the source ends
// or has too many extents for one operation. Both are in this volume. Invalid
// when both are one file and the ranges overlap.
func (tx *Txn) CopyRange(src backend.Ino, srcOff uint64, dst backend.Ino, dstOff, n uint64) (uint64, error) {
	s, err := tx.load(src)
	if err != nil {
		return 0, err
	}
	d, err := tx.load(dst)
	if err != nil {
		return 0, err
	}
	if err := sizable(&s.rec, 0); err != nil {
		return 0, err
	}
	if srcOff >= s.rec.size {
		return 0, nil
	}
	n = min(n, s.rec.size-srcOff)
	if err := sizable(&d.rec, dstOff+n); err != nil || dstOff+n < dstOff {
		return 0, orInvalid(err)
	}
	if src == dst && srcOff < dstOff+n && dstOff < srcOff+n {
		return 0, backend.Invalid
	}
	if n == 0 {
		return 0, nil
	}
	if err := tx.t.room.check(0); err != nil {
		return 0, err
	}
	if err := tx.roomForBarrier(d); err != nil {
		return 0, err
	}
	now := tx.t.clock()
	var r record
	var done uint64
	err = tx.commit(func(w *writer) error {
		r = d.rec
		tx.touchDir(&r, now)
		if tx.Op.KillPriv {
			killPriv(&r)
		}
		var err error
		done, err = w.copyRange(s, srcOff, dst, &r, dstOff, n)
		w.putInode(dst, &r)
		return err
	})
	if err != nil {
		return 0, err
	}
	tx.setRecord(d, &r)
	tx.followUp(d)
	tx.changed(Change{Kind: DataChanged, Node: tx.node(dst), Off: dstOff, Len: done})
	return done, nil
}

func (w *writer) copyRange(s *inode, srcOff uint64, dst backend.Ino, r *record, dstOff, n uint64) (uint64, error) {
	var take []extent
	err := extentsIn(w.kv, w.v.id, s.ino, s.rec.extents.high, srcOff, srcOff+n, func(e *extent) error {
		if s.rec.extents.void(e) {
			return nil
		}
		if len(take) == copyMax {
			n = e.start - srcOff
			return backend.ErrStop
		}
		c := e.cut(max(e.start, srcOff), min(e.end, srcOff+n))
		c.inline = slices.Clone(c.inline)
		take = append(take, c)
		return nil
	})
	if err != nil {
		return 0, err
	}
	// Counts first: clearing the destination must not free what is shared.
	for i := range take {
		if take[i].inline == nil {
			if err := w.share(take[i].ref, 1); err != nil {
				return 0, err
			}
		}
	}
	if dstOff < r.extents.high {
		if err := w.clear(dst, r, dstOff, dstOff+n); err != nil {
			return 0, err
		}
	}
	for i := range take {
		e := &take[i]
		e.start, e.end = e.start-srcOff+dstOff, e.end-srcOff+dstOff
		e.gen = r.extents.gen
		w.putExtent(dst, e)
		w.count(r, 0, e.length())
		r.extents.high = max(r.extents.high, e.end)
	}
	r.size = max(r.size, dstOff+n)
	return n, w.err
}
