package fusefs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

const (
	// gentleTime is how long an unmount by force tries without: RELEASE of the
	// last file may be on its way.
	gentleTime = 300 * time.Millisecond
	// forceTime is how long umount(8) -f may take from the end of the connection
	// until the mount is out of the tree.
	forceTime = time.Second
	// graceTime bounds the wait for requests under way when a mount is cut off,
	// and then for the end of its connection.
	graceTime = time.Second
	// closeTime bounds Hub.Close's wait for its mounts.
	closeTime = 4 * time.Second
	// answerTime bounds an unmount: the way to the mountpoint may lead through a file
	// system that does not answer any more.
	answerTime = 20 * time.Second
)

// serve runs until the connection ends, and cleans up.
func (m *Mount) serve(t server) {
	t.Serve()
	close(m.ended)
	m.finish()
}

// finish takes the mount out of the tree, if it is still there and is not left,
// and out of the hub, and lets go of all that it held. Every call returns when that is done.
func (m *Mount) finish() {
	m.end.Do(func() {
		m.taken = m.isOut()
		if !m.left.Load() {
			if err := m.detach(); err != nil {
				m.fs.log.Warn("dead mount stays", "err", err)
			}
		}
		m.hub.mu.Lock()
		if m.hub.mounts[m.cfg.Dir] == m {
			delete(m.hub.mounts, m.cfg.Dir)
		}
		m.hub.mu.Unlock()
		m.drop()
	})
}

