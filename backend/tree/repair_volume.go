package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/quota"
)

// volfix is one volume in a pass of Repair.
type volfix struct {
	*fixer
	rec     volrec
	nodes   map[backend.Ino]*fixnode
	entries map[backend.Ino]map[string]dent // directory -> its names
	links   map[backend.Ino]map[Link]bool   // back-links that are stored
	damaged map[backend.Ino]bool            // inodes whose record was set aside
	use     usage
	old     usage // as stored
	oldOK   bool
	lost    *fixnode // lost+found
}

// fixnode is one inode in a pass of Repair.
type fixnode struct {
	v      *volfix
	ino    backend.Ino
	rec    record
	made   bool // there was no record of it, or a damaged one
	dirty  bool
	names  []Link
	todo   bool
	xattrs uint32
	bytes  uint64
	end    uint64 // of the last extent
	gen    uint32
}

func newVolfix(f *fixer, rec volrec) *volfix {
	return &volfix{fixer: f, rec: rec, nodes: map[backend.Ino]*fixnode{}, entries: map[backend.Ino]map[string]dent{},
		links: map[backend.Ino]map[Link]bool{}, damaged: map[backend.Ino]bool{}}
}

func (v *volfix) tell(i backend.Ino, format string, args ...any) { v.did(v.rec.ID, i, format, args...) }

// where is the name in lost+found that n was given.
func (n *fixnode) where() string { return "lost+found/" + n.rec.link.Name }

func (v *volfix) look() error {
	for _, step := range []func() error{v.usage, v.inodes, v.dirents, v.backLinks, v.todos, v.missing, v.xattrs, v.extents} {
		if err := step(); err != nil {
			return err
		}
	}
	v.names()
	v.reach()
	return nil
}

// scan walks a family. Keys that are too short to be any are set aside.
func (v *volfix) scan(family byte, least int, fn func(key, b []byte)) error {
	p := appendVol(nil, family, v.rec.ID)
	return v.kv.Scan(p, backend.PrefixEnd(p), func(key, b []byte) error {
		if len(key) < least {
			v.aside(key, b)
			v.tell(0, "malformed key %x is set aside", key)
		} else {
			fn(key, b)
		}
		return v.ctx.Err()
	})
}

func (v *volfix) usage() error {
	b, err := v.kv.Get(appendVol(nil, famUsage, v.rec.ID))
	if err != nil && !errors.Is(err, backend.NotFound) {
		return err
	}
	if err != nil {
		v.old = usage{}
	} else if v.old, err = decodeUsage(v.rec.ID, b); err == nil {
		v.oldOK = true
	} else {
		v.old = usage{}
	}
	v.use.nextIno, v.use.nextContent = v.old.nextIno, v.old.nextContent
	if b, lerr := v.kv.Get(appendVol(nil, famQuota, v.rec.ID)); lerr == nil {
		if _, lerr := quota.Decode(b); lerr != nil {
			v.aside(appendVol(nil, famQuota, v.rec.ID), b)
			v.tell(0, "its quota is damaged and set aside: there is none now")
		}
	}
	if !v.oldOK { // other volumes may name content of this one
		v.use.nextContent, err = firstContent()
		v.use.nextContent += 1 << 39
	}
	return err
}

func (v *volfix) inodes() error {
	err := v.scan(famInode, 13, func(key, b []byte) {
		ino := inoOf(key)
		v.use.nextIno = max(v.use.nextIno, uint64(ino)+1)
		rec, err := decodeRecord(v.rec.ID, ino, b)
		if err != nil || len(key) != 13 {
			v.aside(key, b)
			v.damaged[ino] = true
			v.tell(ino, "its record is damaged and set aside")
			return
		}
		v.nodes[ino] = &fixnode{v: v, ino: ino, rec: rec}
		if v.done++; v.opt.Progress != nil && v.done%1024 == 0 {
			v.opt.Progress(v.done, 0)
		}
	})
	if r := v.nodes[backend.RootIno]; err == nil && (r == nil || r.rec.typ != backend.TypeDir) {
		v.make(backend.RootIno, backend.TypeDir).rec.mode = 0o755
		v.tell(backend.RootIno, "the root directory is made anew")
	}
	return err
}

// make makes a record for an inode that has none.
func (v *volfix) make(ino backend.Ino, t backend.FileType) *fixnode {
	mode := uint32(0o600)
	if t == backend.TypeDir {
		mode = 0o700
	}
	n := &fixnode{v: v, ino: ino, made: true, dirty: true, rec: record{typ: t, mode: mode, uid: backend.OwnerID, gid: backend.OwnerID, nlink: 1,
		atime: v.now, mtime: v.now, ctime: v.now, btime: v.now, modifiedAt: v.now}}
	v.nodes[ino] = n
	v.use.nextIno = max(v.use.nextIno, uint64(ino)+1)
	return n
}

