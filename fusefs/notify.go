package fusefs

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// device writes notifications to one kernel, on a descriptor of its own. The
// transport reads and replies on another of the same open file; go-fuse cannot
// write INC_EPOCH.
//
// Writes run in the calling goroutine by a plain system call: a hand-over to
// another costs more than the call. They may block in the kernel (see the
// package doc), so no lock may be held.
type device struct {
	file  *os.File
	conn  syscall.RawConn
	count *counters
	bufs  sync.Pool // of *[maxNotice]byte
	// standby is called before a handler of this mount waits: the transport
	// reads on.
	standby func()
}

func newDevice(fd int, count *counters) (*device, error) {
	file := os.NewFile(uintptr(fd), "/dev/fuse")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	d := &device{file: file, conn: conn, count: count, standby: func() {}}
	d.bufs.New = func() any { return new([maxNotice]byte) }
	return d, nil
}

// close ends writing. Calls under way finish; later ones give EBADF.
func (d *device) close() { d.file.Close() }

const (
	outHeaderSize = 16
	inodeSize     = outHeaderSize + 24
	entrySize     = outHeaderSize + 16
	maxNotice     = entrySize + backend.MaxName + 1
)

// header fills in fuse_out_header; code is one of fuse.NOTIFY_*.
func header(b *[maxNotice]byte, size int, code int32) {
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], uint32(size))
	ne.PutUint32(b[4:], uint32(-code))
	ne.PutUint64(b[8:], 0)
}

// write sends the first n bytes of b.
func (d *device) write(b *[maxNotice]byte, n int) syscall.Errno {
	errno := syscall.EBADF
	_ = d.conn.Control(func(fd uintptr) {
		for {
			_, _, errno = syscall.Syscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(b)), uintptr(n))
			if errno != syscall.EINTR {
				return
			}
		}
	})
	runtime.KeepAlive(b)
	return errno
}

// asked tells whether requests wait to be read.
func (d *device) asked() bool {
	ready := 0
	_ = d.conn.Control(func(fd uintptr) {
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return ready > 0
}

// live tells whether the connection has not ended.
func (d *device) live() (yes bool) {
	_ = d.conn.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(p, 0)
		yes = err == nil && p[0].Revents&unix.POLLERR == 0
	})
	return yes
}

// invalInode drops the cached attributes of node, a wire id, and the cached
// pages that hold [off, off+n); n 0 is to the end. With off -1 no page is
// touched and the call cannot block. Otherwise it waits for pages under I/O.
// ENOENT: the kernel holds no such inode.
func (d *device) invalInode(node uint64, off, n int64) syscall.Errno {
	d.count.add(noteInode)
	b := d.bufs.Get().(*[maxNotice]byte)
	header(b, inodeSize, fuse.NOTIFY_INVAL_INODE)
	ne := binary.NativeEndian
	ne.PutUint64(b[16:], node)
	ne.PutUint64(b[24:], uint64(off))
	ne.PutUint64(b[32:], uint64(n))
	errno := d.write(b, inodeSize)
	d.bufs.Put(b)
	return errno
}

// invalEntry drops name in directory parent from the kernel's cache, with all
// below it. It waits for the directory's lock, and with it for every request
// that looks at or changes names in it. ENOENT: nothing was cached.
func (d *device) invalEntry(parent uint64, name string) syscall.Errno {
	if len(name) > backend.MaxName {
		return syscall.ENOENT // never answered, so never cached
	}
	d.count.add(noteEntry)
	b := d.bufs.Get().(*[maxNotice]byte)
	size := entrySize + len(name) + 1
	header(b, size, fuse.NOTIFY_INVAL_ENTRY)
	ne := binary.NativeEndian
	ne.PutUint64(b[16:], parent)
	ne.PutUint32(b[24:], uint32(len(name)))
	ne.PutUint32(b[28:], 0)
	copy(b[entrySize:], name)
	b[size-1] = 0
	errno := d.write(b, size)
	d.bufs.Put(b)
	return errno
}

// incEpoch makes the kernel ask again for every name and listing it holds. It
// takes no lock and never blocks. EINVAL: the kernel is older than 6.16.
func (d *device) incEpoch() syscall.Errno {
	d.count.add(noteEpoch)
	b := d.bufs.Get().(*[maxNotice]byte)
	header(b, outHeaderSize, fuse.NOTIFY_INC_EPOCH)
	errno := d.write(b, outHeaderSize)
	d.bufs.Put(b)
	return errno
}
