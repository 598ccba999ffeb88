package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// The requests of this file change names. Each is counted as under way (naming)
// before it takes any lock, so that a change made in another mount never waits
// for a directory lock that this one's kernel holds.

func (f *fileSystem) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	f.count.add(opMknod)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if st := f.ctl.refuse(parent, name); st != fuse.OK {
		return st
	}
	r := f.request(&in.InHeader)
	r.Umask = in.Umask
	typ := backend.FileType(in.Mode >> 12 & 0xf)
	if typ == 0 {
		typ = backend.TypeRegular
	}
	if f.handed.device(typ) {
		return fuse.EPERM
	}
	a, err := f.view.Mknod(&r, parent, name, typ, in.Mode&0o7777, in.Rdev)
	if err != nil {
		return f.status("mknod", err)
	}
	return f.made(in.Pid, out, &a)
}

func (f *fileSystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	f.count.add(opMkdir)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if st := f.ctl.refuse(parent, name); st != fuse.OK {
		return st
	}
	r := f.request(&in.InHeader)
	r.Umask = in.Umask
	a, err := f.view.Mkdir(&r, parent, name, in.Mode&0o7777)
	if err != nil {
		return f.status("mkdir", err)
	}
	return f.made(in.Pid, out, &a)
}

func (f *fileSystem) Symlink(_ <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	f.count.add(opSymlink)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if st := f.ctl.refuse(parent, name); st != fuse.OK {
		return st
	}
	r := f.request(in)
	a, err := f.view.Symlink(&r, parent, name, target)
	if err != nil {
		return f.status("symlink", err)
	}
	return f.made(in.Pid, out, &a)
}

func (f *fileSystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	f.count.add(opLink)
	defer f.naming()()
	parent, node := f.node(in.NodeId), f.node(in.Oldnodeid)
	if st := f.ctl.refuse(parent, name); st != fuse.OK {
		return st
	}
	if isControl(node) {
		return fuse.EXDEV
	}
	r := f.request(&in.InHeader)
	f.kern.asking(in.Pid, node)
	a, err := f.view.Link(&r, node, parent, name)
	if err != nil {
		return f.status("link", err)
	}
	f.entry(out, &a)
	f.blindTimeout(a.Node, out.SetAttrTimeout)
	return fuse.OK
}

func (f *fileSystem) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	f.count.add(opUnlink)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if isControl(parent) {
		return f.ctl.unlink(parent, name)
	}
	if f.ctl.at(parent, name) != nil {
		return fuse.EPERM
	}
	r := f.request(in)
	return f.status("unlink", f.view.Unlink(&r, parent, name))
}

func (f *fileSystem) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	f.count.add(opRmdir)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if f.ctl.at(parent, name) != nil || isControl(parent) {
		return fuse.EPERM
	}
	r := f.request(in)
	return f.status("rmdir", f.view.Rmdir(&r, parent, name))
}

func (f *fileSystem) Rename(_ <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	f.count.add(opRename)
	defer f.naming()()
	from, to := f.node(in.NodeId), f.node(in.Newdir)
	if isControl(from) || isControl(to) {
		return f.ctl.rename(f, in, name, newName)
	}
	if f.ctl.at(from, name) != nil || f.ctl.at(to, newName) != nil {
		return fuse.EPERM
	}
	flags := view.RenameFlags(in.Flags)
	if !flags.Valid() {
		return fuse.EINVAL
	}
	r := f.request(&in.InHeader)
	err := f.view.Rename(&r, from, name, to, newName, flags)
	if err == nil {
		f.kern.renamed(to, newName)
	}
	return f.status("rename", err)
}

// renamed is called before a rename is answered. One that was on its way while
// another mount put something else under the old name holds up the INVAL_ENTRY for
// it. The kernel then moves what it had there, and the notice finds nothing under the
// old name: the new one would lead to the wrong file for good. So where a notice
// about names is under way, all names are asked for again.
func (k *kernel) renamed(to nodeID, newName string) {
	if k.expiring.Load() > 0 && k.epochs {
		k.dev.incEpoch()
		k.mu.Lock()
		k.lapsed(lapse{parent: to, name: newName})
		k.mu.Unlock()
	}
}