func (v *volfix) dirents() error {
	return v.scan(famDirent, 14, func(key, b []byte) {
		dir, name := inoOf(key), nameOf(key)
		e, err := decodeDent(v.rec.ID, dir, b)
		switch {
		case err != nil:
			e, err = v.fromBackLink(dir, name)
			if err != nil {
				v.aside(key, b)
				v.tell(dir, "entry %q is damaged and set aside", name)
				return
			}
			v.putDent(dir, name, e)
			v.tell(dir, "entry %q is made anew from the back-link of inode %d", name, e.ino)
		case checkName(name) != nil:
			v.aside(key, b)
			v.tell(dir, "entry %q is no name and set aside", name)
			return
		case e.vol != 0 && !v.belongs(dir, name, e):
			v.aside(key, b)
			v.tell(dir, "entry %q shows volume %x, which does not belong there, and is set aside", name, e.vol)
			return
		}
		if v.entries[dir] == nil {
			v.entries[dir] = map[string]dent{}
		}
		v.entries[dir][name] = e
	})
}

// fromBackLink finds the inode whose first name this is.
func (v *volfix) fromBackLink(dir backend.Ino, name string) (dent, error) {
	l := Link{Parent: dir, Name: name}
	for ino, n := range v.nodes {
		if n.rec.link == l {
			return dent{ino: ino, typ: n.rec.typ}, nil
		}
		if _, err := v.kv.Get(linkKey(v.rec.ID, ino, l)); err == nil {
			return dent{ino: ino, typ: n.rec.typ}, nil
		}
	}
	for id, o := range v.vols {
		if o.rec.Parent == backend.Node(v.rec.ID, dir) && o.rec.Name == name {
			return dent{ino: backend.RootIno, vol: id, typ: backend.TypeDir}, nil
		}
	}
	return dent{}, backend.NotFound
}

func (v *volfix) belongs(dir backend.Ino, name string, e dent) bool {
	if v.unread[e.vol] {
		return true
	}
	o := v.vols[e.vol]
	return o != nil && o.rec.Parent == backend.Node(v.rec.ID, dir) && o.rec.Name == name
}

func (v *volfix) putDent(dir backend.Ino, name string, e dent) {
	v.set(direntKey(v.rec.ID, dir, name), e.encode(nil, v.rec.Epoch))
}

func (v *volfix) backLinks() error {
	return v.scan(famLink, 13, func(key, _ []byte) {
		ino := inoOf(key)
		if len(key) < 22 {
			v.delete(key)
			v.tell(ino, "malformed back-link removed")
			return
		}
		if v.links[ino] == nil {
			v.links[ino] = map[Link]bool{}
		}
		v.links[ino][linkOf(key)] = true
	})
}

func (v *volfix) todos() error {
	return v.scan(famTodo, 13, func(key, _ []byte) {
		if n := v.nodes[inoOf(key)]; n != nil && len(key) == 13 {
			n.todo = true
			return
		}
		v.delete(key)
		v.tell(inoOf(key), "left to reclaim, but does not exist: removed from the list")
	})
}

// missing puts volumes back under their names, makes records of directories that
// have names in them but none of their own, and moves names out of what is no
// directory.
func (v *volfix) missing() error {
	for _, id := range slices.Sorted(maps.Keys(v.vols)) {
		v.show(&v.vols[id].rec)
	}
	for _, dir := range slices.Sorted(maps.Keys(v.entries)) {
		switch n := v.nodes[dir]; {
		case n == nil:
			v.make(dir, backend.TypeDir)
			v.tell(dir, "its record is missing: made anew as a directory")
		case n.rec.typ != backend.TypeDir:
			for name, e := range v.entries[dir] {
				v.aside(direntKey(v.rec.ID, dir, name), e.encode(nil, v.rec.Epoch))
				v.tell(dir, "entry %q stands in what is no directory and is set aside", name)
			}
			delete(v.entries, dir)
		}
	}
	return nil
}

// show puts a volume that stands in this one under its name.
func (v *volfix) show(rec *volrec) {
	dir := rec.Parent.Ino()
	if rec.Parent == 0 || rec.Parent.Volume() != v.rec.ID || v.entries[dir][rec.Name].vol == rec.ID {
		return
	}
	if old, taken := v.entries[dir][rec.Name]; taken {
		v.aside(direntKey(v.rec.ID, dir, rec.Name), old.encode(nil, v.rec.Epoch))
	}
	if v.entries[dir] == nil {
		v.entries[dir] = map[string]dent{}
	}
	e := dent{ino: backend.RootIno, vol: rec.ID, typ: backend.TypeDir}
	v.entries[dir][rec.Name] = e
	v.putDent(dir, rec.Name, e)
	v.tell(dir, "entry %q shows volume %x again", rec.Name, rec.ID)
}

