package transport

import (
	"encoding/binary"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	inHeaderSize  = 40 // fuse_in_header
	opInit        = 26 // FUSE_INIT
	outHeaderSize = 16 // fuse_out_header
	// headRoom is for what comes with the bytes of a READ or WRITE.
	headRoom = 4096
	// keepUsed is how much of the buffers a reader keeps when it is idle.
	keepUsed = 64 << 10
	// trimAfter is how long without requests that is, in milliseconds.
	trimAfter = 1000
)

// buffers are what a goroutine of a loop reads into and replies from. They are
// mapped, not in the Go heap: their size is that of the largest request, which
// is mostly not memory.
type buffers struct {
	in, out   []byte
	used      int // largest request or reply since trim
	inv, outv [1][]byte
}

func roundUp(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// newBuffers maps two buffers of size bytes, a multiple of a page. It maps by
// package syscall: package unix calls through a variable, which backend/badger
// replaces when it opens its first store.
func newBuffers(size int) (*buffers, error) {
	all, err := syscall.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return &buffers{in: all[: size : 2*size], out: all[size:]}, nil
}

func (b *buffers) free() { _ = syscall.Munmap(b.in[:cap(b.in)]) }

func (b *buffers) note(n int) { b.used = max(b.used, n) }

// trim gives the memory back that is beyond keepUsed.
func (b *buffers) trim() {
	if b.used <= keepUsed {
		return
	}
	_ = unix.Madvise(b.in[keepUsed:], unix.MADV_DONTNEED)
	_ = unix.Madvise(b.out[keepUsed:], unix.MADV_DONTNEED)
	b.used = 0
}

// opcodeOf gives the opcode of the request in b.
func opcodeOf(b []byte) uint32 { return binary.NativeEndian.Uint32(b[4:]) }

// replyError gives the errno in the reply in b.
func replyError(b []byte) int32 { return -int32(binary.NativeEndian.Uint32(b[4:])) }

// refuse makes the reply st to the request in.
func refuse(out, in []byte, st fuse.Status) int {
	ne := binary.NativeEndian
	ne.PutUint32(out[0:], outHeaderSize)
	ne.PutUint32(out[4:], uint32(-st))
	copy(out[8:outHeaderSize], in[8:16])
	return outHeaderSize
}
