package fusefs

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/policy/view"
)

// OpenDir lets the kernel cache the listing: it is told when it changes. Since
// every listing has at least "." and "..", none is empty, and a cached one is
// dropped with its pages.
func (f *fileSystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.count.add(opOpendir)
	node := f.node(in.NodeId)
	h := &handle{node: node, flags: in.Flags}
	if isControl(node) {
		out.Fh = f.handles.add(h)
		return fuse.OK
	}
	r := f.request(&in.InHeader)
	if _, err := f.view.Getattr(&r, node); err != nil {
		return f.status("opendir", err)
	}
	if f.kern.epochs { // else a cached listing could outlive a notice
		out.OpenFlags = fuse.FOPEN_CACHE_DIR
		if !f.kern.take(node, markStale) {
			out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		}
	}
	out.Fh = f.handles.add(h)
	return fuse.OK
}

// ReadDir answers from a listing taken at offset 0; a cookie is the index of
// the next name in it. It never waits for another mount.
func (f *fileSystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f.count.add(opReaddir)
	node := f.node(in.NodeId)
	h := f.handles.get(in.Fh, node)
	if h == nil {
		return fuse.EBADF
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.Offset == 0 || h.list == nil {
		if err := f.list(h, in); err != nil {
			return f.status("readdir", err)
		}
	} else if err := f.seen(&in.InHeader, h.node); err != nil {
		return f.status("readdir", err)
	}
	for i := in.Offset; i < uint64(len(h.list))+2; i++ {
		e := fuse.DirEntry{Name: ".", Ino: uint64(h.node), Mode: fuse.S_IFDIR, Off: i + 1}
		switch {
		case i == 1:
			e.Name, e.Ino = "..", uint64(h.up)
		case i > 1:
			d := &h.list[i-2]
			e.Name, e.Ino, e.Mode = d.Name, uint64(d.Node), uint32(d.Type)<<12
		}
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

// list takes a new listing. h.mu held.
func (f *fileSystem) list(h *handle, in *fuse.ReadIn) (err error) {
	if isControl(h.node) {
		h.list, h.up = f.ctl.list(), f.kern.root
		return nil
	}
	r := f.request(&in.InHeader)
	if h.up, err = f.view.Parent(&r, h.node); err != nil {
		h.up = h.node // a directory that was removed while it is open
	}
	h.list, err = f.view.List(&r, h.node)
	if h.node == f.kern.root { // what stands there by that name cannot be reached
		h.list = slices.DeleteFunc(h.list, func(d view.Dirent) bool { return d.Name == ControlDir })
	}
	return err
}

// ReadDirPlus is not negotiated: its entries would survive an INC_EPOCH sent
// while it is answered.
func (f *fileSystem) ReadDirPlus(_ <-chan struct{}, _ *fuse.ReadIn, _ *fuse.DirEntryList) fuse.Status {
	f.count.add(opReaddirplus)
	return fuse.ENOSYS
}

func (f *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	f.count.add(opReleasedir)
	f.handles.remove(in.Fh, f.node(in.NodeId))
}

func (f *fileSystem) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f.count.add(opFsyncdir)
	node := f.node(in.NodeId)
	if isControl(node) {
		return fuse.OK
	}
	r := f.request(&in.InHeader)
	return f.status("fsync", f.view.Fsync(f.ctx, &r, node))
}
