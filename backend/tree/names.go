package tree

import (
	"errors"
	"sort"

	"github.com/warrenfs/warren/backend"
)

// CreateSpec says what Create makes.
type CreateSpec struct {
	Type   backend.FileType
	Mode   uint32 // 07777
	Rdev   uint32 // of a device
	Target string // of a symlink, 1 to backend.MaxSymlink bytes
	Denied bool   // made under the deny-list: marks the inode
	Xattrs []Xattr
}

// maxLinks an inode may have, as on ext4.
const maxLinks = 65000

// vacant loads directory dir and checks that name can be made in it.
func (tx *Txn) vacant(dir backend.Ino, name string) (*inode, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	p, err := tx.liveDir(dir)
	if err != nil {
		return nil, err
	}
	switch _, err = tx.find(p, name); {
	case err == nil:
		return nil, backend.Exist
	case errors.Is(err, backend.NotFound):
		return p, nil
	}
	return nil, err
}

// newNode is the record of a node made as s says, by Op, in parent.
func (tx *Txn) newNode(w *writer, s CreateSpec, parent *record, now backend.Time) record {
	r := w.newRecord(s.Type, s.Mode, tx.Op, now)
	r.rdev, r.target = s.Rdev, s.Target
	r.size = uint64(len(s.Target))
	if s.Denied {
		r.flags |= flagDenied
	}
	if s.Type == backend.TypeSymlink {
		r.mode = 0o777
	}
	if parent.mode&0o2000 != 0 {
		r.gid = parent.gid
		if s.Type == backend.TypeDir {
			r.mode |= 0o2000
		}
	}
	return r
}

