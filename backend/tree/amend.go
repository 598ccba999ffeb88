package tree

import "github.com/warrenfs/warren/backend"

// Amend makes p, at most backend.MaxPutBytes, all that a regular file has from off
// on: what it had there is gone, and its size is off+len(p). It is one Update, so
// that no reader and no crash finds a part of it. Errors: TooBig, NoSpace, IsDir,
// Invalid; Quota, where p does not fit: nothing has changed then.
func (tx *Txn) Amend(ino backend.Ino, p []byte, off uint64) (backend.Attr, error) {
	n, err := tx.load(ino)
	if err != nil {
		return backend.Attr{}, err
	}
	end := off + uint64(len(p))
	if end < off || len(p) > backend.MaxPutBytes {
		return backend.Attr{}, backend.TooBig
	}
	if err := sizable(&n.rec, end); err != nil {
		return backend.Attr{}, err
	}
	if len(p) > 0 {
		if err := tx.t.room.check(len(p)); err != nil {
			return backend.Attr{}, err
		}
	}
	if err := tx.roomForBarrier(n); err != nil {
		return backend.Attr{}, err
	}
	now := tx.t.clock()
	var r record
	err = tx.commit(func(w *writer) error {
		r = n.rec
		tx.touchDir(&r, now)
		if tx.Op.KillPriv {
			r.mode = KillPriv(r.mode)
		}
		if err := w.resize(ino, &r, off); err != nil {
			return err
		}
		if len(p) > 0 {
			if err := w.write(ino, &r, off, p); err != nil {
				return err
			}
		}
		r.size = end
		w.putInode(ino, &r)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	from := min(off, n.rec.size)
	tx.setRecord(n, &r)
	if len(p) > 0 {
		tx.noteWrite(n, off, end)
	}
	tx.followUp(n)
	n.rewritten = tx.lsn
	tx.changed(Change{Kind: DataChanged, Node: tx.node(ino), Off: from, Sized: true})
	return r.attr(tx.node(ino)), nil
}
