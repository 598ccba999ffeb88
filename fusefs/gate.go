package fusefs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// gate stands before the file system of one mount. When it is shut every
// further request is answered ENOTCONN, as by the kernel when a connection has
// been aborted: a daemon that is not root often cannot abort one, and its mount
// lives on, out of the tree, for as long as somebody uses a file in it.
type gate struct {
	fuse.RawFileSystem // String, SetDebug, Init and OnUnmount pass

	// standby is the transport's: called before a request that waits by its
	// nature.
	standby func()

	inside atomic.Int64 // requests being handled, and 1 while shut runs
	closed atomic.Bool
	once   sync.Once
	idler  sync.Once
	gone   chan struct{} // closed when it is shut
	idle   chan struct{} // closed when it is shut and no request is inside
}

var _ fuse.RawFileSystem = (*gate)(nil)

const enotconn = fuse.Status(syscall.ENOTCONN)

func newGate(fs fuse.RawFileSystem) *gate {
	return &gate{RawFileSystem: fs, standby: func() {}, gone: make(chan struct{}), idle: make(chan struct{})}
}

// enter asks for a request to be let in; if it is, leave must follow.
func (g *gate) enter() bool {
	g.inside.Add(1)
	if g.closed.Load() { // after Add: shut counts whoever did not see it closed
		g.leave()
		return false
	}
	return true
}

func (g *gate) leave() {
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
		g.leave()
	})
}

// SetLkw may wait for as long as others hold the lock, so it ends when the gate
// is shut.
func (g *gate) SetLkw(c <-chan struct{}, in *fuse.LkIn) fuse.Status {
	if !g.enter() {
		return enotconn
	}
	defer g.leave()
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
