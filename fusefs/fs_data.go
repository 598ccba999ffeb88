package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

func (f *fileSystem) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.count.add(opRead)
	node := f.node(in.NodeId)
	if isControl(node) {
		return f.ctl.read(f, node, in, buf)
	}
	buf = buf[:min(len(buf), int(in.Size))]
	// Before the bytes are read, so that no change slips in between.
	f.kern.reading(node, in.Pid, in.Offset, len(buf))
	r := f.request(&in.InHeader)
	n, err := f.view.Read(&r, node, buf, in.Offset)
	if err != nil {
		return nil, f.status("read", err)
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

// Writev is Write for one contiguous piece, which is all the kernel sends.
func (f *fileSystem) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if len(data) == 1 {
		return f.Write(cancel, in, data[0])
	}
	return 0, fuse.ENOSYS
}

// Write puts bytes where the kernel says, but for O_APPEND: those go to the end
// of the file as it is here.
func (f *fileSystem) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.count.add(opWrite)
	node := f.node(in.NodeId)
	h := f.handles.get(in.Fh, node)
	if h == nil {
		return 0, fuse.EBADF
	}
	if isControl(node) {
		return f.ctl.write(f, h, in.Offset, data)
	}
	r := f.request(&in.InHeader)
	r.KillPriv = in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0
	var res view.WriteResult
	var err error
	switch {
	case in.WriteFlags&fuse.WRITE_CACHE != 0: // a map's
		res, err = f.view.WriteBack(&r, node, data, in.Offset)
	case in.Flags&syscall.O_APPEND != 0:
		res, err = f.view.Append(&r, node, data)
	default:
		res, err = f.view.Write(&r, node, data, in.Offset)
	}
	if err != nil {
		if in.WriteFlags&fuse.WRITE_CACHE != 0 && notAllowed(err) {
			f.kern.refused(node, in.Offset, len(data))
		}
		return 0, f.status("write", err)
	}
	f.killed(&r, node)
	if in.WriteFlags&fuse.WRITE_CACHE == 0 { // not the write-back of a map
		f.wrote(h, in.Offset, &res)
	}
	if in.Flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 {
		if err := f.view.Fsync(f.ctx, &r, node); err != nil {
			return 0, f.status("write", err)
		}
	}
	return uint32(res.N), fuse.OK
}

// notAllowed tells whether it is policy that refuses.
func notAllowed(err error) bool {
	switch backend.KindOf(err) {
	case backend.Denied, backend.NotFound, backend.ReadOnly:
		return true
	}
	return false
}

// wrote corrects what this mount's own kernel has of a file that was written
// past its page cache, or not where the kernel thinks.
func (f *fileSystem) wrote(h *handle, at uint64, res *view.WriteResult) {
	dev, node := f.kern.dev, f.kern.wire(h.node)
	moved := res.Off != at
	switch {
	case h.direct && f.kern.armedData(h.node):
		f.kern.dev.standby() // a page may be locked by a READ that waits to be handled
		dev.invalInode(node, int64(res.Off), int64(res.N))
	case h.direct && moved:
		dev.invalInode(node, -1, 0)
	case moved:
		// A cached handle that became O_APPEND later (fcntl): the kernel holds
		// the page at its own offset, locked until this is answered.
		dev.invalInode(node, -1, 0)
		go dev.invalInode(node, 0, 0)
	case !h.direct && f.kern.inDoubt(h.node, at, res.N):
		f.kern.dev.standby()
		f.kern.refresh(h.node, at, res.N)
	}
}

func (f *fileSystem) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	f.count.add(opFsync)
	node := f.node(in.NodeId)
	if isControl(node) {
		return fuse.OK
	}
	r := f.request(&in.InHeader)
	return f.status("fsync", f.view.Fsync(f.ctx, &r, node))
}

func (f *fileSystem) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	f.count.add(opFallocate)
	node := f.node(in.NodeId)
	if isControl(node) {
		return fuse.ENOTSUP
	}
	h := f.handles.get(in.Fh, node)
	if h == nil || !h.writes() {
		return fuse.EBADF
	}
	r := f.request(&in.InHeader)
	return f.status("fallocate", f.view.Fallocate(&r, node, in.Offset, in.Length, in.Mode))
}

func (f *fileSystem) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	f.count.add(opLseek)
	const seekData, seekHole = 3, 4
	node := f.node(in.NodeId)
	if isControl(node) || (in.Whence != seekData && in.Whence != seekHole) {
		return fuse.EINVAL
	}
	r := f.request(&in.InHeader)
	off, err := f.view.Seek(&r, node, in.Offset, in.Whence == seekHole)
	if err != nil {
		return f.status("lseek", err)
	}
	out.Offset = off
	return fuse.OK
}

// CopyFileRange may copy less than asked for.
func (f *fileSystem) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	f.count.add(opCopyFileRange)
	src, dst := f.node(in.NodeId), f.node(in.NodeIdOut)
	if isControl(src) || isControl(dst) {
		return 0, fuse.EXDEV // the kernel copies by reading and writing
	}
	h := f.handles.get(in.FhOut, dst)
	if f.handles.get(in.FhIn, src) == nil || h == nil || !h.writes() {
		return 0, fuse.EBADF
	}
	r := f.request(&in.InHeader)
	n, err := f.view.CopyRange(&r, src, in.OffIn, dst, in.OffOut, uint64(clampSize(in.Len)))
	if err != nil {
		return 0, f.status("copy_file_range", err)
	}
	return uint32(n), fuse.OK
}
