package transport

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// maxParked is how many goroutines a loop keeps for later.
const maxParked = 2

// Options are of one loop. Log and Watch must be set.
type Options struct {
	// Mount is what is negotiated with the kernel. MaxWrite must be what the
	// kernel may use: buffers are made for it.
	Mount *fuse.MountOptions
	// Ended is called once, when the connection has ended and handlers may
	// still wait for file locks: it must make them return.
	Ended func()
	Watch *Watch
	Log   *slog.Logger

	tests func(size int) (*buffers, error) // nil: newBuffers
}

func (o *Options) buffers(size int) (*buffers, error) {
	if o.tests != nil {
		return o.tests(size)
	}
	return newBuffers(size)
}

// Loop serves one connection.
type Loop struct {
	fd     int
	server *fuse.ProtocolServer
	opts   Options
	room   int // of a read buffer, and of a reply

	// reading counts the goroutines that read, or are about to. Whoever raises
	// it reads, or sees to it that somebody does. When the connection has ended
	// it stays raised.
	reading  atomic.Int32
	most     atomic.Int32  // how many may; the Watch changes it
	requests atomic.Uint64 // read so far
	busy     atomic.Int32  // requests being handled

	wake chan struct{} // to a parked goroutine: read
	over chan struct{} // closed when the connection has ended
	done chan struct{} // closed when no goroutine is left

	mu     sync.Mutex
	live   int // goroutines
	parked int
	ended  bool
}

