package tree

import (
	"errors"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// Write puts p at off, at most backend.MaxPutBytes of it: N tells how many
// bytes went in. Errors: TooBig past MaxFileSize, NoSpace, IsDir, Invalid.
func (tx *Txn) Write(ino backend.Ino, p []byte, off uint64) (WriteResult, error) {
	n, err := tx.load(ino)
	if err != nil {
		return WriteResult{}, err
	}
	return tx.write(n, p, off)
}

// Append puts p at the end of the file, as one step.
func (tx *Txn) Append(ino backend.Ino, p []byte) (WriteResult, error) {
	n, err := tx.load(ino)
	if err != nil {
		return WriteResult{}, err
	}
	return tx.write(n, p, n.rec.size)
}

func (tx *Txn) write(n *inode, p []byte, off uint64) (WriteResult, error) {
	if len(p) > backend.MaxPutBytes {
		p = p[:backend.MaxPutBytes]
	}
	end := off + uint64(len(p))
	if end < off {
		return WriteResult{}, backend.TooBig
	}
	if err := sizable(&n.rec, end); err != nil {
		return WriteResult{}, err
	}
	node := tx.node(n.ino)
	if len(p) == 0 {
		return WriteResult{Off: off, Attr: n.rec.attr(node)}, nil
	}
	if err := tx.t.room.check(len(p)); err != nil {
		return WriteResult{}, err
	}
	now := tx.t.clock()
	var r record
	sized := end > n.rec.size
	err := tx.commit(func(w *writer) error {
		r = n.rec
		tx.touchDir(&r, now)
		if tx.Op.KillPriv {
			r.mode = KillPriv(r.mode)
		}
		if err := w.write(n.ino, &r, off, p); err != nil {
			return err
		}
		r.size = max(r.size, end)
		w.putInode(n.ino, &r)
		return w.err
	})
	if left := tx.left(); errors.Is(err, backend.Quota) && left > 0 && left < uint64(len(p)) {
		return tx.write(n, p[:left], off)
	}
	if err != nil {
		return WriteResult{}, err
	}
	tx.setRecord(n, &r)
	tx.noteWrite(n, off, end)
	tx.noteCut(n)
	tx.changed(Change{Kind: DataChanged, Node: node, Off: off, Len: uint64(len(p)), Sized: sized})
	return WriteResult{N: len(p), Off: off, Attr: r.attr(node)}, nil
}

// write replaces bytes [off, off+len(p)) of ino by p.
func (w *writer) write(ino backend.Ino, r *record, off uint64, p []byte) error {
	lo, hi := off, off+uint64(len(p))
	winLo, winHi := lo, hi
	small := len(p) < BlockSize
	if small {
		winLo = lo &^ (BlockSize - 1)
		winHi = (hi + BlockSize - 1) &^ (BlockSize - 1)
	}
	var over []extent
	if winLo < r.extents.high {
		var err error
		if over, err = w.overlap(ino, r.extents.high, winLo, winHi); err != nil {
			return err
		}
	}
	if small && len(over) > 0 {
		var err error
		if lo, hi, p, err = w.fill(r, over, winLo, winHi, off, p); err != nil {
			return err
		}
	}
	for i := range over {
		if err := w.replace(ino, r, &over[i], lo, hi); err != nil {
			return err
		}
	}
	return w.put(ino, r, lo, p)
}

// overlap lists the extents with bytes in [lo, hi), of which none ends after
// high; inline bytes are copied.
func (w *writer) overlap(ino backend.Ino, high, lo, hi uint64) ([]extent, error) {
	var out []extent
	err := w.extentsIn(w.v, ino, high, lo, hi, func(e *extent) error {
		c := *e
		c.inline = slices.Clone(e.inline)
		out = append(out, c)
		return nil
	})
	return out, err
}

// fill widens a small write by what its blocks [winLo, winHi) hold already.
func (w *writer) fill(r *record, over []extent, winLo, winHi, off uint64, p []byte) (lo, hi uint64, data []byte, err error) {
	lo, hi = off, off+uint64(len(p))
	for i := range over {
		if e := &over[i]; !r.extents.void(e) {
			lo = min(lo, max(e.start, winLo))
			hi = max(hi, min(e.end, winHi))
		}
	}
	if hi-lo == uint64(len(p)) {
		return lo, hi, p, nil
	}
	data = make([]byte, hi-lo)
	for i := range over {
		if e := &over[i]; !r.extents.void(e) {
			if err := copyExtent(w.v.t.content, w.kv, e, lo, data); err != nil {
				return 0, 0, nil, err
			}
		}
	}
	copy(data[off-lo:], p)
	return lo, hi, data, nil
}

// replace takes [lo, hi) out of the extent e; what stands before and after
// stays. A void extent goes whole.
func (w *writer) replace(ino backend.Ino, r *record, e *extent, lo, hi uint64) error {
	if r.extents.void(e) {
		w.deleteExtent(ino, e.end)
		if r.extents.uncounted(e) {
			w.count(r, e.length(), 0)
		}
		return w.release(e, 0)
	}
	if e.end <= lo || e.start >= hi {
		return w.err
	}
	parts := 0
	if e.start < lo {
		parts++
		left := e.cut(e.start, lo)
		w.putExtent(ino, &left)
	}
	if e.end > hi {
		parts++
		right := e.cut(hi, e.end)
		w.putExtent(ino, &right)
	} else {
		w.deleteExtent(ino, e.end)
	}
	gone := min(e.end, hi) - max(e.start, lo)
	if parts > 0 && e.inline == nil {
		w.cut.note(e, gone)
	}
	w.count(r, gone, 0)
	return w.release(e, parts)
}

// count notes that r lost and gained so many content bytes.
func (w *writer) count(r *record, lost, gained uint64) {
	w.use.bytes += gained - min(lost, w.use.bytes)
	r.bytes += gained - min(lost, r.bytes)
}

// release notes that parts extents name e's content where e did.
func (w *writer) release(e *extent, parts int) error {
	if e.inline != nil || parts == 1 || w.err != nil {
		return w.err
	}
	return w.share(e.ref, parts-1)
}

// share adds delta to the number of extents that name ref, and frees its
// content when none is left.
func (w *writer) share(ref backend.Ref, delta int) error {
	key := sharedKey(ref.ID)
	n, err := sharers(w.kv, ref.ID)
	if err != nil {
		return err
	}
	n += delta
	switch {
	case n <= 0:
		w.delete(key)
		if w.err == nil {
			w.err = w.v.t.content.Free(w.kv, ref)
		}
	case n == 1:
		w.delete(key)
	default:
		e := encoder{w.buf[:0]}
		e.u(uint64(n))
		w.buf = e.b
		w.set(key, w.buf)
	}
	return w.err
}

func (w *writer) deleteExtent(ino backend.Ino, end uint64) {
	w.moved = append(w.moved, moved{ino, end, true})
	w.delete(extentKey(w.v.id, ino, end))
}

func (w *writer) putExtent(ino backend.Ino, e *extent) {
	w.moved = append(w.moved, moved{ino, e.end, false})
	e.epoch = w.v.info.Epoch
	w.buf = e.encode(w.buf[:0])
	w.set(extentKey(w.v.id, ino, e.end), w.buf)
}

// put stores data as new extents from off on.
func (w *writer) put(ino backend.Ino, r *record, off uint64, data []byte) error {
	limit := uint64(w.v.t.content.Limit())
	w.count(r, 0, uint64(len(data)))
	for len(data) > 0 && w.err == nil {
		n := min(uint64(len(data)), limit-off%limit)
		e := extent{start: off, end: off + n, gen: r.extents.gen}
		if n <= InlineMax {
			e.inline = data[:n]
		} else {
			id := uint64(w.v.id)<<40 | w.use.nextContent
			w.use.nextContent++
			if e.ref, w.err = w.v.t.content.Put(w.kv, id, data[:n]); w.err != nil {
				return w.err
			}
		}
		w.putExtent(ino, &e)
		off, data = off+n, data[n:]
	}
	r.extents.high = max(r.extents.high, off)
	return w.err
}
