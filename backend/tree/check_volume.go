package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

// found is what a check knows of one inode.
type found struct {
	rec     record
	names   uint32 // directory entries that lead here
	links   uint32 // back-links that were confirmed by an entry
	entries uint64 // of a directory
	parent  backend.Ino
	xattrs  uint32
	todo    bool
	bytes   uint64
	reached int8 // 0 unknown, 1 yes, -1 being looked at
}

// volcheck checks one volume.
type volcheck struct {
	*checker
	rec   volrec
	found map[backend.Ino]*found
	use   usage
}

func (v *volcheck) run() error {
	for _, step := range []func() error{v.inodes, v.dirents, v.links, v.todos, v.xattrs, v.extents, v.usage} {
		if err := step(); err != nil {
			return err
		}
	}
	v.judge()
	return nil
}

func (v *volcheck) scan(family byte, fn func(key, b []byte) error) error {
	p := appendVol(nil, family, v.rec.ID)
	return v.kv.Scan(p, backend.PrefixEnd(p), func(key, b []byte) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if len(key) < 13 {
			v.bad(v.rec.ID, 0, "malformed key %x", key)
			return nil
		}
		return fn(key, b)
	})
}

func (v *volcheck) inodes() error {
	return v.scan(famInode, func(key, b []byte) error {
		ino := inoOf(key)
		rec, err := decodeRecord(v.rec.ID, ino, b)
		if err != nil {
			v.bad(v.rec.ID, ino, "%v", err)
			return nil
		}
		v.found[ino] = &found{rec: rec}
		v.use.inodes++
		v.use.nextIno = max(v.use.nextIno, uint64(ino)+1)
		v.done++
		if v.opt.Progress != nil && v.done%1024 == 0 {
			v.opt.Progress(v.done)
		}
		return nil
	})
}

func (v *volcheck) dirents() error {
	return v.scan(famDirent, func(key, b []byte) error {
		dir, name := inoOf(key), nameOf(key)
		e, err := decodeDent(v.rec.ID, dir, b)
		if err != nil {
			v.bad(v.rec.ID, dir, "%v", err)
			return nil
		}
		d := v.found[dir]
		if d == nil || d.rec.typ != backend.TypeDir {
			v.bad(v.rec.ID, dir, "entry %q stands in what is no directory", name)
			return nil
		}
		d.entries++
		if e.vol != 0 {
			v.attachment(dir, name, e)
			return nil
		}
		n := v.found[e.ino]
		switch {
		case n == nil:
			v.bad(v.rec.ID, dir, "entry %q leads to inode %d, which does not exist", name, e.ino)
			return nil
		case n.rec.typ != e.typ:
			v.bad(v.rec.ID, dir, "entry %q says type %d, inode %d is of type %d", name, e.typ, e.ino, n.rec.typ)
		}
		n.names++
		n.parent = dir
		return v.backLink(dir, name, e.ino, n)
	})
}

// backLink checks that an entry has its back-link.
func (v *volcheck) backLink(dir backend.Ino, name string, ino backend.Ino, n *found) error {
	l := Link{Parent: dir, Name: name}
	if n.rec.link == l {
		n.links++
		return nil
	}
	_, err := v.kv.Get(linkKey(v.rec.ID, ino, l))
	if errors.Is(err, backend.NotFound) {
		v.bad(v.rec.ID, ino, "no back-link for its name %q in directory %d", name, dir)
		return nil
	}
	n.links++
	return err
}

func (v *volcheck) attachment(dir backend.Ino, name string, e dent) {
	for i := range v.vols {
		if o := &v.vols[i]; o.ID == e.vol {
			if o.removed || o.Parent != backend.Node(v.rec.ID, dir) || o.Name != name {
				v.bad(v.rec.ID, dir, "entry %q shows volume %x, which does not belong there", name, e.vol)
			}
			return
		}
	}
	v.bad(v.rec.ID, dir, "entry %q shows volume %x, which does not exist", name, e.vol)
}

