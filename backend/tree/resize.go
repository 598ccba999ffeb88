package tree

import (
	"errors"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// resize makes ino's size what it is to be.
func (w *writer) resize(ino backend.Ino, r *record, size uint64) error {
	if size < r.extents.high {
		if err := w.clear(ino, r, size, math.MaxUint64); err != nil {
			return err
		}
	}
	r.size = size
	return w.err
}

// clear makes [from, to) a hole. Few extents are removed here; many are made
// void by a barrier and left to the reclaimer. The caller has seen to
// roomForBarrier.
func (w *writer) clear(ino backend.Ino, r *record, from, to uint64) error {
	var over []extent
	many := false
	err := w.extentsIn(w.v, ino, r.extents.high, from, to, func(e *extent) error {
		if len(over) == sweepMax {
			many = true
			return backend.ErrStop
		}
		c := *e
		c.inline = slices.Clone(e.inline)
		over = append(over, c)
		return nil
	})
	if err != nil {
		return err
	}
	if !many {
		for i := range over {
			if err := w.replace(ino, r, &over[i], from, to); err != nil {
				return err
			}
		}
		if to == math.MaxUint64 {
			r.extents.high = min(r.extents.high, from)
		}
		return w.err
	}
	return w.bar(ino, r, &over[0], from, to)
}

// bar voids [from, to) by a barrier. first is the first extent in it.
func (w *writer) bar(ino backend.Ino, r *record, first *extent, from, to uint64) error {
	if first.start < from && !r.extents.void(first) {
		if err := w.replace(ino, r, first, from, first.end); err != nil {
			return err
		}
	}
	if to != math.MaxUint64 {
		last, err := w.overlap(ino, r.extents.high, to, to+1)
		if err != nil {
			return err
		}
		if len(last) == 1 && last[0].start < to && !r.extents.void(&last[0]) {
			if err := w.replace(ino, r, &last[0], last[0].start, to); err != nil {
				return err
			}
		}
	}
	b := barrier{gen: r.extents.gen, from: from, to: to}
	if from == 0 && to == math.MaxUint64 {
		b.counted = true
		w.count(r, r.bytes, 0)
	}
	r.extents.barriers = append(slices.Clone(r.extents.barriers), b)
	r.extents.gen++
	w.putTodo(ino)
	return w.err
}

// roomForBarrier finishes what older barriers of n left to do when no more fit.
func (tx *Txn) roomForBarrier(n *inode) error {
	var at sweepPos
	for len(n.rec.extents.barriers) >= maxBarriers {
		if _, err := tx.sweep(n, &at); err != nil {
			return err
		}
	}
	return nil
}

// followUp leaves n to the reclaimer if it has barriers, or contents of which the
// last change took a part.
func (tx *Txn) followUp(n *inode) {
	tx.noteCut(n)
	if len(n.rec.extents.barriers) > 0 {
		tx.t.todo.add(tx.node(n.ino))
	}
}

// sweepPos is how far a sweep has come: no void extent ends at or before pos as
// long as the file's generation stays gen. The zero value is the beginning.
type sweepPos struct {
	gen uint32
	pos uint64
}

// sweep removes up to sweepMax void extents of n from at on, and n's barriers
// when none is left. It returns whether there is more to do.
func (tx *Txn) sweep(n *inode, at *sweepPos) (more bool, err error) {
	var r record
	var pos uint64
	lo, hi := uint64(math.MaxUint64), uint64(0)
	for _, b := range n.rec.extents.barriers {
		lo, hi = min(lo, b.from), max(hi, b.to)
	}
	if at.gen == n.rec.extents.gen {
		lo = max(lo, at.pos)
	}
	err = tx.commit(func(w *writer) error {
		r, more, pos = n.rec, false, lo
		var gone []extent
		if lo < hi {
			gone, more, err = w.findVoid(n.ino, &r, lo, hi)
			if err != nil {
				return err
			}
		}
		for i := range gone {
			pos = gone[i].end
			if err := w.replace(n.ino, &r, &gone[i], 0, 0); err != nil {
				return err
			}
		}
		if !more {
			r.extents.barriers = nil
			if r.nlink > 0 {
				w.delete(todoKey(w.v.id, n.ino))
			}
		}
		w.putInode(n.ino, &r)
		return w.err
	})
	if err == nil {
		tx.setRecord(n, &r)
		at.gen, at.pos = r.extents.gen, pos
	}
	return more, err
}

// findVoid lists up to sweepMax void extents of ino in [lo, hi).
func (w *writer) findVoid(ino backend.Ino, r *record, lo, hi uint64) (gone []extent, more bool, err error) {
	err = scanExtents(w.kv, w.v.id, ino, lo, hi, func(e *extent) error {
		if !r.extents.void(e) {
			return nil
		}
		if len(gone) == sweepMax {
			more = true
			return backend.ErrStop
		}
		gone = append(gone, e.bare())
		return nil
	})
	return gone, more, err
}

// bare is e for removal: whether it is inline matters, its bytes do not.
func (e *extent) bare() extent {
	c := *e
	if c.inline != nil {
		c.inline = []byte{}
	}
	return c
}

// couldHold refuses to allocate length bytes of r's file if there is no room for
// those that it cannot have yet.
func (tx *Txn) couldHold(r *record, length uint64) error {
	need := length - min(length, r.bytes)
	if err := tx.t.room.check(int(min(need, math.MaxInt))); err != nil {
		return err
	}
	use := tx.v.use.counted()
	more := use
	more.Bytes += need
	return tx.v.limits.Admit(use, more)
}

// Fallocate is fallocate(2). Modes: 0 and KEEP_SIZE (space is not reserved: a
// later write may still find the store full; what cannot fit now is NoSpace or
// Quota), PUNCH_HOLE|KEEP_SIZE, ZERO_RANGE with or without KEEP_SIZE. Others are
// Unsupported.
func (tx *Txn) Fallocate(ino backend.Ino, off, length uint64, mode uint32) error {
	n, err := tx.load(ino)
	if err != nil {
		return err
	}
	end := off + length
	if length == 0 || end < off {
		return backend.Invalid
	}
	if err := sizable(&n.rec, end); err != nil {
		if errors.Is(err, backend.Invalid) {
			return backend.NoDevice
		}
		return err
	}
	keep := mode&unix.FALLOC_FL_KEEP_SIZE != 0
	hole := false
	switch mode &^ unix.FALLOC_FL_KEEP_SIZE {
	case 0:
		if err := tx.couldHold(&n.rec, length); err != nil {
			return err
		}
	case unix.FALLOC_FL_ZERO_RANGE:
		hole = true
	case unix.FALLOC_FL_PUNCH_HOLE:
		if !keep {
			return backend.Unsupported
		}
		hole = true
	default:
		return backend.Unsupported
	}
	if err := tx.roomForBarrier(n); err != nil {
		return err
	}
	now := tx.t.clock()
	var r record
	err = tx.commit(func(w *writer) error {
		r = n.rec
		tx.touch(&r, now)
		r.mtime = now
		if hole && off < r.extents.high {
			if err := w.clear(ino, &r, off, end); err != nil {
				return err
			}
		}
		if !keep {
			r.size = max(r.size, end)
		}
		w.putInode(ino, &r)
		return w.err
	})
	if err != nil {
		return err
	}
	sized := r.size != n.rec.size
	tx.setRecord(n, &r)
	tx.followUp(n)
	tx.changed(Change{Kind: DataChanged, Node: tx.node(ino), Off: off, Len: length, Sized: sized})
	return nil
}
