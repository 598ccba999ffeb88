package fusefs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// A mount may also be made by its user, in namespaces of its own where the
// daemon cannot reach (a container), and its /dev/fuse handed to the daemon.
// Whoever made it still has the descriptor, if it likes, and is the kernel's
// root there, perhaps: it can answer the kernel itself, and so make it send any
// node id; its uids are what its user namespace says, and mode bits are checked
// only if it said so to mount(2). So nothing that such a connection says is
// believed:
//
//   - it must be a fresh one: /dev/fuse itself, mounted, with its INIT waiting,
//     and not served already;
//   - a node must be one that this mount was told of and has not forgotten;
//   - every request is the mount's own user's, whatever uid and pid it has, and
//     nothing is given to another user;
//   - no device is made;
//   - a kernel that keeps others waiting is waited for as an untrusted one.

// handshakeTime bounds the wait for a connection's first request.
const handshakeTime = 5 * time.Second

// squash is whose all requests of a mount are that was handed over.
type squash struct{ uid, gid uint32 }

// noNode is a node that is none: of a volume that no store reaches.
const noNode = nodeID(^uint64(0))

// told gives node if the kernel was told of it.
func (f *fileSystem) told(node nodeID) nodeID {
	if f.handed == nil || isControl(node) || f.kern.Holds(node) {
		return node
	}
	return noNode
}

// gives tells whether a SETATTR would give a node to somebody else.
func (q *squash) gives(s *backend.SetAttr) bool {
	return q != nil && (s.UID != nil && *s.UID != q.uid || s.GID != nil && *s.GID != q.gid)
}

// pid is what a process of the mount is called: there is nothing to call it by.
func (q *squash) pid(p uint32) uint32 {
	if q != nil {
		return 0
	}
	return p
}

// device tells whether a MKNOD is for a device.
func (q *squash) device(t backend.FileType) bool {
	return q != nil && (t == backend.TypeChar || t == backend.TypeBlock)
}

