package fusefs

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sort"

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
	if _, err := f.view.Open(&r, node, view.OpenFlags{Read: true}); err != nil {
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

// Cookies of a listing: "." and ".." have these, a name one that follows from
// the name alone.
const (
	cookieDot    = 1
	cookieDotDot = 2
	cookieFirst  = 3
)

// listed is a name of a listing and its cookie: where the next one is looked for.
type listed struct {
	cookie uint64
	view.Dirent
}

// ReadDir answers from a listing taken at offset 0, in the order of the cookies. A
// handle that was served from the kernel's cache at first has none when the
// cache is dropped; it gets one then, and since a cookie does not depend on what
// else is in the directory, no name that stayed is told twice or left out. It
// never waits for another mount.
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
	if in.Offset < cookieDot && !out.AddDirEntry(fuse.DirEntry{Name: ".", Ino: uint64(h.node), Mode: fuse.S_IFDIR, Off: cookieDot}) {
		return fuse.OK
	}
	if in.Offset < cookieDotDot && !out.AddDirEntry(fuse.DirEntry{Name: "..", Ino: uint64(h.up), Mode: fuse.S_IFDIR, Off: cookieDotDot}) {
		return fuse.OK
	}
	next := sort.Search(len(h.list), func(i int) bool { return h.list[i].cookie > in.Offset })
	for i := range h.list[next:] {
		d := &h.list[next+i]
		if !out.AddDirEntry(fuse.DirEntry{Name: d.Name, Ino: uint64(d.Node), Mode: uint32(d.Type) << 12, Off: d.cookie}) {
			break
		}
	}
	return fuse.OK
}

// list takes a new listing. h.mu held.
func (f *fileSystem) list(h *handle, in *fuse.ReadIn) error {
	if isControl(h.node) {
		names, up := f.ctl.list(h.node)
		h.list, h.up = f.inOrder(names), up
		return nil
	}
	r := f.request(&in.InHeader)
	var err error
	if h.up, err = f.view.Parent(&r, h.node); err != nil {
		h.up = h.node // a directory that was removed while it is open
	}
	list, err := f.view.List(&r, h.node)
	if h.node == f.kern.root { // what stands there by that name cannot be reached
		list = slices.DeleteFunc(list, func(d view.Dirent) bool { return d.Name == ControlDir })
	}
	h.list = f.inOrder(list)
	return err
}

// inOrder gives names their cookies, which fit a signed 64-bit offset, and sorts
// them by these. Two names of one cookie (never seen: 63 bits) get neighbouring ones.
func (f *fileSystem) inOrder(list []view.Dirent) []listed {
	out := make([]listed, len(list))
	for i := range list {
		out[i] = listed{max(maphash.String(f.hub.order, list[i].Name)>>2, cookieFirst), list[i]}
	}
	slices.SortFunc(out, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.cookie, b.cookie), cmp.Compare(a.Name, b.Name))
	})
	for i := 1; i < len(out); i++ {
		if out[i].cookie <= out[i-1].cookie {
			out[i].cookie = out[i-1].cookie + 1
		}
	}
	return out
}

// ReadDirPlus is not negotiated: its entries would survive an INC_EPOCH sent
// while it is answered.
func (f *fileSystem) ReadDirPlus(_ <-chan struct{}, _ *fuse.ReadIn, _ *fuse.DirEntryList) fuse.Status {
	f.count.add(opReaddirplus)
	return fuse.ENOSYS
}

func (f *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	f.count.add(opReleasedir)
	if h := f.handles.remove(in.Fh, f.node(in.NodeId)); h != nil { // of a file, if the request is forged
		f.released(h)
	}
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
