package fusefs

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// ControlFolder is one row of the table of control directories: one in
// ControlDir whose files come and go. Programs may do there what they do where
// they replace a file: truncate and write it, or make another beside it and
// rename that. Those others live in the mount alone, a while.
type ControlFolder struct {
	Name string
	// Visible tells whether the directory exists in a view; nil: in every view.
	Visible func(*view.View) bool
	// Subs lists its directories, which then have the files. nil: it has them
	// itself, and sub is "" below.
	Subs func(v *view.View) []string
	// Files lists the files in sub. nil: there never is any; what is written
	// under a name is handed to Write at close, and then gone.
	Files func(v *view.View, sub string) []ControlEntry
	// Read gives a file's content; nil: write-only.
	Read func(v *view.View, sub, name string) ([]byte, error)
	// Write takes all that is written so far, after each write and, unless it was
	// applied by then, when it ended: at a close that follows a write, or for a
	// file that is renamed to name. An error is the writer's; what was there
	// stays.
	Write func(v *view.View, sub, name string, data []byte, ended bool) (applied bool, err error)
	// Check tells whether a file may be made under a name, when it is opened:
	// shells do not show what close(2) fails with. nil: any may.
	Check func(v *view.View, sub, name string) error
	// Withdraw undoes a Write under a name that was to be another's: it was written,
	// then renamed. nil: nothing to undo.
	Withdraw func(v *view.View, sub, name string) error
}

// ControlEntry is one file of a ControlFolder.
type ControlEntry struct {
	Name     string
	Writable bool
}

// spot is a place in a folder: the folder, one of its directories, or a file.
type spot struct {
	folder    int // index
	sub, name string
	dir       bool
}

// folders is what one mount has of the control folders. mu is a leaf.
type folders struct {
	rows []ControlFolder

	mu    sync.Mutex
	ids   map[spot]nodeID // of all but staged files; never forgotten
	spots map[nodeID]spot
	next  nodeID
	// staged are files that only this mount has.
	staged map[nodeID]*stagedFile
	// gone are names of files that were unlinked or renamed away, until when:
	// what follows is the other half of a replacement.
	gone map[spot]time.Time
}

// firstFolderID leaves room for the table of control files.
const firstFolderID nodeID = 1 << 20

func newFolders(rows []ControlFolder) *folders {
	return &folders{rows: rows, ids: map[spot]nodeID{}, spots: map[nodeID]spot{}, next: firstFolderID,
		staged: map[nodeID]*stagedFile{}, gone: map[spot]time.Time{}}
}

// id numbers a place.
func (f *folders) id(s spot) nodeID {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := f.ids[s]; ok {
		return id
	}
	id := f.next
	f.next++
	f.ids[s], f.spots[id] = id, s
	return id
}

// spot finds the place of a node; that of a staged file is the name it has now.
func (f *folders) spot(id nodeID) (spot, *stagedFile, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.staged[id]; g != nil {
		return g.at, g, true
	}
	s, ok := f.spots[id]
	return s, nil, ok
}

// row is the folder of a place, if the view has it.
func (c *control) row(s spot) *ControlFolder {
	r := &c.folders.rows[s.folder]
	if r.Visible != nil && !r.Visible(c.view) {
		return nil
	}
	if s.sub != "" && (r.Subs == nil || !slices.Contains(r.Subs(c.view), s.sub)) {
		return nil
	}
	return r
}

// leaf tells whether the files of r are right in the directory s.
func leaf(r *ControlFolder, s spot) bool { return s.dir && (r.Subs == nil || s.sub != "") }

// entry finds a file that the folder says is there.
func (c *control) folderEntry(r *ControlFolder, s spot) (ControlEntry, bool) {
	if r.Files == nil || c.folders.isGone(s) {
		return ControlEntry{}, false
	}
	for _, e := range r.Files(c.view, s.sub) {
		if e.Name == s.name {
			return e, true
		}
	}
	return ControlEntry{}, false
}

// inFolder finds what name in the control directory parent leads to.
func (c *control) inFolder(parent nodeID, name string) *nodeID {
	if parent == controlDirID {
		for i := range c.folders.rows {
			if s := (spot{folder: i, dir: true}); c.folders.rows[i].Name == name && c.row(s) != nil {
				id := c.folders.id(s)
				return &id
			}
		}
		return nil
	}
	s, _, ok := c.folders.spot(parent)
	if !ok || !s.dir {
		return nil
	}
	r := c.row(s)
	if r == nil {
		return nil
	}
	if !leaf(r, s) {
		if !slices.Contains(r.Subs(c.view), name) {
			return nil
		}
		id := c.folders.id(spot{folder: s.folder, sub: name, dir: true})
		return &id
	}
	at := spot{folder: s.folder, sub: s.sub, name: name}
	if g := c.folders.find(at); g != nil {
		return &g.id
	}
	if _, there := c.folderEntry(r, at); !there {
		return nil
	}
	id := c.folders.id(at)
	return &id
}