// New serves the connection of fd, a descriptor of /dev/fuse that has been
// mounted, and answers its INIT. It takes fd over, also when it fails.
//
// Errors: those of read(2) and write(2), ENOMEM, and EPROTO when the library
// does not take the INIT, or the first request is another.
func New(fd int, fs fuse.RawFileSystem, o Options) (*Loop, error) {
	l := &Loop{
		fd:     fd,
		server: fuse.NewProtocolServer(fs, o.Mount),
		opts:   o,
		room:   roundUp(o.Mount.MaxWrite + headRoom),
		wake:   make(chan struct{}),
		over:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	l.most.Store(1)
	if err := l.init(); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return l, nil
}

// init answers the first request.
func (l *Loop) init() error {
	b, err := newBuffers(l.room)
	if err != nil {
		return err
	}
	defer b.free()
	n, errno := l.read(b.in)
	if errno != 0 {
		return errno
	}
	if n < inHeaderSize || opcodeOf(b.in) != opInit { // it is somebody else's, who is told so
		_ = l.write(b.out[:refuse(b.out, b.in, fuse.Status(unix.ENOTCONN))])
		return unix.EPROTO
	}
	size, st := l.handle(b, n)
	if size < outHeaderSize || !st.Ok() || replyError(b.out) != 0 {
		return unix.EPROTO
	}
	if errno := l.write(b.out[:size]); errno != 0 {
		return errno
	}
	return nil
}

// Serve returns when the connection has ended and no handler runs. It must be
// called once.
func (l *Loop) Serve() {
	l.opts.Watch.add(l)
	l.Standby()
	<-l.done
	l.opts.Watch.remove(l)
	unix.Close(l.fd)
}

// Standby sees to it that requests are read while the caller, a handler, waits.
// It does not wait itself. No lock is needed; any may be held.
func (l *Loop) Standby() {
	if l.reading.Load() == 0 {
		l.send()
	}
}

// claim asks to be one of those who read.
func (l *Loop) claim() bool {
	for {
		n := l.reading.Load()
		if n >= l.most.Load() {
			return false
		}
		if l.reading.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// send makes another goroutine read, if another may.
func (l *Loop) send() {
	if !l.claim() {
		return
	}
	select {
	case l.wake <- struct{}{}:
		return
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.live++
	go l.run()
}

// run is one goroutine of the loop; it starts as the one that reads.
func (l *Loop) run() {
	defer l.leave()
	b, ok := l.buffers()
	if !ok {
		return
	}
	defer b.free()
	for {
		n, ok := l.next(b)
		if !ok {
			l.end()
			return
		}
		l.serve(b, n)
		if !l.claim() && !l.park(b) {
			return
		}
	}
}

// memoryDelay is how long a reader waits for memory before it tries again.
const memoryDelay = 10 * time.Millisecond

// buffers makes those of the caller, which is one of those who read. While there is
// no memory the caller hands that on to whoever is parked, or waits: were it to
// give up, nobody might be left who reads. It tells false if the caller should end.
func (l *Loop) buffers() (b *buffers, ok bool) {
	b, err := l.opts.buffers(l.room)
	if err != nil {
		l.opts.Log.Error("no memory for a reader of requests", "err", err)
	}
	for err != nil {
		select {
		case l.wake <- struct{}{}:
			return nil, false
		case <-l.over:
			return nil, false
		case <-time.After(memoryDelay):
		}
		b, err = l.opts.buffers(l.room)
	}
	return b, true
}

// next reads a request; after that the caller is not one of those who read. ok is
// false when the connection has ended.
func (l *Loop) next(b *buffers) (n int, ok bool) {
	for {
		if b.used > keepUsed && !l.quiet() {
			b.trim()
		}
		n, errno := l.read(b.in)
		switch errno {
		case 0:
			l.requests.Add(1)
			l.busy.Add(1)
			l.reading.Add(-1)
			return n, true
		case unix.ENOENT: // the request was interrupted before it was read
		case unix.ENODEV, unix.ECONNABORTED:
			return 0, false
		default:
			l.opts.Log.Error("cannot read requests any more", "err", errno)
			return 0, false
		}
	}
}

// serve handles the request of n bytes in b.in and writes the reply.
func (l *Loop) serve(b *buffers, n int) {
	l.opts.Watch.stir()
	size, _ := l.handle(b, n)
	b.note(max(n, size))
	l.busy.Add(-1)
	if size == 0 {
		return // there is no reply to it
	}
	if errno := l.write(b.out[:size]); errno != 0 && errno != unix.ENOENT && errno != unix.ENODEV {
		// ENOENT: it was interrupted, or the connection has ended.
		l.opts.Log.Debug("reply refused", "err", errno, "opcode", opcodeOf(b.in))
	}
}

// handle gives the size of the reply in b.out, 0 for none.
func (l *Loop) handle(b *buffers, n int) (int, fuse.Status) {
	b.inv[0], b.outv[0] = b.in[:n], b.out
	size, st := l.server.HandleRequest(b.inv[:], b.outv[:])
	if size == 0 && !st.Ok() && n >= inHeaderSize {
		// The library gives up on a request that it cannot make sense of.
		return refuse(b.out, b.in, st), st
	}
	return size, st
}

// park waits until somebody wants the caller to read, which is then the one
// that reads. It tells false if the caller should end.
func (l *Loop) park(b *buffers) bool {
	l.mu.Lock()
	if l.parked >= maxParked || l.ended {
		l.mu.Unlock()
		return false
	}
	l.parked++
	l.mu.Unlock()
	b.trim()
	var woken bool
	select {
	case <-l.wake:
		woken = true
	case <-l.over:
	}
	l.mu.Lock()
	l.parked--
	l.mu.Unlock()
	return woken
}

// end notes that the connection has ended. Whoever has found that stays counted
// as reading, so that nobody is sent any more.
func (l *Loop) end() {
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	l.mu.Unlock()
	if first {
		close(l.over)
		l.opts.Ended()
	}
}

// leave is the last that a goroutine does.
func (l *Loop) leave() {
	l.mu.Lock()
	l.live--
	last := l.live == 0
	l.mu.Unlock()
	if last {
		close(l.done)
	}
}

// read reads one request into b, or waits for one.
func (l *Loop) read(b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := syscall.Syscall(syscall.SYS_READ, uintptr(l.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			// Somebody who shares the open file has made it non-blocking.
			l.wait(-1)
		default:
			return int(n), errno
		}
	}
}

// quiet waits for a request, or for the time after which memory is given back;
// it tells whether a request came.
func (l *Loop) quiet() bool { return l.wait(trimAfter) }

// wait waits until there is something to read, or ms have passed (-1: for ever),
// and tells whether there is.
func (l *Loop) wait(ms int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}, ms)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// maxRaw is the longest reply that is written by a system call that the Go
// runtime does not know of: it must be short, as garbage collection waits for
// it.
const maxRaw = 16 << 10

// write writes one reply.
func (l *Loop) write(b []byte) (errno syscall.Errno) {
	p, n := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))
	for {
		if len(b) <= maxRaw {
			_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(l.fd), p, n)
		} else {
			_, _, errno = syscall.Syscall(syscall.SYS_WRITE, uintptr(l.fd), p, n)
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}
