package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

// side is one of the two names of a rename.
type side struct {
	dir  *inode
	link Link
	ent  dent
	node *inode // nil: the name does not exist
}

// Rename moves a name inside the volume, replacing what newName led to. Flags:
// NoReplace, Exchange, Whiteout. Errors: those of rename(2); Busy for the root of
// a volume.
func (tx *Txn) Rename(parent backend.Ino, name string, newParent backend.Ino, newName string, flags RenameFlags) error {
	if !flags.Valid() {
		return backend.Invalid
	}
	if err := checkName(newName); err != nil {
		return err
	}
	from, err := tx.side(parent, name)
	if err != nil {
		return err
	}
	if from.node == nil {
		return backend.NotFound
	}
	to, err := tx.side(newParent, newName)
	if err != nil {
		return err
	}
	if done, err := tx.renameAllowed(from, to, flags); done || err != nil {
		return err
	}
	if flags&Exchange != 0 {
		return tx.exchange(from, to)
	}
	if flags&Whiteout == 0 {
		return tx.move(from, to, nil)
	}
	if err := tx.t.room.check(0); err != nil {
		return err
	}
	return tx.move(from, to, &inode{})
}

func (tx *Txn) side(dir backend.Ino, name string) (*side, error) {
	d, err := tx.liveDir(dir)
	if err != nil {
		return nil, err
	}
	s := &side{dir: d, link: Link{Parent: dir, Name: name}}
	s.ent, err = tx.find(d, name)
	if errors.Is(err, backend.NotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if s.ent.vol != 0 {
		return nil, backend.Busy
	}
	s.node, err = tx.load(s.ent.ino)
	return s, err
}

// renameAllowed checks the rules of rename(2). done: there is nothing to do.
func (tx *Txn) renameAllowed(from, to *side, flags RenameFlags) (done bool, err error) {
	fromDir := from.ent.typ == backend.TypeDir
	if fromDir {
		if in, err := tx.Within(to.link.Parent, from.ent.ino); err != nil || in {
			return false, orInvalid(err)
		}
	}
	if to.node == nil {
		if flags&Exchange != 0 {
			return false, backend.NotFound
		}
		return false, nil
	}
	if flags&NoReplace != 0 {
		return false, backend.Exist
	}
	if from.ent.ino == to.ent.ino {
		return true, nil
	}
	toDir := to.ent.typ == backend.TypeDir
	if flags&Exchange != 0 {
		if toDir {
			if in, err := tx.Within(from.link.Parent, to.ent.ino); err != nil || in {
				return false, orInvalid(err)
			}
		}
		return false, nil
	}
	switch {
	case fromDir && !toDir:
		return false, backend.NotDir
	case !fromDir && toDir:
		return false, backend.IsDir
	case toDir && to.node.rec.entries > 0:
		return false, backend.NotEmpty
	}
	return false, nil
}

func orInvalid(err error) error {
	if err != nil {
		return err
	}
	return backend.Invalid
}

// relink changes one name of ino from l to m.
func (w *writer) relink(ino backend.Ino, r *record, l, m Link) {
	if r.link == l {
		r.link = m
		return
	}
	w.delete(linkKey(w.v.id, ino, l))
	w.putLink(ino, m)
}

// move does a rename; white, if not nil, becomes the inode of what is left under
// the old name.
func (tx *Txn) move(from, to *side, white *inode) error {
	now := tx.t.clock()
	same := from.dir == to.dir
	frec, trec := from.dir.rec, to.dir.rec
	if white == nil {
		frec.entries--
	}
	tx.touchDir(&frec, now)
	if same {
		trec = frec
	}
	if to.node == nil {
		trec.entries++
	}
	tx.touchDir(&trec, now)
	var src, dst record
	err := tx.commit(func(w *writer) error {
		src = from.node.rec
		tx.touch(&src, now)
		w.relink(from.ent.ino, &src, from.link, to.link)
		if to.node != nil {
			dst = to.node.rec
			tx.touch(&dst, now)
			if err := w.dropLink(to.ent.ino, &dst, to.link); err != nil {
				return err
			}
			w.putInode(to.ent.ino, &dst)
		}
		if white == nil {
			w.delete(direntKey(tx.v.id, from.link.Parent, from.link.Name))
		} else {
			tx.putWhiteout(w, white, from, now)
		}
		w.putDirent(to.link.Parent, to.link.Name, from.ent)
		w.putInode(from.ent.ino, &src)
		if !same {
			w.putInode(from.dir.ino, &frec)
		}
		w.putInode(to.dir.ino, &trec)
		return w.err
	})
	if err != nil {
		return err
	}
	if !same {
		tx.setRecord(from.dir, &frec)
	}
	tx.setRecord(to.dir, &trec)
	tx.setRecord(from.node, &src)
	tx.uncacheName(from.dir, from.link.Name)
	tx.cacheName(to.dir, to.link.Name, from.ent)
	tx.movedChanges(from, to)
	if to.node != nil {
		tx.setRecord(to.node, &dst)
		tx.unlinked(to.node)
	}
	if white != nil {
		tx.cacheName(from.dir, from.link.Name, dent{ino: white.ino, typ: backend.TypeChar})
		tx.v.cachePut(white)
		tx.changed(Change{Kind: EntryAdded, Node: tx.node(from.link.Parent), Name: from.link.Name, Child: tx.node(white.ino)})
	}
	return nil
}

// putWhiteout makes n the whiteout that stays under from's name.
func (tx *Txn) putWhiteout(w *writer, n *inode, from *side, now backend.Time) {
	n.rec = tx.newNode(w, CreateSpec{Type: backend.TypeChar}, &from.dir.rec, now)
	n.rec.link = from.link
	n.ino = w.nextIno()
	w.putDirent(from.link.Parent, from.link.Name, dent{ino: n.ino, typ: backend.TypeChar})
	w.putInode(n.ino, &n.rec)
}

// movedChanges reports a move; what to led to before must still be loaded.
func (tx *Txn) movedChanges(from, to *side) {
	isDir := from.ent.typ == backend.TypeDir
	if isDir {
		tx.v.dirGen++
	}
	child := tx.node(from.ent.ino)
	tx.changed(Change{Kind: EntryRemoved, Node: tx.node(from.link.Parent), Name: from.link.Name, Child: child, Dir: isDir})
	if to.node != nil {
		tx.changed(Change{Kind: EntryRemoved, Node: tx.node(to.link.Parent), Name: to.link.Name,
			Child: tx.node(to.ent.ino), Dir: to.ent.typ == backend.TypeDir})
	}
	tx.changed(Change{Kind: EntryAdded, Node: tx.node(to.link.Parent), Name: to.link.Name, Child: child, Dir: isDir})
	tx.changed(Change{Kind: AttrChanged, Node: child})
}

func (tx *Txn) exchange(a, b *side) error {
	now := tx.t.clock()
	arec, brec := a.dir.rec, b.dir.rec
	tx.touchDir(&arec, now)
	tx.touchDir(&brec, now)
	var an, bn record
	err := tx.commit(func(w *writer) error {
		an, bn = a.node.rec, b.node.rec
		tx.touch(&an, now)
		tx.touch(&bn, now)
		w.relink(a.ent.ino, &an, a.link, b.link)
		w.relink(b.ent.ino, &bn, b.link, a.link)
		w.putDirent(b.link.Parent, b.link.Name, a.ent)
		w.putDirent(a.link.Parent, a.link.Name, b.ent)
		w.putInode(a.ent.ino, &an)
		w.putInode(b.ent.ino, &bn)
		w.putInode(a.dir.ino, &arec)
		if a.dir != b.dir {
			w.putInode(b.dir.ino, &brec)
		}
		return w.err
	})
	if err != nil {
		return err
	}
	tx.setRecord(a.dir, &arec)
	if a.dir != b.dir {
		tx.setRecord(b.dir, &brec)
	}
	tx.setRecord(a.node, &an)
	tx.setRecord(b.node, &bn)
	tx.cacheName(a.dir, a.link.Name, b.ent)
	tx.cacheName(b.dir, b.link.Name, a.ent)
	if a.ent.typ == backend.TypeDir || b.ent.typ == backend.TypeDir {
		tx.v.dirGen++
	}
	for _, x := range []struct{ at, was, is *side }{{a, a, b}, {b, b, a}} {
		p := tx.node(x.at.link.Parent)
		tx.changed(Change{Kind: EntryRemoved, Node: p, Name: x.at.link.Name, Child: tx.node(x.was.ent.ino), Dir: x.was.ent.typ == backend.TypeDir})
		tx.changed(Change{Kind: EntryAdded, Node: p, Name: x.at.link.Name, Child: tx.node(x.is.ent.ino), Dir: x.is.ent.typ == backend.TypeDir})
		tx.changed(Change{Kind: AttrChanged, Node: tx.node(x.at.ent.ino)})
	}
	return nil
}