// isOut tells whether the mount is out of the tree. umount(8) -f ends the connection
// first, so it is looked twice where that has ended.
func (m *Mount) isOut() bool {
	for end := time.Now().Add(forceTime); m.inTree(); time.Sleep(forceTime / 50) {
		select {
		case <-m.ended:
			if m.left.Load() || time.Now().After(end) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// drop lets go of all that the mount held. Requests that are still being handled
// are cleaned up after when they are done.
func (m *Mount) drop() {
	m.gate.shut()
	m.fs.view.Close()
	if n := m.fs.kern.overdue.Load(); n > 0 {
		m.fs.log.Warn("a program in the mount keeps a directory locked, and the kernel a thread of this process waiting; "+
			"the process cannot end before that program does", "waiting", n)
	}
	open := m.release()
	if m.fs.kern.dev != nil {
		m.disown(open)
	}
	select {
	case <-m.gate.idle:
	default:
		go func() {
			<-m.gate.idle
			m.release()
		}()
	}
	close(m.done)
}

// release lets go of handles, file locks and nodes. It gives the nodes that
// were open.
func (m *Mount) release() (open []nodeID) {
	f, h := m.fs, m.hub
	for _, hd := range f.handles.all() {
		f.released(hd)
		if !isControl(hd.node) {
			open = append(open, hd.node)
		}
	}
	h.posix.ReleaseMount(f.conn)
	h.flock.ReleaseMount(f.conn)
	h.leave(f.kern)
	return open
}

// disown closes the device. In a connection that lives on the kernel is made to
// ask again for names, and for the pages of open files: so that it gets
// ENOTCONN.
func (m *Mount) disown(open []nodeID) {
	k := m.fs.kern
	select {
	case <-m.ended:
		k.dev.close()
		return
	default:
	}
	go func() { // a page may be locked for as long as its user likes
		defer k.dev.close()
		if k.epochs {
			k.dev.incEpoch()
		}
		for _, node := range open {
			k.dev.invalInode(k.wire(node), 0, -1)
		}
	}()
}

// ErrElsewhere is in the error of an Unmount that took the mount out of the
// tree, when a bind mount or open files elsewhere keep it alive.
var ErrElsewhere = errors.New("it is out of the tree, but a bind mount, another mount namespace or open files keep it alive")

// ErrCovered is in the error of an Unmount of what somebody has mounted over: that
// would go in its place.
var ErrCovered = errors.New("unmount that first")

// Unmount takes the mount away and returns when it is gone. While files in it
// are in use it fails with Busy (and ErrElsewhere), unless force: then it is out of the tree and
// out of Hub.Mounts within a few seconds, and whoever uses it gets ENOTCONN. Nor does
// it go, by force either, while something is mounted over it (Busy, and ErrCovered).
// Where the kernel does not come back for long, by its way to the mountpoint (an NFS
// server that is gone), that is an error; by force the mount has ended then, and what
// stands in the tree goes when the kernel comes back.
func (m *Mount) Unmount(ctx context.Context, force bool) error {
	done := make(chan error, 1)
	go func() { done <- m.unmount(ctx, force) }()
	t := time.NewTimer(cmp.Or(m.hub.tests.answer, answerTime))
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
	}
	if force {
		m.left.Store(true)
		abort(m.minor)
		m.cutOff()
	}
	return &backend.Error{Op: "unmount", Path: m.cfg.Dir, Kind: backend.Other, Err: errors.New(
		"the kernel is still at it: much is being written back, or a file system on the way to the directory does not answer; it goes when that is over")}
}

func (m *Mount) unmount(ctx context.Context, force bool) error {
	dir := m.cfg.Dir
	if force {
		return m.unmountByForce(ctx)
	}
	switch err := m.tryUnmount(ctx); {
	case err == nil:
	case errors.Is(err, unix.EBUSY):
		return &backend.Error{Op: "unmount", Path: dir, Kind: backend.Busy,
			Err: errors.New("files in it are in use; stop what uses them (fuser -m), or use force")}
	default:
		return m.stays(err)
	}
	if wait(ctx, probeTime, m.done) {
		return nil
	}
	return &backend.Error{Op: "unmount", Path: dir, Kind: backend.Busy, Err: ErrElsewhere}
}

// stays words why the mount, which is still there, was not unmounted.
func (m *Mount) stays(err error) error {
	kind := kindOfErrno(err)
	if errors.Is(err, ErrCovered) || kind == backend.NotFound { // its path leads elsewhere
		kind = backend.Busy
	}
	return &backend.Error{Op: "unmount", Path: m.cfg.Dir, Kind: kind, Err: err}
}

// unmountByForce tries without for a moment. No attempt of that outlives it: it
// could take away what is mounted there next.
func (m *Mount) unmountByForce(ctx context.Context) error {
	gently, cancel := context.WithTimeout(ctx, gentleTime)
	defer cancel()
	tried := make(chan error, 1)
	go func() { tried <- m.tryUnmount(gently) }() // umount(2) may write pages back, out of the tree
	select {
	case err := <-tried:
		if err == nil && wait(ctx, graceTime, m.done) {
			return nil
		}
	case <-gently.Done():
	}
	aborted, err := m.kill()
	if err != nil {
		return m.stays(err)
	}
	m.fs.log.Warn("unmounted by force: processes that use files in it get errors", "aborted", aborted)
	m.cutOff()
	if aborted {
		wait(context.Background(), graceTime, m.ended)
	}
	return nil
}

// cutOff ends the mount, whether or not its connection ends.
func (m *Mount) cutOff() {
	m.gate.shut()
	if !wait(context.Background(), graceTime, m.gate.idle) {
		m.fs.log.Warn("requests are still being handled in a mount that is gone")
	}
	m.finish()
}

// wait waits for done, ctx and d, and tells whether it is done.
func wait(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}

// tryUnmount asks a few times: RELEASE of the last file may be on its way.
func (m *Mount) tryUnmount(ctx context.Context) error {
	for try := 0; ; try++ {
		err := m.take(func(dir string) error { return unmount(ctx, dir, m.hub.helper()) })
		if !errors.Is(err, unix.EBUSY) || try == 20 {
			return err
		}
		select {
		case <-m.done:
			return nil
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends the connection, where it can, and takes the mount out of the tree.
func (m *Mount) kill() (aborted bool, err error) {
	if m.hub.helper() {
		err = m.take(func(dir string) error {
			aborted = abort(m.minor)
			return detach(dir, true)
		})
		return aborted, err
	}
	err = m.take(func(dir string) error {
		err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		aborted = err == nil
		return err
	})
	return aborted, err
}

// detach takes the mount out of the tree if it is there.
func (m *Mount) detach() error {
	return m.take(func(dir string) error { return detach(dir, m.hub.helper()) })
}

// take takes the mount out of the tree by how, if it is there. One goes at a
// time, until the kernel has decided: how names a place, and when the mount is
// out another may be there, even one with its number. Nor is it tried while something
// is mounted over it: that would go in its place, and is not ours.
func (m *Mount) take(how func(dir string) error) error {
	if !m.grab() {
		return nil
	}
	defer func() { <-m.taking }()
	at, there, err := m.where()
	if err != nil || !there {
		return err
	}
	if by := over(at); by != nil {
		return fmt.Errorf("a %s is mounted over it, at %s; %w", by.Type, by.Dir, ErrCovered)
	}
	err = how(at.Dir)
	switch {
	case !m.inTree():
		return nil // also if somebody else was faster
	case err == nil:
		return unix.EBUSY // something was mounted over it just then
	}
	return err
}

// grab waits for m.taking. It holds it then, or the mount is out of the tree:
// what holds it may be writing back by then.
func (m *Mount) grab() bool {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for m.inTree() {
		select {
		case m.taking <- struct{}{}:
			if m.inTree() {
				return true
			}
			<-m.taking
			return false
		case <-look.C:
		}
	}
	return false
}

// inTree tells whether the mount is in the tree, to which it does not come back; it
// is taken to be while the table of mounts cannot be read.
func (m *Mount) inTree() bool {
	if m.out.Load() {
		return false
	}
	if _, there, err := m.where(); err == nil && !there {
		m.out.Store(true)
		return false
	}
	return true
}

// Close unmounts everything, by force where it must. When it returns no request
// is let in any more; that takes a few seconds at most, whoever uses what.
//
// Errors: those of unmounting, and Busy when a mount takes too long. Its mount
// is dead when the process ends.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.endVisits()
	mounts := h.Mounts()
	errs := make(chan error, len(mounts))
	all := make(chan struct{})
	var wg sync.WaitGroup
	for _, m := range mounts {
		wg.Go(func() {
			m.writeBack(ctx)
			if err := m.Unmount(ctx, true); err != nil {
				errs <- err
				m.cutOff()
			}
		})
	}
	go func() {
		wg.Wait()
		close(all)
	}()
	var err error
	if !wait(context.Background(), closeTime, all) {
		for _, m := range mounts {
			m.gate.shut()
		}
		err = &backend.Error{Op: "unmount", Kind: backend.Busy, Err: errors.New("mounts take too long to go; they are left behind")}
	}
	h.drops.stop()
	for {
		select {
		case e := <-errs:
			err = errors.Join(err, e)
		default:
			return err
		}
	}
}
