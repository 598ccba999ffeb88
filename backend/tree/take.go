package tree

import (
	"errors"
	"math"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// What one TakeContent may change: keys, and bytes of keys and values. Both leave
// space for what content drivers add, at most two keys for each removed extent.
const (
	takeKeys  = 9_000
	takeBytes = backend.MaxTxBytes - 256<<10
)

// ErrFragmented is returned by TakeContent where the extents of the two files are
// too many for one Update.
var ErrFragmented = errors.New("too many extents for one update")

// TakeContent replaces what the regular file dst has from off on by what the file src
// has there, and its size by that of src, which is empty afterwards. It is one Update
// that moves extents and copies no bytes, so no reader and no crash finds a part of it.
// The volume's counters lose what dst had. Errors: Invalid, also where src is dst or
// ends before off; IsDir; ErrFragmented.
func (tx *Txn) TakeContent(dst, src backend.Ino, off uint64) (backend.Attr, error) {
	d, err := tx.load(dst)
	if err != nil {
		return backend.Attr{}, err
	}
	s, err := tx.load(src)
	if err != nil {
		return backend.Attr{}, err
	}
	for _, n := range []*inode{d, s} {
		if err := sizable(&n.rec, 0); err != nil {
			return backend.Attr{}, err
		}
	}
	if src == dst || s.rec.size < off {
		return backend.Attr{}, backend.Invalid
	}
	if err := errors.Join(tx.roomForBarrier(d), tx.roomForBarrier(s)); err != nil {
		return backend.Attr{}, err
	}
	now := tx.t.clock()
	var to, from record
	err = tx.commit(func(w *writer) error {
		to, from = d.rec, s.rec
		tx.touchDir(&to, now)
		tx.touchDir(&from, now)
		if tx.Op.KillPriv {
			to.mode = KillPriv(to.mode)
		}
		if err := w.take(dst, &to, src, &from, off); err != nil {
			return err
		}
		w.putInode(dst, &to)
		w.putInode(src, &from)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	changed := min(off, d.rec.size)
	tx.setRecord(d, &to)
	tx.setRecord(s, &from)
	tx.followUp(d)
	d.rewritten = tx.lsn
	tx.changed(Change{Kind: DataChanged, Node: tx.node(src), Sized: true})
	tx.changed(Change{Kind: DataChanged, Node: tx.node(dst), Off: changed, Sized: true})
	return to.attr(tx.node(dst)), nil
}

// Rewritten returns a number that changes when TakeContent or Amend changes the file
// ino. It may also change when the inode leaves the cache.
func (tx *Txn) Rewritten(ino backend.Ino) (backend.LSN, error) {
	n, err := tx.load(ino)
	if err != nil {
		return 0, err
	}
	return n.rewritten, nil
}

// take moves the extents of src from off on to dst, in place of dst's own.
func (w *writer) take(dst backend.Ino, to *record, src backend.Ino, from *record, off uint64) error {
	moves, over, err := w.exchanged(dst, to, src, from, off)
	if err != nil {
		return err
	}
	for i := range over {
		if err := w.replace(dst, to, &over[i], off, math.MaxUint64); err != nil {
			return err
		}
	}
	if from.extents.high >= to.extents.high {
		to.extents.high = min(to.extents.high, off)
	} else if err := w.clear(dst, to, max(off, from.extents.high), math.MaxUint64); err != nil {
		return err
	}
	for i := range moves {
		e := &moves[i]
		w.deleteExtent(src, e.end)
		w.count(from, e.length(), 0)
		*e = e.cut(max(e.start, off), e.end)
		e.gen = to.extents.gen
		w.putExtent(dst, e)
		w.count(to, 0, e.length())
		to.extents.high = max(to.extents.high, e.end)
	}
	to.size, from.size = from.size, 0
	if off > 0 { // what src had before
		return w.clear(src, from, 0, math.MaxUint64)
	}
	return w.err
}

// exchanged lists the extents of src to move, and the extents of dst that they replace.
// It returns ErrFragmented if there are too many.
func (w *writer) exchanged(dst backend.Ino, to *record, src backend.Ino, from *record, off uint64) (moves, over []extent, err error) {
	keys, bytes := 0, 0
	fits := func(e *extent, more int) error {
		keys += more
		bytes += more*len(extentKey(w.v.id, dst, e.end)) + len(e.inline) + 64
		if keys > takeKeys || bytes > takeBytes {
			return ErrFragmented
		}
		return nil
	}
	err = w.extentsIn(w.v, src, from.extents.high, off, math.MaxUint64, func(e *extent) error {
		if from.extents.void(e) {
			return nil
		}
		c := *e
		c.inline = slices.Clone(e.inline)
		moves = append(moves, c)
		return fits(&c, 2)
	})
	if err != nil {
		return nil, nil, err
	}
	err = w.extentsIn(w.v, dst, to.extents.high, off, max(off, from.extents.high), func(e *extent) error {
		c := e.bare()
		if e.start < off {
			c.inline = slices.Clone(e.inline)
		}
		over = append(over, c)
		return fits(&c, 3)
	})
	return moves, over, err
}

// Gather joins the extents of a file from an offset on that follow each other within
// 1 MiB. The content does not change. It returns the offset to go on from, 0 at the end
// of the file.
func (tx *Txn) Gather(ino backend.Ino, from uint64) (next uint64, err error) {
	if err := tx.t.room.check(backend.MaxPutBytes); err != nil {
		return 0, err
	}
	err = tx.rewrite(ino, func(w *writer, r *record) error {
		next = 0
		var over []extent
		size := uint64(min(backend.MaxPutBytes, w.v.t.content.Limit()))
		err := scanExtents(w.kv, w.v.id, ino, from, math.MaxUint64-1, func(e *extent) error {
			if next == 0 {
				next = max(from, e.start)/size*size + size
			}
			if e.start >= next || len(over) == sweepMax {
				next = max(from+1, min(next, e.start))
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
		for len(over) > 0 && w.err == nil {
			n := 1
			for n < len(over) && over[n].start == over[n-1].end && !r.extents.void(&over[n]) {
				n++
			}
			if r.extents.void(&over[0]) {
				n = 1
			}
			if err := w.join(ino, r, over[:n], from, next); err != nil {
				return err
			}
			over = over[n:]
		}
		return w.err
	})
	return next, err
}

// join writes what the extents in all, of which each begins where the one before
// ends, have in [from, to) as one. A single one stays, unless it is void.
func (w *writer) join(ino backend.Ino, r *record, all []extent, from, to uint64) error {
	if r.extents.void(&all[0]) {
		return w.replace(ino, r, &all[0], 0, 0)
	}
	if len(all) == 1 {
		return nil
	}
	from, to = max(from, all[0].start), min(to, all[len(all)-1].end)
	data := make([]byte, to-from)
	for i := range all {
		if err := copyExtent(w.v.t.content, w.kv, &all[i], from, data); err != nil {
			return err
		}
	}
	for i := range all {
		if err := w.replace(ino, r, &all[i], from, to); err != nil {
			return err
		}
	}
	return w.put(ino, r, from, data)
}
