package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

// found is what a check knows of an inode while it looks at it.
type found struct {
	rec     record
	names   uint32 // directory entries that lead here: only of suspects
	links   uint32 // back-links that were confirmed by an entry: only of suspects
	entries uint64 // of a directory
	xattrs  uint32
	todo    bool
	bytes   uint64
}

// volcheck checks one volume. It looks at some inodes at a time, with all that has
// their numbers in its key: found. What the names in other directories say of an
// inode is summed up in all; of those whose sums are not right all is looked at again.
type volcheck struct {
	*checker
	rec   volrec
	all   briefs
	parts []backend.Ino // the first number of each part but the first
	found map[backend.Ino]*found
	use   usage
}

// checkPart is how many inodes are looked at at a time.
const checkPart = 1024

func (v *volcheck) run() error {
	v.all.blocks = map[backend.Ino]block{}
	if err := v.inodes(); err != nil {
		return err
	}
	for i := range len(v.parts) + 1 {
		if err := v.part(i); err != nil {
			return err
		}
	}
	if err := v.usage(); err != nil {
		return err
	}
	return v.judge()
}

// part looks at one part, and at the keys that no inode has from its first number
// on to the next part's.
func (v *volcheck) part(i int) error {
	first := func(family byte, i int) []byte {
		switch p := appendVol(nil, family, v.rec.ID); {
		case i == 0:
			return p
		case i > len(v.parts):
			return backend.PrefixEnd(p)
		}
		return appendIno(nil, family, v.rec.ID, v.parts[i-1])
	}
	v.found = make(map[backend.Ino]*found, checkPart)
	for _, step := range []struct {
		family byte
		fn     func(key, b []byte) error
	}{{famInode, v.inode}, {famDirent, v.dirent}, {famLink, v.link}, {famTodo, v.leftover}, {famXattr, v.xattr}, {famExtent, v.extents()}} {
		if err := v.scan(first(step.family, i), first(step.family, i+1), step.fn); err != nil {
			return err
		}
	}
	for ino, n := range v.found {
		v.judgeOne(ino, n)
	}
	v.done += uint64(len(v.found))
	if v.opt.Progress != nil {
		v.opt.Progress(v.done, max(v.done, v.total))
	}
	return nil
}