// Create makes a new node under name in directory parent. Errors: Exist,
// NotDir, NotFound (a removed directory), NameTooLong, Invalid, NoSpace.
func (tx *Txn) Create(parent backend.Ino, name string, s CreateSpec) (backend.Attr, error) {
	if s.Type == backend.TypeSymlink && (s.Target == "" || len(s.Target) > backend.MaxSymlink) {
		return backend.Attr{}, backend.NameTooLong
	}
	p, err := tx.vacant(parent, name)
	if err != nil {
		return backend.Attr{}, err
	}
	if err := tx.t.room.check(0); err != nil {
		return backend.Attr{}, err
	}
	now := tx.t.clock()
	prec := p.rec
	prec.entries++
	tx.touchDir(&prec, now)
	n := &inode{}
	e := dent{typ: s.Type}
	err = tx.commit(func(w *writer) error {
		n.rec = tx.newNode(w, s, &prec, now)
		n.rec.link = Link{Parent: parent, Name: name}
		n.ino = w.nextIno()
		if ev := tx.Op.Event; ev != nil {
			ev.Node, ev.Created = tx.node(n.ino), true
		}
		w.putXattrs(n.ino, &n.rec, s.Xattrs)
		e.ino = n.ino
		w.putDirent(parent, name, e)
		w.putInode(n.ino, &n.rec)
		w.putInode(parent, &prec)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	tx.setRecord(p, &prec)
	tx.cacheName(p, name, e)
	if s.Type == backend.TypeDir {
		n.names = &names{whole: true}
	}
	tx.v.cachePut(n)
	tx.changed(Change{Kind: EntryAdded, Node: tx.node(parent), Name: name, Child: tx.node(n.ino), Dir: s.Type == backend.TypeDir})
	return n.rec.attr(tx.node(n.ino)), nil
}

// CreateOrphan makes a regular file without a name (O_TMPFILE) in the manner of
// directory dir, whose group it gets if that is set-group-id. Link may give it a
// name if linkable; otherwise it goes when nobody holds it.
func (tx *Txn) CreateOrphan(dir backend.Ino, s CreateSpec, linkable bool) (backend.Attr, error) {
	d, err := tx.liveDir(dir)
	if err != nil {
		return backend.Attr{}, err
	}
	if err := tx.t.room.check(0); err != nil {
		return backend.Attr{}, err
	}
	now := tx.t.clock()
	n := &inode{}
	err = tx.commit(func(w *writer) error {
		n.rec = tx.newNode(w, s, &d.rec, now)
		n.rec.nlink = 0
		if linkable {
			n.rec.flags |= flagLinkable
		}
		n.ino = w.nextIno()
		w.putXattrs(n.ino, &n.rec, s.Xattrs)
		w.putInode(n.ino, &n.rec)
		w.putTodo(n.ino)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	tx.v.cachePut(n)
	tx.v.orphans[n.ino] = true
	return n.rec.attr(tx.node(n.ino)), nil
}

// Link gives ino one more name. Errors: NotPermitted for a directory,
// NotFound for an orphan that may not be linked, Exist, TooManyLinks.
func (tx *Txn) Link(ino, newParent backend.Ino, newName string) (backend.Attr, error) {
	n, err := tx.load(ino)
	if err != nil {
		return backend.Attr{}, err
	}
	if err := tx.t.room.check(0); err != nil {
		return backend.Attr{}, err
	}
	switch {
	case n.rec.typ == backend.TypeDir:
		return backend.Attr{}, backend.NotPermitted
	case n.rec.nlink == 0 && n.rec.flags&flagLinkable == 0:
		return backend.Attr{}, backend.NotFound
	case n.rec.nlink >= maxLinks:
		return backend.Attr{}, backend.TooManyLinks
	}
	p, err := tx.vacant(newParent, newName)
	if err != nil {
		return backend.Attr{}, err
	}
	now := tx.t.clock()
	prec, rec := p.rec, n.rec
	prec.entries++
	tx.touchDir(&prec, now)
	tx.touch(&rec, now)
	rec.nlink++
	rec.flags &^= flagLinkable
	l := Link{Parent: newParent, Name: newName}
	if n.rec.nlink == 0 {
		rec.link = l
	}
	e := dent{ino: ino, typ: rec.typ}
	err = tx.commit(func(w *writer) error {
		if n.rec.nlink == 0 {
			w.delete(todoKey(tx.v.id, ino))
			if len(rec.extents.barriers) > 0 {
				w.putTodo(ino)
			}
		} else {
			w.putLink(ino, l)
		}
		w.putDirent(newParent, newName, e)
		w.putInode(ino, &rec)
		w.putInode(newParent, &prec)
		return w.err
	})
	if err != nil {
		return backend.Attr{}, err
	}
	tx.setRecord(p, &prec)
	tx.setRecord(n, &rec)
	delete(tx.v.orphans, ino)
	tx.cacheName(p, newName, e)
	tx.changed(Change{Kind: EntryAdded, Node: tx.node(newParent), Name: newName, Child: tx.node(ino)})
	tx.changed(Change{Kind: AttrChanged, Node: tx.node(ino)})
	return rec.attr(tx.node(ino)), nil
}

// dropLink takes the name l from ino's record and back-links. When it was the
// last the inode becomes an orphan.
func (w *writer) dropLink(ino backend.Ino, r *record, l Link) error {
	r.nlink--
	if r.typ == backend.TypeDir {
		r.nlink = 0
	}
	if r.nlink == 0 {
		r.link = Link{}
		w.putTodo(ino)
		return w.err
	}
	if r.link != l {
		w.delete(linkKey(w.v.id, ino, l))
		return w.err
	}
	return w.promote(ino, r)
}

// promote makes another back-link ino's first name: the next after the one that
// goes, in the order of keys, or else the first. Names that are removed one
// after the other leave deleted keys behind, and a scan from the start would
// pass all of them each time.
func (w *writer) promote(ino backend.Ino, r *record) error {
	start := appendIno(nil, famLink, w.v.id, ino)
	gone := linkKey(w.v.id, ino, r.link)
	r.link = Link{}
	take := func(k []byte) error {
		r.link = linkOf(k)
		return backend.ErrStop
	}
	err := w.kv.ScanKeys(gone, backend.PrefixEnd(start), take)
	if err == nil && r.link.Parent == 0 {
		err = w.kv.ScanKeys(start, gone, take)
	}
	if err != nil {
		return err
	}
	if r.link.Parent == 0 {
		return &backend.Error{Op: "unlink", Path: backend.Node(w.v.id, ino).String(), Kind: backend.IO,
			Err: errors.New("a back-link is missing; run warren fsck")}
	}
	w.delete(linkKey(w.v.id, ino, r.link))
	return w.err
}

// Unlink removes a name that is not a directory's. Errors: NotFound, IsDir.
func (tx *Txn) Unlink(parent backend.Ino, name string) error {
	return tx.remove(parent, name, false)
}

// Rmdir removes an empty directory. Errors: NotFound, NotDir, NotEmpty; Busy
// for the root of a volume.
func (tx *Txn) Rmdir(parent backend.Ino, name string) error {
	return tx.remove(parent, name, true)
}

func (tx *Txn) remove(parent backend.Ino, name string, dir bool) error {
	p, n, err := tx.victim(parent, name, dir)
	if err != nil {
		return err
	}
	now := tx.t.clock()
	prec := p.rec
	prec.entries--
	tx.touchDir(&prec, now)
	var rec record
	err = tx.commit(func(w *writer) error {
		rec = n.rec
		tx.touch(&rec, now)
		if err := w.dropLink(n.ino, &rec, Link{Parent: parent, Name: name}); err != nil {
			return err
		}
		w.delete(direntKey(tx.v.id, parent, name))
		w.putInode(n.ino, &rec)
		w.putInode(parent, &prec)
		return w.err
	})
	if err != nil {
		return err
	}
	tx.setRecord(p, &prec)
	tx.setRecord(n, &rec)
	tx.uncacheName(p, name)
	tx.changed(Change{Kind: EntryRemoved, Node: tx.node(parent), Name: name, Child: tx.node(n.ino), Dir: dir})
	tx.unlinked(n)
	return nil
}

// unlinked follows up on an inode that lost a name.
func (tx *Txn) unlinked(n *inode) {
	if n.rec.typ != backend.TypeDir {
		tx.changed(Change{Kind: AttrChanged, Node: tx.node(n.ino)})
	}
	if n.rec.nlink > 0 {
		return
	}
	if tx.t.held(tx.node(n.ino)) {
		tx.v.orphans[n.ino] = false
	} else {
		tx.t.todo.add(tx.node(n.ino))
	}
}

// victim finds what remove is to remove.
func (tx *Txn) victim(parent backend.Ino, name string, dir bool) (p, n *inode, err error) {
	if p, err = tx.dir(parent); err != nil {
		return nil, nil, err
	}
	e, err := tx.find(p, name)
	switch {
	case err != nil:
		return nil, nil, err
	case e.typ == backend.TypeDir && !dir:
		return nil, nil, backend.IsDir
	case e.typ != backend.TypeDir && dir:
		return nil, nil, backend.NotDir
	case e.vol != 0:
		return nil, nil, backend.Busy
	}
	if n, err = tx.load(e.ino); err != nil {
		return nil, nil, err
	}
	if dir && n.rec.entries > 0 {
		return nil, nil, backend.NotEmpty
	}
	return p, n, nil
}

// List gives all names of directory ino, sorted.
func (tx *Txn) List(ino backend.Ino) ([]Dirent, error) {
	d, err := tx.dir(ino)
	if err != nil {
		return nil, err
	}
	if (d.names == nil || !d.names.whole) && d.rec.entries <= maxNames {
		if err := tx.loadNames(d); err != nil {
			return nil, err
		}
	}
	out := make([]Dirent, 0, d.rec.entries)
	add := func(name string, e dent) {
		out = append(out, Dirent{Name: name, Node: e.node(tx.v.id), Type: e.typ})
	}
	if d.names != nil && d.names.whole {
		for name, e := range d.names.byName {
			add(name, e)
		}
		sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
		return out, nil
	}
	err = tx.scanNames(d, add)
	return out, err
}
