package fusefs

import (
	"errors"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// rename is a rename that concerns control files: onto one, it is a write of
// the whole. Out of the control directory there is none (EXDEV: mv copies).
func (c *control) rename(f *fileSystem, in *fuse.RenameIn, name, newName string) fuse.Status {
	from, to := f.node(in.NodeId), f.node(in.Newdir)
	s, _, ok := c.folders.spot(to)
	r := (*ControlFolder)(nil)
	if ok && s.dir {
		r = c.row(s)
	}
	switch flags := view.RenameFlags(in.Flags); {
	case !isControl(to):
		if _, _, folder := c.folders.spot(from); folder {
			return fuse.EXDEV
		}
		return fuse.EPERM
	case r == nil || !leaf(r, s):
		return fuse.EPERM
	case flags&^view.NoReplace != 0:
		return fuse.EINVAL
	case flags == view.NoReplace && c.at(to, newName) != nil:
		return eexist
	}
	at := spot{folder: s.folder, sub: s.sub, name: newName}
	if isControl(from) {
		return c.renameInside(f, r, from, name, at)
	}
	return c.moveIn(f, r, in, name, at)
}

// renameInside renames a staged file, or one of the folder's own aside.
func (c *control) renameInside(f *fileSystem, r *ControlFolder, from nodeID, name string, at spot) fuse.Status {
	s, _, ok := c.folders.spot(from)
	if !ok || s.folder != at.folder || s.sub != at.sub {
		return fuse.EXDEV
	}
	was := spot{folder: s.folder, sub: s.sub, name: name}
	g := c.folders.find(was)
	if g == nil {
		return c.setAside(f, r, was, at)
	}
	g.mu.Lock()
	data, handed := slices.Clone(g.data), g.handed
	g.mu.Unlock()
	if st := c.replace(f, r, at, data); st != fuse.OK {
		return st
	}
	if g.drop {
		if handed && r.Withdraw != nil && was != at {
			if err := r.Withdraw(c.view, was.sub, was.name); err != nil {
				return f.status("control", err)
			}
		}
		c.folders.drop(g.id)
		return fuse.OK
	}
	c.folders.drop(g.id)
	return fuse.OK
}

// setAside gives one of the folder's own files another name for a while: a
// program keeps the old content, and is about to write the new.
func (c *control) setAside(f *fileSystem, r *ControlFolder, was, at spot) fuse.Status {
	e, there := c.folderEntry(r, was)
	if !there {
		return fuse.ENOENT
	}
	if _, another := c.folderEntry(r, at); another || !e.Writable {
		return fuse.EPERM
	}
	data, err := r.Read(c.view, was.sub, was.name)
	if err != nil {
		return f.status("control", err)
	}
	if st := c.stageData(at, data); st != fuse.OK {
		return st
	}
	c.folders.leave(was)
	return fuse.OK
}

// stageData makes a staged file with content, in place of another of its name.
func (c *control) stageData(at spot, data []byte) fuse.Status {
	if old := c.folders.find(at); old != nil {
		c.folders.drop(old.id)
	}
	g, st := c.folders.stage(at)
	if st != fuse.OK {
		return st
	}
	if !c.folders.room(g, len(data)) {
		c.folders.drop(g.id)
		return fuse.Status(syscall.ENOSPC)
	}
	g.mu.Lock()
	g.data = data
	g.mu.Unlock()
	return fuse.OK
}

// replace makes data the content of what is called at: one of the folder's own
// files, something that is handed over, or a staged file.
func (c *control) replace(f *fileSystem, r *ControlFolder, at spot, data []byte) fuse.Status {
	c.folders.returns(at)
	e, there := c.folderEntry(r, at)
	switch {
	case there && !e.Writable:
		return fuse.EACCES
	case there, r.Files == nil:
		_, st := c.apply(f, at, data, true)
		return st
	}
	return c.stageData(at, data)
}

// moveIn is a file of the tree that is renamed into a folder: it is read, handed
// over and removed. The kernel believes afterwards that the name leads to the
// file that was; a new epoch makes it look.
func (c *control) moveIn(f *fileSystem, r *ControlFolder, in *fuse.RenameIn, name string, at spot) fuse.Status {
	q := f.request(&in.InHeader)
	from := f.node(in.NodeId)
	for range 16 {
		data, etag, st := c.moved(f, &q, in, name)
		if st == estale {
			continue
		}
		if st != fuse.OK {
			return st
		}
		if st := c.replace(f, r, at, data); st != fuse.OK {
			return st
		}
		err := f.view.UnlinkIf(&q, from, name, etag)
		if errors.Is(err, backend.Conflict) { // another mount has written there meanwhile
			continue
		}
		if err != nil {
			return f.status("rename", err)
		}
		f.kern.dev.incEpoch()
		return fuse.OK
	}
	return fuse.Status(syscall.EBUSY)
}

// moved reads the file of the tree that is renamed. ESTALE: it grows meanwhile.
func (c *control) moved(f *fileSystem, q *view.Request, in *fuse.RenameIn, name string) (data []byte, etag string, st fuse.Status) {
	a, err := f.view.Peek(q, f.node(in.NodeId), name)
	switch {
	case err != nil:
		return nil, "", f.status("rename", err)
	case a.Type != backend.TypeRegular:
		return nil, "", fuse.EXDEV
	case a.Size > maxStagedFile:
		return nil, "", fuse.Status(syscall.EFBIG)
	case !readable(&a, in.Uid, in.Gid):
		return nil, "", fuse.EACCES
	}
	if etag, err = f.view.Etag(a.Node); err != nil {
		return nil, "", f.status("rename", err)
	}
	data = make([]byte, a.Size+1)
	n, err := f.view.Read(q, a.Node, data, 0)
	switch {
	case err != nil:
		return nil, "", f.status("rename", err)
	case uint64(n) > a.Size:
		return nil, "", estale
	}
	return data[:n], etag, fuse.OK
}

// readable tells whether mode bits let a user read: no descriptor was opened, so
// the kernel did not ask.
func readable(a *backend.Attr, uid, gid uint32) bool {
	switch {
	case uid == 0:
		return true
	case uid == a.UID:
		return a.Mode&0o400 != 0
	case gid == a.GID:
		return a.Mode&0o040 != 0
	}
	return a.Mode&0o004 != 0
}