func (v *volcheck) scan(start, end []byte, fn func(key, b []byte) error) error {
	return v.kv.Scan(start, end, func(key, b []byte) error {
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

// scanAll is scan of a whole family.
func (v *volcheck) scanAll(family byte, fn func(key, b []byte) error) error {
	p := appendVol(nil, family, v.rec.ID)
	return v.scan(p, backend.PrefixEnd(p), fn)
}

// inodes lists the inodes, before anything that leads to them is looked at.
func (v *volcheck) inodes() error {
	p := appendVol(nil, famInode, v.rec.ID)
	return v.kv.Scan(p, backend.PrefixEnd(p), func(key, b []byte) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if len(key) < 13 {
			return nil // told of in its part, as is a damaged record
		}
		ino := inoOf(key)
		rec, err := decodeRecord(v.rec.ID, ino, b)
		if err != nil {
			return nil
		}
		n := brief{names: int32(rec.nlink), typ: rec.typ}
		if ino == backend.RootIno {
			n.names = 0
		}
		if rec.nlink > 0 && rec.link.Parent != 0 {
			n.links = -v.hash(linkKey(v.rec.ID, ino, rec.link)[13:])
		}
		if v.all.n > 0 && v.all.n%checkPart == 0 {
			v.parts = append(v.parts, ino)
		}
		v.all.add(ino, n)
		v.use.inodes++
		v.use.nextIno = max(v.use.nextIno, uint64(ino)+1)
		return nil
	})
}

func (v *volcheck) inode(key, b []byte) error {
	ino := inoOf(key)
	rec, err := decodeRecord(v.rec.ID, ino, b)
	if err != nil {
		v.bad(v.rec.ID, ino, "%v", err)
		return nil
	}
	v.found[ino] = &found{rec: rec}
	return nil
}

func (v *volcheck) dirent(key, b []byte) error {
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
	n := v.all.get(e.ino)
	switch {
	case n == nil:
		v.bad(v.rec.ID, dir, "entry %q leads to inode %d, which does not exist", name, e.ino)
		return nil
	case n.typ != e.typ:
		v.bad(v.rec.ID, dir, "entry %q says type %d, inode %d is of type %d", name, e.typ, e.ino, n.typ)
	}
	n.names--
	n.parent = dir
	n.links += v.hash(key[5:])
	return nil
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

// link looks at a back-link.
func (v *volcheck) link(key, _ []byte) error {
	ino := inoOf(key)
	if len(key) < 22 {
		v.bad(v.rec.ID, ino, "malformed back-link %x", key)
		return nil
	}
	if n := v.all.get(ino); n != nil {
		n.links -= v.hash(key[13:])
		return nil
	}
	return v.confirm(ino, linkOf(key))
}

// confirm looks for the name that a back-link is of.
func (v *volcheck) confirm(ino backend.Ino, l Link) error {
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
	return nil
}

func (v *volcheck) leftover(key, _ []byte) error {
	n := v.found[inoOf(key)]
	if n == nil {
		v.bad(v.rec.ID, inoOf(key), "left to reclaim, but does not exist")
		return nil
	}
	n.todo = true
	return nil
}

func (v *volcheck) xattr(key, b []byte) error {
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
}

// extents gives what looks at extents, in the order of their keys.
func (v *volcheck) extents() func(key, b []byte) error {
	var last backend.Ino
	var end uint64
	return func(key, b []byte) error {
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
	}
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
	times := v.named.add(e.ref.ID)
	if backend.VolumeID(e.ref.ID>>40) == v.rec.ID {
		v.use.nextContent = max(v.use.nextContent, e.ref.ID&(1<<40-1)+1)
	}
	if v.opt.Content && times == 1 {
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

// judgeOne compares what an inode says with what was found under its number.
func (v *volcheck) judgeOne(ino backend.Ino, n *found) {
	v.use.bytes += n.bytes
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
}

// judge compares what each inode says with the names that lead to it.
func (v *volcheck) judge() error {
	if r := v.all.get(backend.RootIno); r == nil || r.typ != backend.TypeDir {
		v.bad(v.rec.ID, backend.RootIno, "the root directory is missing")
	}
	v.found = map[backend.Ino]*found{}
	var lost []backend.Ino
	v.all.each(func(ino backend.Ino, n *brief) {
		if n.names != 0 || n.links != 0 {
			v.found[ino] = nil
		}
		if n.typ == backend.TypeDir && !v.all.reaches(ino) {
			lost = append(lost, ino)
		}
	})
	for _, ino := range lost {
		rec, err := readInode(v.kv, v.rec.ID, ino)
		if err != nil {
			return err
		}
		if rec.nlink > 0 {
			v.bad(v.rec.ID, ino, "directory cannot be reached from the root")
		}
	}
	if len(v.found) == 0 {
		return nil
	}
	return v.suspects()
}

// suspects looks at all names and back-links of those in found, and tells what of
// them is wrong.
func (v *volcheck) suspects() error {
	for ino := range v.found {
		rec, err := readInode(v.kv, v.rec.ID, ino)
		if err != nil {
			return err
		}
		v.found[ino] = &found{rec: rec}
	}
	err := v.scanAll(famDirent, func(key, b []byte) error {
		dir := inoOf(key)
		e, err := decodeDent(v.rec.ID, dir, b)
		n := v.found[e.ino]
		if d := v.all.get(dir); err != nil || e.vol != 0 || n == nil || d == nil || d.typ != backend.TypeDir {
			return nil
		}
		n.names++
		return v.backLink(dir, nameOf(key), e.ino, n)
	})
	if err != nil {
		return err
	}
	err = v.scanAll(famLink, func(key, _ []byte) error {
		n := v.found[inoOf(key)]
		if n == nil || len(key) < 22 {
			return nil
		}
		l := linkOf(key)
		if n.rec.link == l {
			v.bad(v.rec.ID, inoOf(key), "back-link to %q in directory %d stands twice", l.Name, l.Parent)
		}
		return v.confirm(inoOf(key), l)
	})
	if err != nil {
		return err
	}
	for ino, n := range v.found {
		if err := v.suspect(ino, n); err != nil {
			return err
		}
	}
	return nil
}

func (v *volcheck) suspect(ino backend.Ino, n *found) error {
	want := n.rec.nlink
	if ino == backend.RootIno {
		want = 0
	}
	if n.names != want || n.links != n.names {
		v.bad(v.rec.ID, ino, "link count %d, %d names, %d back-links", n.rec.nlink, n.names, n.links)
	}
	if n.rec.link.Parent == 0 || n.rec.nlink == 0 {
		return nil
	}
	return v.confirm(ino, n.rec.link)
}