// names gives each inode the names that lead to it, and one in lost+found to
// what has none.
func (v *volfix) names() {
	for _, dir := range slices.Sorted(maps.Keys(v.entries)) {
		for _, name := range slices.Sorted(maps.Keys(v.entries[dir])) {
			v.name(dir, name, v.entries[dir][name])
		}
	}
	for _, ino := range slices.Sorted(maps.Keys(v.nodes)) {
		n := v.nodes[ino]
		orphan := n.rec.nlink == 0 && !n.made && len(v.entries[ino]) == 0
		if len(n.names) == 0 && ino != backend.RootIno && !orphan {
			v.rescue(n)
		}
	}
}

func (v *volfix) name(dir backend.Ino, name string, e dent) {
	if e.vol != 0 {
		return
	}
	n, l := v.nodes[e.ino], Link{Parent: dir, Name: name}
	if n == nil && v.damaged[e.ino] && (e.typ == backend.TypeDir || e.typ == backend.TypeRegular) {
		n = v.make(e.ino, e.typ)
		v.tell(e.ino, "made anew, empty, under its name %q", name)
	}
	if n != nil && slices.Contains(n.names, l) { // it was named just now
		return
	}
	drop := ""
	switch {
	case n == nil:
		drop = fmt.Sprintf("leads to inode %d, which does not exist,", e.ino)
	case e.ino == backend.RootIno:
		drop = "leads to the root"
	case n.rec.typ == backend.TypeDir && len(n.names) > 0:
		if n.rec.link == l { // this one is its own
			v.drop(n.names[0].Parent, n.names[0].Name, "is a second name of a directory")
			n.names = nil
		} else {
			drop = "is a second name of a directory"
		}
	}
	if drop != "" {
		v.drop(dir, name, drop)
		return
	}
	if n.rec.typ != e.typ {
		e.typ = n.rec.typ
		v.entries[dir][name] = e
		v.putDent(dir, name, e)
		v.tell(dir, "entry %q: type put right", name)
	}
	n.names = append(n.names, l)
}

// drop takes a name away.
func (v *volfix) drop(dir backend.Ino, name, why string) {
	v.aside(direntKey(v.rec.ID, dir, name), v.entries[dir][name].encode(nil, v.rec.Epoch))
	delete(v.entries[dir], name)
	v.tell(dir, "entry %q %s and is set aside", name, why)
}

// rescue gives n a name in lost+found.
func (v *volfix) rescue(n *fixnode) {
	v.put(n, fmt.Sprintf("#%d", n.ino))
	v.tell(n.ino, "has no name: it is now %s", n.where())
}

// put names n in lost+found.
func (v *volfix) put(n *fixnode, name string) {
	dir := v.lostFound()
	for base, i := name, 1; ; i++ {
		if _, taken := v.entries[dir.ino][name]; !taken {
			break
		}
		name = fmt.Sprintf("%s.%d", base, i)
	}
	l := Link{Parent: dir.ino, Name: name}
	n.names, n.rec.link, n.dirty = []Link{l}, l, true
	if n.rec.nlink == 0 {
		n.rec.nlink = 1
	}
	e := dent{ino: n.ino, typ: n.rec.typ}
	v.entries[dir.ino][name] = e
	v.putDent(dir.ino, name, e)
}

// lostFound finds or makes the directory lost+found.
func (v *volfix) lostFound() *fixnode {
	if v.lost != nil {
		return v.lost
	}
	top := v.entries[backend.RootIno]
	if top == nil {
		top = map[string]dent{}
		v.entries[backend.RootIno] = top
	}
	name := "lost+found"
	for i := 1; ; i++ {
		e, taken := top[name]
		if n := v.nodes[e.ino]; taken && e.vol == 0 && n != nil && n.rec.typ == backend.TypeDir {
			v.lost = n
			break
		}
		if !taken {
			n := v.make(backend.Ino(max(v.use.nextIno, 2)), backend.TypeDir)
			l := Link{Parent: backend.RootIno, Name: name}
			n.names, n.rec.link, v.lost = []Link{l}, l, n
			top[name] = dent{ino: n.ino, typ: backend.TypeDir}
			v.putDent(backend.RootIno, name, top[name])
			break
		}
		name = fmt.Sprintf("lost+found.%d", i)
	}
	if v.entries[v.lost.ino] == nil {
		v.entries[v.lost.ino] = map[string]dent{}
	}
	return v.lost
}

