package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

const (
	// thinMin is how long a content is, in bytes, of which the rest is worth
	// writing anew when a third of it was overwritten.
	thinMin = 8 << 10
	// thinLooks is how often a content is looked at, about, while all of it is
	// overwritten piece by piece: a look at a long one costs more than a write.
	thinLooks = 4
	// oneLook is what the chances of looks add up to for each look.
	oneLook = 1 << 10
)

// How much of a content may be named still for the rest to be written anew, in
// 24ths: soon after a write, and when nothing changes.
const (
	thinSoon   = 16
	thinAtRest = 21
)

// remains is a content of which a write left a part: where in its file it is, or was.
type remains struct {
	span
	id   uint64
	lost uint64 // bytes that the write took
}

// cut is what one Update took of contents of which it left a part.
type cut struct {
	lost uint64     // bytes
	left [2]remains // of the first and the last long one; id 0: none
}

// note notes that lost bytes of e were taken, and some left. A content is given
// back whole, when nothing of it is named any more: one of which little is left
// takes the disk as one that is whole.
func (c *cut) note(e *extent, lost uint64) {
	c.lost += lost
	if e.ref.Length < thinMin || uint64(e.off) > e.start {
		return
	}
	from := e.start - uint64(e.off)
	left := remains{span{from, from + uint64(e.ref.Length)}, e.ref.ID, lost}
	if c.left[0].id == 0 {
		c.left[0] = left
	} else {
		c.left[1] = left
	}
}

// noteCut leaves to the reclaimer what the last change of n left of contents: now
// and then at once, all of them for when nothing changes.
func (tx *Txn) noteCut(n *inode) {
	if tx.cut.lost == 0 {
		return
	}
	tx.fray(n, tx.cut.lost)
	for _, l := range tx.cut.left {
		if l.id == 0 {
			continue
		}
		chance := min(oneLook*thinLooks*l.lost/(l.to-l.from), oneLook)
		if sum := tx.t.todo.looks.Add(chance); sum/oneLook != (sum-chance)/oneLook {
			tx.t.todo.addRun(nodeRun{tx.node(n.ino), l})
		}
	}
}

// thin writes what is left of a content anew, piece by piece, if that is no more
// than most 24ths, and nothing but this stretch of the file names it. What it
// writes was paid for by what was overwritten before: twice that at most by
// thinSoon, seven times by thinAtRest, once.
func (tx *Txn) thin(ino backend.Ino, left remains, most uint64) error {
	return tx.rewrite(ino, func(w *writer, r *record) error {
		pieces, err := w.pieces(ino, r, left, most)
		if err != nil {
			return err
		}
		for i := range pieces {
			p := &pieces[i]
			data := make([]byte, p.length())
			if err := copyExtent(w.v.t.content, w.kv, p, p.start, data); err != nil {
				return err
			}
			if err := w.replace(ino, r, p, p.start, p.end); err != nil {
				return err
			}
			if err := w.put(ino, r, p.start, data); err != nil {
				return err
			}
		}
		return nil
	})
}

// pieces gives the extents that name what is left. Error: errLeave.
func (w *writer) pieces(ino backend.Ino, r *record, left remains, most uint64) ([]extent, error) {
	var out []extent
	used := uint64(0)
	err := w.extentsIn(w.v, ino, r.extents.high, left.from, left.to, func(e *extent) error {
		if e.inline != nil || e.ref.ID != left.id {
			return nil
		}
		if used += e.length(); 24*used > most*(left.to-left.from) || r.extents.void(e) || len(out) == sweepMax {
			return errLeave
		}
		out = append(out, *e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errLeave
	}
	if n, err := sharers(w.kv, left.id); err != nil || n != len(out) {
		return nil, errors.Join(err, errLeave)
	}
	return out, nil
}