func (v *volcheck) links() error {
	return v.scan(famLink, func(key, _ []byte) error {
		ino := inoOf(key)
		if len(key) < 22 {
			v.bad(v.rec.ID, ino, "malformed back-link %x", key)
			return nil
		}
		l := linkOf(key)
		b, err := v.kv.Get(direntKey(v.rec.ID, l.Parent, l.Name))
		if errors.Is(err, backend.NotFound) {
			v.bad(v.rec.ID, ino, "back-link to %q in directory %d, where no such entry is", l.Name, l.Parent)
			return nil
		}
		if err != nil {
			return err
		}
		if e, err := decodeDent(v.rec.ID, l.Parent, b); err != nil || e.ino != ino || e.vol != 0 {
			v.bad(v.rec.ID, ino, "back-link to %q in directory %d, which leads elsewhere", l.Name, l.Parent)
		}
		if n := v.found[ino]; n != nil && n.rec.link == l {
			v.bad(v.rec.ID, ino, "back-link to %q in directory %d stands twice", l.Name, l.Parent)
		}
		return nil
	})
}

func (v *volcheck) todos() error {
	return v.scan(famTodo, func(key, _ []byte) error {
		n := v.found[inoOf(key)]
		if n == nil {
			v.bad(v.rec.ID, inoOf(key), "left to reclaim, but does not exist")
			return nil
		}
		n.todo = true
		return nil
	})
}

func (v *volcheck) xattrs() error {
	return v.scan(famXattr, func(key, b []byte) error {
		ino := inoOf(key)
		n := v.found[ino]
		if n == nil {
			v.bad(v.rec.ID, ino, "xattr %q of an inode that does not exist", nameOf(key))
			return nil
		}
		n.xattrs += xattrRoom(nameOf(key))
		if _, err := decodeXattr(v.rec.ID, ino, b); err != nil {
			v.bad(v.rec.ID, ino, "xattr %q: %v", nameOf(key), err)
		}
		return nil
	})
}

func (v *volcheck) extents() error {
	var last backend.Ino
	var end uint64
	return v.scan(famExtent, func(key, b []byte) error {
		ino := inoOf(key)
		if len(key) != 21 {
			v.bad(v.rec.ID, ino, "malformed extent key %x", key)
			return nil
		}
		e, err := decodeExtent(v.rec.ID, ino, endOf(key), b)
		if err != nil {
			v.bad(v.rec.ID, ino, "extent ending at %d: %v", endOf(key), err)
			return nil
		}
		if ino != last {
			last, end = ino, 0
		}
		if e.start < end {
			v.bad(v.rec.ID, ino, "extent [%d, %d) overlaps the one before, which ends at %d", e.start, e.end, end)
		}
		end = e.end
		return v.extent(ino, &e)
	})
}

func (v *volcheck) extent(ino backend.Ino, e *extent) error {
	n := v.found[ino]
	if n == nil || n.rec.typ != backend.TypeRegular {
		v.bad(v.rec.ID, ino, "extent [%d, %d) of what is no regular file", e.start, e.end)
		return nil
	}
	st := &n.rec.extents
	switch {
	case !st.void(e):
		n.bytes += e.length()
		if e.end > n.rec.size {
			v.bad(v.rec.ID, ino, "extent [%d, %d) ends after the file's size %d", e.start, e.end, n.rec.size)
		}
	case st.uncounted(e):
		n.bytes += e.length()
	}
	if e.end > st.high {
		v.bad(v.rec.ID, ino, "extent [%d, %d) ends after the highest known, %d", e.start, e.end, st.high)
	}
	if e.gen > st.gen {
		v.bad(v.rec.ID, ino, "extent [%d, %d) is of generation %d, the file of %d", e.start, e.end, e.gen, st.gen)
	}
	if e.inline != nil {
		return nil
	}
	v.named[e.ref.ID]++
	if backend.VolumeID(e.ref.ID>>40) == v.rec.ID {
		v.use.nextContent = max(v.use.nextContent, e.ref.ID&(1<<40-1)+1)
	}
	if v.opt.Content && v.named[e.ref.ID] == 1 {
		if err := v.content.Check(v.kv, e.ref); err != nil {
			v.bad(v.rec.ID, ino, "extent [%d, %d): %v", e.start, e.end, err)
		}
	}
	return nil
}