// folderAttr fills in what a node of a folder is like.
func (c *control) folderAttr(id nodeID, a *backend.Attr) fuse.Status {
	s, g, ok := c.folders.spot(id)
	if !ok {
		return fuse.ENOENT
	}
	r := c.row(s)
	if r == nil {
		return fuse.ENOENT
	}
	if s.dir {
		a.Type, a.Mode, a.Size = backend.TypeDir, 0o555, backend.BlockSize
		if leaf(r, s) {
			a.Mode = 0o755
		}
		return fuse.OK
	}
	a.Type = backend.TypeRegular
	if g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		a.Mode, a.Size = 0o600, uint64(len(g.data))
		if r.Read == nil {
			a.Mode = 0o200
		}
		return fuse.OK
	}
	e, there := c.folderEntry(r, s)
	if !there {
		return fuse.ENOENT
	}
	a.Mode = 0o444
	if e.Writable {
		a.Mode = 0o644
	}
	data, err := r.Read(c.view, s.sub, s.name)
	if err != nil {
		return fuse.Status(errnoOf(err))
	}
	a.Size = uint64(len(data))
	return fuse.OK
}

// folderList gives the names in a folder's directory.
func (c *control) folderList(id nodeID) []view.Dirent {
	out := []view.Dirent{}
	s, _, ok := c.folders.spot(id)
	if !ok || !s.dir {
		return out
	}
	r := c.row(s)
	if r == nil {
		return out
	}
	if !leaf(r, s) {
		for _, sub := range r.Subs(c.view) {
			out = append(out, view.Dirent{Name: sub, Node: c.folders.id(spot{folder: s.folder, sub: sub, dir: true}), Type: backend.TypeDir})
		}
		return out
	}
	if r.Files == nil {
		return out
	}
	for _, e := range r.Files(c.view, s.sub) {
		if at := (spot{folder: s.folder, sub: s.sub, name: e.Name}); !c.folders.isGone(at) {
			out = append(out, view.Dirent{Name: e.Name, Node: c.folders.id(at), Type: backend.TypeRegular})
		}
	}
	return append(out, c.folders.list(s)...)
}

// openFolder opens a file of a folder.
func (c *control) openFolder(f *fileSystem, id nodeID, flags uint32, out *fuse.OpenOut) fuse.Status {
	s, g, ok := c.folders.spot(id)
	if !ok || s.dir {
		return fuse.ENOENT
	}
	r := c.row(s)
	if r == nil {
		return fuse.ENOENT
	}
	o := openFlags(flags)
	if o.Read && r.Read == nil {
		return fuse.EACCES
	}
	ch := &controlHandle{staged: g, folder: true}
	if g == nil {
		e, there := c.folderEntry(r, s)
		switch {
		case !there:
			return fuse.ENOENT
		case o.Write && !e.Writable:
			return fuse.EACCES
		}
		if !o.Truncate {
			var err error
			if ch.data, err = r.Read(c.view, s.sub, s.name); err != nil {
				return f.status("control", err)
			}
		}
	} else if g.drop {
		ch.staged = g.part(o.Truncate)
	} else {
		g.open(o.Truncate)
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	out.Fh = f.handles.add(&handle{node: id, flags: flags, direct: true, ctl: ch})
	return fuse.OK
}

// createFolder makes a file that only this mount has; in a directory without
// files of its own, a name that can be written.
func (c *control) createFolder(f *fileSystem, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	parent := f.node(in.NodeId)
	if id := c.at(parent, name); id != nil {
		return estale // the kernel looks again, and opens it
	}
	s, _, ok := c.folders.spot(parent)
	if !ok {
		return fuse.EACCES
	}
	r := c.row(s)
	if r == nil || !leaf(r, s) {
		return fuse.EACCES
	}
	at := spot{folder: s.folder, sub: s.sub, name: name}
	if c.folders.returns(at) { // the other half of a replacement
		id := c.at(parent, name)
		if id == nil {
			return fuse.ENOENT
		}
		c.entry(&out.EntryOut, id)
		return c.openFolder(f, *id, in.Flags|syscall.O_TRUNC, &out.OpenOut)
	}
	if r.Check != nil {
		if err := r.Check(c.view, at.sub, at.name); err != nil {
			return f.status("control", err)
		}
	}
	g, st := c.folders.stage(at)
	if st != fuse.OK {
		return st
	}
	c.entry(&out.EntryOut, &g.id)
	return c.openFolder(f, g.id, in.Flags, &out.OpenOut)
}
