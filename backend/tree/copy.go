package tree

import (
	"bytes"
	"errors"
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
	if src == dst && srcOff < s.rec.size {
		n = min(n, s.rec.size-srcOff)
		if srcOff < dstOff+n && dstOff < srcOff+n {
			return 0, backend.Invalid
		}
	}
	return tx.copyFrom(Source{v: tx.v, ino: src, rec: s.rec}, srcOff, dst, dstOff, n)
}

// Source is a file of one volume as it was when it was asked for, to be copied
// into another volume by CopyFrom.
type Source struct {
	v     *volume
	ino   backend.Ino
	rec   record
	state []byte // rec as stored; nil: it cannot change, its volume being locked
}

// Source gives ino to copy from.
func (tx *Txn) Source(ino backend.Ino) (Source, error) {
	n, err := tx.load(ino)
	if err != nil {
		return Source{}, err
	}
	s := Source{v: tx.v, ino: ino, rec: n.rec}
	err = tx.t.store.View(bg, func(kv backend.Tx) error {
		b, err := kv.Get(inodeKey(tx.v.id, ino))
		s.state = append([]byte{}, b...)
		return err
	})
	return s, err
}

// same fails with WouldBlock when the source is not any more as it was.
func (s *Source) same(kv backend.Tx) error {
	if s.state == nil {
		return nil
	}
	b, err := kv.Get(inodeKey(s.v.id, s.ino))
	if errors.Is(err, backend.NotFound) {
		return backend.WouldBlock
	}
	if err == nil && (s.v.removed.Load() || !bytes.Equal(b, s.state)) {
		return backend.WouldBlock
	}
	return err
}

// CopyFrom is CopyRange from a file of another volume. WouldBlock when that
// changed since it was asked for.
func (tx *Txn) CopyFrom(src Source, srcOff uint64, dst backend.Ino, dstOff, n uint64) (uint64, error) {
	return tx.copyFrom(src, srcOff, dst, dstOff, n)
}

func (tx *Txn) copyFrom(src Source, srcOff uint64, dst backend.Ino, dstOff, n uint64) (uint64, error) {
	d, err := tx.load(dst)
	if err != nil {
		return 0, err
	}
	if err := sizable(&src.rec, 0); err != nil {
		return 0, err
	}
	if srcOff >= src.rec.size {
		return 0, nil
	}
	n = min(n, src.rec.size-srcOff)
	if err := sizable(&d.rec, dstOff+n); err != nil || dstOff+n < dstOff {
		return 0, orInvalid(err)
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
			r.mode = KillPriv(r.mode)
		}
		err := src.same(w.kv)
		if err == nil {
			done, err = w.copyRange(&src, srcOff, dst, &r, dstOff, n)
		}
		w.putInode(dst, &r)
		return err
	})
	if left := tx.left(); errors.Is(err, backend.Quota) && left > 0 && left < n {
		return tx.copyFrom(src, srcOff, dst, dstOff, left)
	}
	if err != nil {
		return 0, err
	}
	sized := r.size != d.rec.size
	tx.setRecord(d, &r)
	tx.followUp(d)
	tx.changed(Change{Kind: DataChanged, Node: tx.node(dst), Off: dstOff, Len: done, Sized: sized})
	return done, nil
}

func (w *writer) copyRange(s *Source, srcOff uint64, dst backend.Ino, r *record, dstOff, n uint64) (uint64, error) {
	var take []extent
	err := w.extentsIn(s.v, s.ino, s.rec.extents.high, srcOff, srcOff+n, func(e *extent) error {
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
