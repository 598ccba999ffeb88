package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/filelock"
	"github.com/warrenfs/warren/policy/view"
)

// openFlags translates those of open(2).
func openFlags(flags uint32) view.OpenFlags {
	acc := flags & syscall.O_ACCMODE
	return view.OpenFlags{
		Read:     acc != syscall.O_WRONLY,
		Write:    acc != syscall.O_RDONLY,
		Truncate: flags&syscall.O_TRUNC != 0,
		Exec:     flags&fuse.FMODE_EXEC != 0,
	}
}

func (f *fileSystem) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.count.add(opOpen)
	node := f.node(in.NodeId)
	if isControl(node) {
		return f.ctl.open(f, node, in.Flags, out)
	}
	r := f.request(&in.InHeader)
	if f.modes && f.kern.lookAgain(in.Pid, node) {
		return estale
	}
	r.KillPriv = in.Mode&fuse.OPEN_KILL_SUIDGID != 0
	if _, err := f.view.Open(&r, node, openFlags(in.Flags)); err != nil {
		return f.status("open", err)
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		f.kern.settled(node)
		f.killed(&r, node)
	}
	f.opened(node, in.Flags, false, out)
	return fuse.OK
}

// killed follows up on a request that cleared set-id bits: the kernel goes on
// showing them until it asks for another attribute.
func (f *fileSystem) killed(r *view.Request, node nodeID) {
	if r.KillPriv && f.kern.take(node, markSetID) {
		f.kern.dev.invalInode(f.kern.wire(node), -1, 0)
	}
}

// opened makes the handle of a file that the view has let open, and decides how
// the kernel may cache it.
func (f *fileSystem) opened(node nodeID, flags uint32, created bool, out *fuse.OpenOut) {
	h := &handle{node: node, flags: flags, file: true}
	acc := flags & syscall.O_ACCMODE
	switch {
	case flags&syscall.O_APPEND != 0:
		// The kernel would fill pages at its own idea of the end.
		h.direct = true
	case created && acc == syscall.O_WRONLY:
		// No mapping is possible, and it saves a GETXATTR.
		h.direct = true
	case acc != syscall.O_RDONLY:
		h.claimed = f.hub.writers.claim(node, f.kern)
		h.direct = !h.claimed
	}
	out.OpenFlags = 0
	if h.direct {
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO
	}
	if acc != syscall.O_RDWR {
		h.lazy = true
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
	if f.kern.take(node, markStale) {
		f.kern.dev.invalInode(f.kern.wire(node), -1, 0)
	} else {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	if h.writes() && !h.direct {
		f.kern.arm(node, markData) // what is written stays in the cache
	}
	f.kern.opened(node, 1)
	out.Fh = f.handles.add(h)
}

// Create makes a file. One that exists meanwhile, made through another mount,
// is not opened here, where the kernel would not check its mode: ESTALE makes
// it look again and open what it finds.
func (f *fileSystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	f.count.add(opCreate)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if isControl(parent) {
		return f.ctl.createFolder(f, in, name, out)
	}
	if st := f.ctl.refuse(parent, name); st != fuse.OK {
		return st
	}
	r := f.request(&in.InHeader)
	r.Umask = in.Umask
	flags := openFlags(in.Flags)
	flags.Truncate = false // it is new
	a, _, err := f.view.Create(&r, parent, name, in.Mode&0o7777, true, flags)
	if err != nil {
		if backend.KindOf(err) == backend.Exist && in.Flags&syscall.O_EXCL == 0 {
			f.kern.reopening(in.Pid)
			return estale
		}
		return f.status("create", err)
	}
	f.made(in.Pid, &out.EntryOut, &a)
	f.opened(a.Node, in.Flags, true, &out.OpenOut)
	return fuse.OK
}

// Tmpfile makes a file without a name.
func (f *fileSystem) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	f.count.add(opTmpfile)
	defer f.naming()()
	parent := f.node(in.NodeId)
	if isControl(parent) {
		return fuse.EACCES
	}
	r := f.request(&in.InHeader)
	r.Umask = in.Umask
	a, err := f.view.Tmpfile(&r, parent, in.Mode&0o7777)
	if err != nil {
		return f.status("tmpfile", err)
	}
	f.kern.hold(a.Node)
	f.made(in.Pid, &out.EntryOut, &a)
	f.opened(a.Node, in.Flags, true, &out.OpenOut)
	return fuse.OK
}

// Flush comes for each close of a descriptor of a read-write handle.
func (f *fileSystem) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	f.count.add(opFlush)
	node := f.node(in.NodeId)
	if isControl(node) {
		return f.ctl.flush(f, node, in.Fh)
	}
	f.hub.posix.Unlock(node, filelock.Owner{Mount: f.conn, ID: in.LockOwner}, 0, filelock.MaxEnd)
	return fuse.OK
}

func (f *fileSystem) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	f.count.add(opRelease)
	if h := f.handles.remove(in.Fh, f.node(in.NodeId)); h != nil {
		f.released(h)
	}
}

// released lets go of all that came with a handle.
func (f *fileSystem) released(h *handle) {
	if isControl(h.node) {
		f.ctl.released(h)
		return
	}
	if !h.file {
		return
	}
	if h.claimed {
		f.hub.writers.release(h.node, f.kern)
	}
	f.hub.posix.ReleaseHandle(h.node, f.conn, h.id)
	f.hub.flock.ReleaseHandle(h.node, f.conn, h.id)
	f.kern.opened(h.node, -1)
}