// reach brings directories that the root does not lead to into lost+found, one of
// each circle.
func (v *volfix) reach() {
	for _, ino := range slices.Sorted(maps.Keys(v.nodes)) {
		n := v.nodes[ino]
		if n.rec.typ != backend.TypeDir || len(n.names) == 0 {
			continue
		}
		at, seen := n, map[backend.Ino]bool{}
		for at != nil && at.ino != backend.RootIno && len(at.names) > 0 && !seen[at.ino] {
			seen[at.ino] = true
			at = v.nodes[at.names[0].Parent]
		}
		if at != nil && seen[at.ino] { // a circle, and at is in it
			l := at.names[0]
			v.delete(direntKey(v.rec.ID, l.Parent, l.Name))
			delete(v.entries[l.Parent], l.Name)
			v.rescue(at)
		}
	}
}

// emit writes what is to change of the volume's inodes and counters.
func (v *volfix) emit() error {
	for _, ino := range slices.Sorted(maps.Keys(v.nodes)) {
		n := v.nodes[ino]
		v.settleNames(n)
		v.settleCounts(n)
		want := n.rec.nlink == 0 || len(n.rec.extents.barriers) > 0
		if want != n.todo {
			if want {
				v.set(todoKey(v.rec.ID, ino), []byte{recordVersion})
			} else {
				v.delete(todoKey(v.rec.ID, ino))
			}
			v.tell(ino, "left to reclaim: %v", want)
		}
		if n.dirty {
			n.rec.epoch = v.rec.Epoch
			v.set(inodeKey(v.rec.ID, ino), n.rec.encode(nil))
		}
		v.use.inodes++
		v.use.bytes += n.bytes
	}
	for ino, links := range v.links {
		if v.nodes[ino] != nil {
			continue
		}
		for l := range links {
			v.delete(linkKey(v.rec.ID, ino, l))
			v.tell(ino, "back-link of what does not exist removed")
		}
	}
	if !v.oldOK || v.old != v.use {
		v.set(appendVol(nil, famUsage, v.rec.ID), v.use.encode(nil, v.rec.Epoch))
		v.tell(0, "counters: %d inodes, %d bytes", v.use.inodes, v.use.bytes)
	}
	return nil
}

// settleNames puts back-links and link count right.
func (v *volfix) settleNames(n *fixnode) {
	if n.ino == backend.RootIno {
		n.names = nil
	}
	first := Link{}
	if len(n.names) > 0 {
		first = n.names[0]
		if slices.Contains(n.names, n.rec.link) {
			first = n.rec.link
		}
	}
	if n.rec.link != first {
		n.rec.link, n.dirty = first, true
		v.tell(n.ino, "first back-link put right")
	}
	want := map[Link]bool{}
	for _, l := range n.names {
		if l != first {
			want[l] = true
		}
	}
	for l := range v.links[n.ino] {
		if !want[l] {
			v.delete(linkKey(v.rec.ID, n.ino, l))
			v.tell(n.ino, "back-link to %q in directory %d removed: no such name leads here", l.Name, l.Parent)
		}
	}
	for l := range want {
		if !v.links[n.ino][l] {
			v.set(linkKey(v.rec.ID, n.ino, l), encoder{}.epoch(nil, v.rec.Epoch))
			v.tell(n.ino, "back-link to %q in directory %d made", l.Name, l.Parent)
		}
	}
	count := uint32(len(n.names))
	if n.ino == backend.RootIno {
		count = n.rec.nlink
		if count == 0 {
			count = 1
		}
	}
	if n.rec.nlink != count {
		v.tell(n.ino, "link count %d is now %d", n.rec.nlink, count)
		n.rec.nlink, n.dirty = count, true
	}
}

// settleCounts puts what an inode counts right.
func (v *volfix) settleCounts(n *fixnode) {
	var what []string
	note := func(differs bool, name string) {
		if differs {
			what = append(what, name)
		}
	}
	r, s := &n.rec, &n.rec.extents
	if r.typ == backend.TypeDir {
		count := uint64(len(v.entries[n.ino]))
		note(r.entries != count, "entries")
		r.entries = count
	}
	note(r.xattrs != n.xattrs, "names of xattrs")
	note(r.bytes != n.bytes, "content bytes")
	note(s.high < n.end, "end of extents")
	note(s.gen < n.gen, "generation")
	r.xattrs, r.bytes, s.high, s.gen = n.xattrs, n.bytes, max(s.high, n.end), max(s.gen, n.gen)
	if len(what) > 0 {
		n.dirty = true
		v.tell(n.ino, "put right: %s", strings.Join(what, ", "))
	}
}
