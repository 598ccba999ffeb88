package tree

import "github.com/warrenfs/warren/backend"

// setID are the mode bits that give a program its file's owner's rights.
const setID = 0o6000

// Succeed makes the regular file ino the successor of old, which it is about to
// replace: it counts as made by whom, and when, old was. Its set-id bits go if
// the acting agent did not make old, since they would pass as that maker's.
// Invalid where one of them is no regular file.
func (tx *Txn) Succeed(ino, old backend.Ino) error {
	n, err := tx.load(ino)
	if err != nil {
		return err
	}
	o, err := tx.load(old)
	if err != nil {
		return err
	}
	if n.rec.typ != backend.TypeRegular || o.rec.typ != backend.TypeRegular {
		return backend.Invalid
	}
	r := n.rec
	if o.rec.createdBy != tx.Op.Agent {
		r.mode &^= setID
	}
	r.createdBy, r.btime = o.rec.createdBy, o.rec.btime
	if err := tx.commit(func(w *writer) error { w.putInode(ino, &r); return w.err }); err != nil {
		return err
	}
	tx.setRecord(n, &r)
	return nil
}
