package fusefs

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// gate stands before the file system of one mount. When it is shut every
// further request is answered ENOTCONN, as by the kernel when a connection has
// been aborted: a daemon that is not root often cannot abort one, and its mount
// lives on, out of the tree, for as long as somebody uses a file in it. It also
// notes how long requests take, whatever the transport.
type gate struct {
	fuse.RawFileSystem // String, SetDebug, Init and OnUnmount pass

	// standby is the transport's: called before a request that waits by its
	// nature.
	standby func()
	count   *counters
	made    time.Time

	inside atomic.Int64 // requests being handled, and 1 while shut runs
	closed atomic.Bool
	once   sync.Once
	idler  sync.Once
	gone   chan struct{} // closed when it is shut
	idle   chan struct{} // closed when it is shut and no request is inside
}

var _ fuse.RawFileSystem = (*gate)(nil)

const enotconn = fuse.Status(syscall.ENOTCONN)

func newGate(fs fuse.RawFileSystem, count *counters) *gate {
	return &gate{RawFileSystem: fs, standby: func() {}, count: count, made: time.Now(),
		gone: make(chan struct{}), idle: make(chan struct{})}
}

// enter asks for a request to be let in; if it is, leave or out must follow.
// start counts from when the gate was made.
func (g *gate) enter() (start time.Duration, ok bool) {
	g.inside.Add(1)
	if g.closed.Load() { // after Add: shut counts whoever did not see it closed
		g.out()
		return 0, false
	}
	return time.Since(g.made), true
}

// leave notes how long a request took that was let in at start.
func (g *gate) leave(o opcode, start time.Duration) {
	g.count.took[o].Observe(time.Since(g.made) - start)
	g.out()
}

func (g *gate) out() {
	if g.inside.Add(-1) == 0 && g.closed.Load() {
		g.idler.Do(func() { close(g.idle) })
	}
}

// shut lets nothing in from now on. Waits for file locks end; the other
// requests inside finish. It may be called more than once and does not wait.
func (g *gate) shut() {
	g.once.Do(func() {
		g.inside.Add(1)
		g.closed.Store(true)
		close(g.gone)
		g.out()
	})
}

// SetLkw may wait for as long as others hold the lock, so it ends when the gate
// is shut.
func (g *gate) SetLkw(c <-chan struct{}, in *fuse.LkIn) fuse.Status {
	start, ok := g.enter()
	if !ok {
		return enotconn
	}
	defer g.leave(opSetlkw, start)
	g.standby()
	answered, end := make(chan struct{}), make(chan struct{})
	defer close(answered)
	go func() {
		select {
		case <-c:
		case <-g.gone:
		case <-answered:
			return
		}
		close(end)
	}()
	st := g.RawFileSystem.SetLkw(end, in)
	if st != fuse.OK && g.closed.Load() {
		return enotconn
	}
	return st
}
