package tree

import (
	"github.com/warrenfs/warren/backend"
)

// Setattr changes attributes of ino. Changing the owner or group, or the size
// with Op.KillPriv, clears set-id bits as Linux does. Errors: Invalid or IsDir
// for the size of what has none, TooBig.
func (tx *Txn) Setattr(ino backend.Ino, s backend.SetAttr) (backend.Attr, error) {
	n, err := tx.load(ino)
	if err != nil {
		return backend.Attr{}, err
	}
	if s.Size != nil {
		if err := sizable(&n.rec, *s.Size); err != nil {
			return backend.Attr{}, err
		}
		if err := tx.roomForBarrier(n); err != nil {
			return backend.Attr{}, err
		}
	}
	now := tx.t.clock()
	var r record
	resized := s.Size != nil && *s.Size != n.rec.size
	err = tx.commit(func(w *writer) error {
		r = n.rec
		tx.touch(&r, now)
		if s.Size != nil {
			if err := w.resize(ino, &r, *s.Size); err != nil {
				return err
			}
			r.mtime = now
		}
		tx.setOwner(&r, s)
		setTimes(&r, s)
		w.putInode(ino, &r)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	old := n.rec.size
	tx.setRecord(n, &r)
	tx.followUp(n)
	if resized {
		tx.changed(Change{Kind: DataChanged, Node: tx.node(ino), Off: min(old, r.size), Sized: true})
	} else {
		tx.changed(Change{Kind: AttrChanged, Node: tx.node(ino)})
	}
	return r.attr(tx.node(ino)), nil
}

func sizable(r *record, size uint64) error {
	switch {
	case r.typ == backend.TypeDir:
		return backend.IsDir
	case r.typ != backend.TypeRegular:
		return backend.Invalid
	case size > backend.MaxFileSize:
		return backend.TooBig
	}
	return nil
}

// setOwner applies mode, uid and gid. A mode given explicitly stands.
func (tx *Txn) setOwner(r *record, s backend.SetAttr) {
	if s.UID != nil {
		r.uid = *s.UID
	}
	if s.GID != nil {
		r.gid = *s.GID
	}
	owner := s.UID != nil || s.GID != nil
	if r.typ != backend.TypeDir && (owner || (s.Size != nil && tx.Op.KillPriv)) {
		r.mode = KillPriv(r.mode)
	}
	if s.Mode != nil {
		r.mode = *s.Mode & 0o7777
	}
}

// KillPriv is a mode without set-user-id, and without set-group-id where the group may
// execute (without that bit it marks mandatory locking and stays).
func KillPriv(mode uint32) uint32 {
	mode &^= 0o4000
	if mode&0o010 != 0 {
		mode &^= 0o2000
	}
	return mode
}

func setTimes(r *record, s backend.SetAttr) {
	if s.Atime != nil {
		r.atime = *s.Atime
	}
	if s.Mtime != nil {
		r.mtime = *s.Mtime
	}
	if s.Ctime != nil {
		r.ctime = *s.Ctime
	}
}

// Readlink gives a symlink's target. Invalid for anything else.
func (tx *Txn) Readlink(ino backend.Ino) (string, error) {
	n, err := tx.load(ino)
	if err != nil {
		return "", err
	}
	if n.rec.typ != backend.TypeSymlink {
		return "", backend.Invalid
	}
	return n.rec.target, nil
}