func (v *volcheck) usage() error {
	b, err := v.kv.Get(appendVol(nil, famUsage, v.rec.ID))
	if errors.Is(err, backend.NotFound) {
		v.bad(v.rec.ID, 0, "its counters are missing")
		return nil
	}
	if err != nil {
		return err
	}
	u, err := decodeUsage(v.rec.ID, b)
	if err != nil {
		v.bad(v.rec.ID, 0, "%v", err)
		return nil
	}
	for _, n := range v.found {
		v.use.bytes += n.bytes
	}
	if _, err := limitsOf(v.kv, v.rec.ID); err != nil {
		v.bad(v.rec.ID, 0, "%v", err)
	}
	if u.inodes != v.use.inodes {
		v.bad(v.rec.ID, 0, "counter says %d inodes, there are %d", u.inodes, v.use.inodes)
	}
	if u.bytes != v.use.bytes {
		v.bad(v.rec.ID, 0, "counter says %d bytes, there are %d", u.bytes, v.use.bytes)
	}
	if u.nextIno < v.use.nextIno || u.nextContent < v.use.nextContent {
		v.bad(v.rec.ID, 0, "numbers in use would be given out again")
	}
	return nil
}

// judge compares what each inode says with what was found.
func (v *volcheck) judge() {
	if r := v.found[backend.RootIno]; r == nil || r.rec.typ != backend.TypeDir {
		v.bad(v.rec.ID, backend.RootIno, "the root directory is missing")
	}
	for ino, n := range v.found {
		want := n.rec.nlink
		if ino == backend.RootIno {
			want = 0
		}
		if n.names != want || n.links != n.names {
			v.bad(v.rec.ID, ino, "link count %d, %d names, %d back-links", n.rec.nlink, n.names, n.links)
		}
		if n.rec.typ == backend.TypeDir && n.entries != n.rec.entries {
			v.bad(v.rec.ID, ino, "directory says %d entries, it has %d", n.rec.entries, n.entries)
		}
		if n.bytes != n.rec.bytes {
			v.bad(v.rec.ID, ino, "says %d content bytes, extents hold %d", n.rec.bytes, n.bytes)
		}
		if n.xattrs != n.rec.xattrs {
			v.bad(v.rec.ID, ino, "says its xattr names take %d bytes, they take %d", n.rec.xattrs, n.xattrs)
		}
		if todo := n.rec.nlink == 0 || len(n.rec.extents.barriers) > 0; todo != n.todo {
			v.bad(v.rec.ID, ino, "orphan or with void extents: %v; left to reclaim: %v", todo, n.todo)
		}
		if n.rec.typ == backend.TypeDir && n.rec.nlink > 0 && !v.reaches(ino) {
			v.bad(v.rec.ID, ino, "directory cannot be reached from the root")
		}
	}
}

// reaches tells whether a directory's parents lead to the root.
func (v *volcheck) reaches(ino backend.Ino) bool {
	var path []*found
	ok := false
	for {
		n := v.found[ino]
		if n == nil || n.reached == -1 {
			break
		}
		if ino == backend.RootIno || n.reached == 1 {
			ok = true
			break
		}
		n.reached = -1
		path = append(path, n)
		ino = n.parent
	}
	for _, n := range path {
		n.reached = 0
		if ok {
			n.reached = 1
		}
	}
	return ok
}
