package tree

import "github.com/warrenfs/warren/backend"

// Replace gives the file ino the name name in directory dir, in place of what has
// it, if anything does, as one change: Link and Rename at once, without a name in
// between. Nothing is done if the name leads to ino already. Errors: Link's but
// Exist; IsDir for the name of a directory, Busy for that of a volume.
func (tx *Txn) Replace(ino, dir backend.Ino, name string) (backend.Attr, error) {
	if err := checkName(name); err != nil {
		return backend.Attr{}, err
	}
	to, err := tx.side(dir, name)
	if err != nil {
		return backend.Attr{}, err
	}
	if to.node == nil {
		return tx.Link(ino, dir, name)
	}
	n, err := tx.load(ino)
	if err != nil {
		return backend.Attr{}, err
	}
	switch {
	case to.ent.typ == backend.TypeDir:
		return backend.Attr{}, backend.IsDir
	case n.rec.typ == backend.TypeDir:
		return backend.Attr{}, backend.NotPermitted
	case n.rec.nlink == 0 && n.rec.flags&flagLinkable == 0:
		return backend.Attr{}, backend.NotFound
	case to.ent.ino == ino:
		return n.rec.attr(tx.node(ino)), nil
	case n.rec.nlink >= maxLinks:
		return backend.Attr{}, backend.TooManyLinks
	}
	if err := tx.t.room.check(0); err != nil {
		return backend.Attr{}, err
	}
	return tx.supplant(n, to)
}

// supplant gives n the name at to, which another file has.
func (tx *Txn) supplant(n *inode, to *side) (backend.Attr, error) {
	now := tx.t.clock()
	prec := to.dir.rec
	tx.touchDir(&prec, now)
	e := dent{ino: n.ino, typ: n.rec.typ}
	var rec, old record
	err := tx.commit(func(w *writer) error {
		rec, old = n.rec, to.node.rec
		tx.touch(&rec, now)
		tx.touch(&old, now)
		rec.flags &^= flagLinkable
		rec.nlink++
		if n.rec.nlink == 0 {
			rec.link = to.link
			w.delete(todoKey(tx.v.id, n.ino))
			if len(rec.extents.barriers) > 0 {
				w.putTodo(n.ino)
			}
		} else {
			w.putLink(n.ino, to.link)
		}
		if err := w.dropLink(to.ent.ino, &old, to.link); err != nil {
			return err
		}
		w.putInode(to.ent.ino, &old)
		w.putDirent(to.link.Parent, to.link.Name, e)
		w.putInode(n.ino, &rec)
		w.putInode(to.dir.ino, &prec)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	tx.setRecord(to.dir, &prec)
	tx.setRecord(n, &rec)
	tx.setRecord(to.node, &old)
	delete(tx.v.orphans, n.ino)
	tx.cacheName(to.dir, to.link.Name, e)
	at := tx.node(to.link.Parent)
	tx.changed(Change{Kind: EntryRemoved, Node: at, Name: to.link.Name, Child: tx.node(to.ent.ino)})
	tx.changed(Change{Kind: EntryAdded, Node: at, Name: to.link.Name, Child: tx.node(n.ino)})
	tx.changed(Change{Kind: AttrChanged, Node: tx.node(n.ino)})
	tx.unlinked(to.node)
	return rec.attr(tx.node(n.ino)), nil
}