// TakeOver serves the mount behind fd, which somebody else has made, until the
// connection ends or CutOff, which leaves it in the other's tree: requests are
// then answered ENOTCONN. It takes fd over, also when it fails. cfg.Dir is what
// the mount is called: one name for each, without a slash at its start, since
// it is no mountpoint of the daemon's. Such a mount does not come back with
// another daemon. TakeOver may wait for as long as the maker of fd likes, if that
// is a file of a file system of his own: closing it does.
//
// Errors: Invalid (fd is no /dev/fuse, open for reading and writing, that has
// been mounted and that nobody has read from), Busy (it is served already), those
// of Mount for agent and root, Unavailable.
func (h *Hub) TakeOver(ctx context.Context, fd int, cfg Config) (*Mount, error) {
	number, err := freshDevice(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return h.takeOver(ctx, fd, number, cfg)
}

// takeOver takes over fd, the device of connection number (0: not known).
func (h *Hub) takeOver(ctx context.Context, fd int, number uint32, cfg Config) (*Mount, error) {
	if strings.HasPrefix(cfg.Dir, "/") || cfg.Dir == "" {
		unix.Close(fd)
		return nil, &backend.Error{Kind: backend.Invalid, Err: errors.New("it is called as a mountpoint")}
	}
	over, ok := h.late(cfg.Agent) // until it has said something
	if !ok {
		unix.Close(fd)
		return nil, &backend.Error{Kind: backend.Busy, Err: errors.New("too many mounts were handed over that say nothing; unmount them")}
	}
	cfg.Transport = TransportOwn
	conn := fmt.Sprintf("connection %d", number)
	for _, name := range []string{cfg.Dir, conn} {
		if name == conn && number == 0 {
			continue
		}
		if err := h.reserve(name); err != nil {
			over()
			unix.Close(fd)
			return nil, err
		}
		defer h.unreserve(name)
	}
	if h.served(ctx, cfg.Dir, number) {
		over()
		unix.Close(fd)
		return nil, &backend.Error{Kind: backend.Busy, Err: errors.New("this mount is served already")}
	}
	m := &Mount{hub: h, cfg: cfg, minor: number, since: time.Now(),
		taking: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	if err := m.openView(true); err != nil {
		over()
		unix.Close(fd)
		return nil, err
	}
	m.fs.handed = &squash{cfg.UID, cfg.GID}
	m.fs.kern.trusted = false
	t, err := m.greet(ctx, fd, over)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.mounts[cfg.Dir] = m
	closed := h.closed
	h.mu.Unlock()
	go m.serve(t)
	if closed {
		m.cutOff()
		return nil, &backend.Error{Kind: backend.Unavailable, Err: errors.New("the daemon is stopping")}
	}
	return m, nil
}

// served tells whether a mount called name, or of connection number, is served
// and stays so: the kernel gives a number to the next as soon as it is free, which the
// goroutine that served the last may not have noticed yet.
func (h *Hub) served(ctx context.Context, name string, number uint32) bool {
	for _, other := range h.Mounts() {
		if other.cfg.Dir == name || number != 0 && other.minor == number && !wait(ctx, endTime, other.done) {
			return true
		}
	}
	return false
}

// greet does the handshake with the kernel, which may be kept from saying
// anything: what it says later is answered by a mount that has ended. It calls over
// when the kernel has said something.
func (m *Mount) greet(ctx context.Context, fd int, over func()) (server, error) {
	type outcome struct {
		t   server
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		t, err := m.handshake(fd)
		over()
		done <- outcome{t, err}
	}()
	wait, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	select {
	case o := <-done:
		if o.err != nil {
			close(m.ended)
			m.drop()
			return nil, &backend.Error{Kind: backend.Invalid, Err: fmt.Errorf("it is no fresh mount: %w", o.err)}
		}
		return o.t, nil
	case <-wait.Done():
	}
	m.gate.shut()
	go func() {
		if o := <-done; o.err == nil {
			o.t.Serve()
		}
		close(m.ended)
		m.drop()
	}()
	return nil, &backend.Error{Kind: backend.Invalid, Err: errors.New("it is no fresh mount: its first request does not come")}
}

// maxLate bounds the connections of one agent that wait for a first request which
// somebody took away: each costs a thread.
const maxLate = 4

// late notes one more of them, if there may be one more, until over is called.
func (h *Hub) late(agent string) (over func(), ok bool) {
	for n := range maxLate {
		name := fmt.Sprintf("late %d of %s", n, agent)
		if h.reserve(name) == nil {
			return func() { h.unreserve(name) }, true
		}
	}
	return nil, false
}

// Ended is closed when the connection has ended: with a mount that was handed
// over that may be long after Done.
func (m *Mount) Ended() <-chan struct{} { return m.ended }

// CutOff ends the mount at once: when it returns no request of it is let in
// any more, and its kernel has been told to ask again for what it has cached.
func (m *Mount) CutOff() { m.cutOff() }

// The number of the FUSE device, by which it is known whatever it is called.
const (
	fuseMajor = 10
	fuseMinor = 229
)

// freshDevice checks that fd is /dev/fuse, has been mounted and has something to
// read, and gives the number of its connection; 0: the kernel (before 6.18)
// does not tell. It waits for nothing that who sent fd could delay.
func freshDevice(fd int) (number uint32, err error) {
	bad := func(format string, args ...any) (uint32, error) {
		return 0, &backend.Error{Kind: backend.Invalid, Err: fmt.Errorf("what was handed over "+format, args...)}
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE != unix.O_RDWR {
		return bad("is not open for reading and writing")
	}
	// Of what is cached: another file system's daemon need not answer.
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return bad("is no device: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev_major != fuseMajor || st.Rdev_minor != fuseMinor {
		return bad("is not /dev/fuse")
	}
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(p, 0); err != nil {
		return 0, mountError("", backend.Other, err)
	}
	switch {
	case p[0].Revents&unix.POLLERR != 0:
		return bad("is not mounted")
	case p[0].Revents&unix.POLLIN == 0:
		return bad("is no fresh mount: there is nothing to read")
	}
	return connectionOf(fd), nil
}

// connectionOf reads the number of the connection of a FUSE device; 0: the
// kernel does not tell.
func connectionOf(fd int) uint32 {
	f, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "fuse_connection:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
			return uint32(n)
		}
	}
	return 0
}
