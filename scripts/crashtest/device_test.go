package crashtest

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// faults are how a device fails: how many of 10,000 reads, writes and flushes do.
type faults struct{ reads, writes, flushes int }

// device is a block device that fails when it is told to: the one file of a FUSE
// filesystem of this process, which the kernel's loop driver makes a disk of. (The
// device mapper's flakey and error targets do the same; not every kernel has them.)
// A write that fails has changed nothing or half of what it was to.
type device struct {
	fs.Inode
	file   *os.File // where the blocks are
	size   uint64
	faults atomic.Pointer[faults]
	failed [3]atomic.Int64 // reads, writes, flushes
}

var (
	_ fs.NodeOpener    = (*device)(nil)
	_ fs.NodeGetattrer = (*device)(nil)
	_ fs.NodeSetattrer = (*device)(nil)
	_ fs.NodeReader    = (*device)(nil)
	_ fs.NodeWriter    = (*device)(nil)
	_ fs.NodeWritever  = (*device)(nil)
	_ fs.NodeFsyncer   = (*device)(nil)
)

// newDevice makes a device of some bytes, and gives the path of its file.
func newDevice(t *testing.T, size int64) (*device, string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "blocks"))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	d := &device{file: file, size: uint64(size)}
	d.faults.Store(&faults{})
	dir := filepath.Join(t.TempDir(), "device")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, MaxWrite: 512 << 10, DisableSplice: true, FsName: "device", Name: "device"},
		OnAdd: func(ctx context.Context) {
			root.AddChild("disk", root.NewPersistentInode(ctx, d, fs.StableAttr{Mode: syscall.S_IFREG}), true)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	keepToOurselves(t)
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
		_ = file.Close()
	})
	return d, filepath.Join(dir, "disk")
}

// keepToOurselves has no child inherit our ends of FUSE connections, which go-fuse opens without
// O_CLOEXEC: if the test were killed, a daemon that it started would keep the device from
// failing, and every sync(2) on this machine would wait for it.
func keepToOurselves(t *testing.T) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range fds {
		if to, err := os.Readlink(link); err == nil && to == "/dev/fuse" {
			fd, err := strconv.Atoi(filepath.Base(link))
			if err != nil {
				t.Fatal(err)
			}
			syscall.CloseOnExec(fd)
		}
	}
}

// fails throws the dice for one request of a kind.
func (d *device) fails(kind, of int) bool {
	if of == 0 || rand.IntN(10_000) >= of {
		return false
	}
	d.failed[kind].Add(1)
	return true
}

// Open has nothing of the device cached twice.
func (d *device) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (d *device) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = syscall.S_IFREG|0o600, d.size
	return 0
}

// Setattr changes nothing: the kernel tells of times.
func (d *device) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return d.Getattr(ctx, f, out)
}

func (d *device) Read(_ context.Context, _ fs.FileHandle, p []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if d.fails(0, d.faults.Load().reads) {
		return nil, syscall.EIO
	}
	n, err := d.file.ReadAt(p, off)
	if n == 0 && err != nil {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(p[:n]), 0
}

func (d *device) Write(_ context.Context, _ fs.FileHandle, p []byte, off int64) (uint32, syscall.Errno) {
	if d.fails(1, d.faults.Load().writes) {
		const sector = 4096
		_, _ = d.file.WriteAt(p[:len(p)/2/sector*sector], off)
		return 0, syscall.EIO
	}
	if _, err := d.file.WriteAt(p, off); err != nil {
		return 0, syscall.EIO
	}
	return uint32(len(p)), 0
}

func (d *device) Writev(ctx context.Context, f fs.FileHandle, p [][]byte, off int64) (uint32, syscall.Errno) {
	return d.Write(ctx, f, slices.Concat(p...), off)
}

// Fsync is what the loop driver does for a flush of the disk's cache. There is none.
func (d *device) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if d.fails(2, d.faults.Load().flushes) {
		return syscall.EIO
	}
	return 0
}
