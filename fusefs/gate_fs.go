package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The methods of gate. Each lets its request through to the file system, or
// answers ENOTCONN.

func (g *gate) Lookup(c <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opLookup, start)
	return g.RawFileSystem.Lookup(c, in, name, out)
}

func (g *gate) GetAttr(c <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opGetattr, start)
	return g.RawFileSystem.GetAttr(c, in, out)
}

func (g *gate) SetAttr(c <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opSetattr, start)
	return g.RawFileSystem.SetAttr(c, in, out)
}

func (g *gate) Statx(c <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opStatx, start)
	return g.RawFileSystem.Statx(c, in, out)
}

func (g *gate) Mknod(c <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opMknod, start)
	return g.RawFileSystem.Mknod(c, in, name, out)
}

func (g *gate) Mkdir(c <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opMkdir, start)
	return g.RawFileSystem.Mkdir(c, in, name, out)
}

func (g *gate) Unlink(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opUnlink, start)
	return g.RawFileSystem.Unlink(c, in, name)
}

func (g *gate) Rmdir(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opRmdir, start)
	return g.RawFileSystem.Rmdir(c, in, name)
}

func (g *gate) Rename(c <-chan struct{}, in *fuse.RenameIn, name, newName string) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opRename, start)
	return g.RawFileSystem.Rename(c, in, name, newName)
}

func (g *gate) Link(c <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opLink, start)
	return g.RawFileSystem.Link(c, in, name, out)
}

func (g *gate) Symlink(c <-chan struct{}, in *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opSymlink, start)
	return g.RawFileSystem.Symlink(c, in, target, name, out)
}

func (g *gate) Readlink(c <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return nil, enotconn
	}
	defer g.leave(opReadlink, start)
	return g.RawFileSystem.Readlink(c, in)
}

func (g *gate) Access(c <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opAccess, start)
	return g.RawFileSystem.Access(c, in)
}

func (g *gate) GetXAttr(c <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return 0, enotconn
	}
	defer g.leave(opGetxattr, start)
	return g.RawFileSystem.GetXAttr(c, in, name, dest)
}

func (g *gate) ListXAttr(c <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return 0, enotconn
	}
	defer g.leave(opListxattr, start)
	return g.RawFileSystem.ListXAttr(c, in, dest)
}

func (g *gate) SetXAttr(c <-chan struct{}, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opSetxattr, start)
	return g.RawFileSystem.SetXAttr(c, in, name, data)
}

func (g *gate) RemoveXAttr(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opRemovexattr, start)
	return g.RawFileSystem.RemoveXAttr(c, in, name)
}

func (g *gate) Create(c <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opCreate, start)
	return g.RawFileSystem.Create(c, in, name, out)
}

func (g *gate) Tmpfile(c <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opTmpfile, start)
	return g.RawFileSystem.Tmpfile(c, in, out)
}

func (g *gate) Open(c <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opOpen, start)
	return g.RawFileSystem.Open(c, in, out)
}

func (g *gate) Read(c <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return nil, enotconn
	}
	defer g.leave(opRead, start)
	return g.RawFileSystem.Read(c, in, buf)
}

func (g *gate) Lseek(c <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opLseek, start)
	return g.RawFileSystem.Lseek(c, in, out)
}

func (g *gate) GetLk(c <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opGetlk, start)
	return g.RawFileSystem.GetLk(c, in, out)
}

func (g *gate) SetLk(c <-chan struct{}, in *fuse.LkIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opSetlk, start)
	return g.RawFileSystem.SetLk(c, in)
}

func (g *gate) Write(c <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return 0, enotconn
	}
	defer g.leave(opWrite, start)
	if in.Flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 {
		g.standby()
	}
	return g.RawFileSystem.Write(c, in, data)
}

func (g *gate) Writev(c <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return 0, enotconn
	}
	defer g.leave(opWrite, start)
	if in.Flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0 {
		g.standby()
	}
	return g.RawFileSystem.Writev(c, in, data)
}

func (g *gate) CopyFileRange(c <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	start, ok := g.enter()
	if !ok {
		return 0, enotconn
	}
	defer g.leave(opCopyFileRange, start)
	return g.RawFileSystem.CopyFileRange(c, in)
}

func (g *gate) Ioctl(c <-chan struct{}, in *fuse.IoctlIn, buf []byte, out *fuse.IoctlOut, outbuf []byte) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opIoctl, start)
	return g.RawFileSystem.Ioctl(c, in, buf, out, outbuf)
}

func (g *gate) Flush(c <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opFlush, start)
	return g.RawFileSystem.Flush(c, in)
}

func (g *gate) Fsync(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opFsync, start)
	g.standby()
	return g.RawFileSystem.Fsync(c, in)
}

func (g *gate) Fallocate(c <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opFallocate, start)
	return g.RawFileSystem.Fallocate(c, in)
}

func (g *gate) OpenDir(c <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opOpendir, start)
	return g.RawFileSystem.OpenDir(c, in, out)
}

func (g *gate) ReadDir(c <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opReaddir, start)
	return g.RawFileSystem.ReadDir(c, in, out)
}

func (g *gate) ReadDirPlus(c <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opReaddirplus, start)
	return g.RawFileSystem.ReadDirPlus(c, in, out)
}

func (g *gate) FsyncDir(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opFsyncdir, start)
	g.standby()
	return g.RawFileSystem.FsyncDir(c, in)
}

func (g *gate) StatFs(c <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opStatfs, start)
	return g.RawFileSystem.StatFs(c, in, out)
}

func (g *gate) Forget(node, lookups uint64) {
	if _, ok := g.enter(); !ok {
		return
	}
	defer g.out()
	g.RawFileSystem.Forget(node, lookups)
}

func (g *gate) Release(c <-chan struct{}, in *fuse.ReleaseIn) {
	start, ok := g.enter()
	if !ok {
		return
	}
	defer g.leave(opRelease, start)
	g.RawFileSystem.Release(c, in)
}

func (g *gate) ReleaseDir(in *fuse.ReleaseIn) {
	start, ok := g.enter()
	if !ok {
		return
	}
	defer g.leave(opReleasedir, start)
	g.RawFileSystem.ReleaseDir(in)
}
