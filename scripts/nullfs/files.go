package main

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func (f *filesystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[in.NodeId]
	if n == nil {
		return fuse.ENOENT
	}
	n.attrs(out)
	return fuse.OK
}

func (f *filesystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[in.NodeId]
	if n == nil {
		return fuse.ENOENT
	}
	n.touch(false)
	if mode, ok := in.GetMode(); ok {
		n.attr.Mode = n.attr.Mode&syscall.S_IFMT | mode&0o7777
	}
	if uid, ok := in.GetUID(); ok {
		n.attr.Uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		n.attr.Gid = gid
	}
	if size, ok := in.GetSize(); ok {
		n.resize(size)
		n.touch(true)
	}
	if t, ok := in.GetMTime(); ok {
		n.attr.Mtime, n.attr.Mtimensec = uint64(t.Unix()), uint32(t.Nanosecond())
	}
	if t, ok := in.GetATime(); ok {
		n.attr.Atime, n.attr.Atimensec = uint64(t.Unix()), uint32(t.Nanosecond())
	}
	n.attrs(out)
	return fuse.OK
}

// openFlags are those of a handle that was opened with flags; fresh means that
// the file was made with it.
func openFlags(flags uint32, fresh bool) uint32 {
	out := uint32(fuse.FOPEN_KEEP_CACHE)
	switch flags & syscall.O_ACCMODE {
	case syscall.O_RDWR:
		return out
	case syscall.O_WRONLY:
		if fresh {
			out |= fuse.FOPEN_DIRECT_IO
		}
	}
	return out | fuse.FOPEN_NOFLUSH
}

func (f *filesystem) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	out.OpenFlags = openFlags(in.Flags, true)
	return f.addAndShow(&in.InHeader, name, syscall.S_IFREG|in.Mode&0o7777, nil, &out.EntryOut)
}

func (f *filesystem) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[in.NodeId]
	if n == nil {
		return fuse.ENOENT
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		n.resize(0)
		n.touch(true)
	}
	out.OpenFlags = openFlags(in.Flags, false)
	return fuse.OK
}

func (f *filesystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[in.NodeId]
	if n == nil {
		return nil, fuse.ENOENT
	}
	if in.Offset >= uint64(len(n.data)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, n.data[in.Offset:])]), fuse.OK
}

func (f *filesystem) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[in.NodeId]
	if n == nil {
		return 0, fuse.ENOENT
	}
	off := in.Offset
	if in.Flags&syscall.O_APPEND != 0 {
		off = uint64(len(n.data))
	}
	if end := off + uint64(len(data)); end > uint64(len(n.data)) {
		n.resize(end)
	}
	copy(n.data[off:], data)
	n.touch(true)
	return uint32(len(data)), fuse.OK
}

func (f *filesystem) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[h.NodeId]
	if n == nil {
		return nil, fuse.ENOENT
	}
	return n.data, fuse.OK
}

func (f *filesystem) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (f *filesystem) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

func (f *filesystem) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

func (f *filesystem) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Blocks: 1 << 30, Bfree: 1 << 29, Bavail: 1 << 29, Files: 1 << 30, Ffree: 1 << 29, Bsize: 4096, Frsize: 4096, NameLen: 255}
	return fuse.OK
}

func (f *filesystem) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENOATTR
}

func (f *filesystem) ListXAttr(<-chan struct{}, *fuse.InHeader, []byte) (uint32, fuse.Status) {
	return 0, fuse.OK
}
