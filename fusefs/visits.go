package fusefs

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/warrenfs/warren/fusefs/visitor"
)

const (
	// crossedTime is the longest time that a change waits for a visit to a mount that is changing
	// names itself: its kernel may hold the directory's lock for as long as the change
	// is not answered.
	crossedTime = 50 * time.Millisecond
	// maxVisits bounds the visits to one mount that wait for their turn.
	maxVisits = 1024
	// visitTries bounds the look-ups of a path that changes while it is looked up.
	visitTries = 3
)

// visits are the look-ups by which a kernel learns the new names of directories that
// were moved elsewhere. One runs at a time.
type visits struct {
	// look looks a directory up in the mount; it reports whether that took too long.
	// nil: the mount cannot be reached.
	look func(node nodeID) (late bool)

	mu    sync.Mutex
	queue []visit
	busy  bool
	late  bool // the last one took too long: nobody waits for the next
	// lost are directories that the kernel was made to drop because they left the
	// view. They are looked up when they may have come back.
	lost map[nodeID]bool
}

type visit struct {
	node nodeID
	done chan struct{} // closed when it has ended
}

// SetVisitor makes v look up, in the mounts made from now on, the new names of
// directories that were renamed elsewhere. It must be called before the first mount.
// Without it, processes in such directories may see the old names.
func (h *Hub) SetVisitor(v *visitor.Client) { h.serving.visitor = v }

// endVisits ends the visitor's process: it keeps no mount busy any more.
func (h *Hub) endVisits() {
	if h.serving.visitor != nil {
		h.serving.visitor.Close()
	}
}

// start queues a visit of node and returns a channel that is closed when the visit has
// ended, or nil if nobody should wait for it.
func (v *visits) start(node nodeID) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	var done chan struct{}
	for _, q := range v.queue {
		if q.node == node {
			done = q.done
		}
	}
	if done == nil {
		if len(v.queue) >= maxVisits {
			return nil
		}
		done = make(chan struct{})
		v.queue = append(v.queue, visit{node, done})
	}
	if !v.busy {
		v.busy = true
		go v.run()
	}
	if v.late {
		return nil
	}
	return done
}

// run makes the visits that are queued.
func (v *visits) run() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) > 0 {
		next := v.queue[0]
		v.queue = v.queue[1:]
		v.mu.Unlock()
		late := v.look(next.node)
		close(next.done)
		v.mu.Lock()
		v.late = late
	}
	v.busy = false
}

// overdue notes that nobody waits for the visits that are queued any more.
func (v *visits) overdue() {
	v.mu.Lock()
	v.late = v.busy
	v.mu.Unlock()
}

// lose notes a directory that the kernel was made to drop.
func (v *visits) lose(node nodeID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.look == nil || len(v.lost) >= maxVisits {
		return
	}
	if v.lost == nil {
		v.lost = make(map[nodeID]bool)
	}
	v.lost[node] = true
}

// lookAgain looks the directories up that were lost and are seen again. It does not
// wait. A visit of the root does nothing else.
func (v *visits) lookAgain(root nodeID) {
	v.mu.Lock()
	lost := len(v.lost) > 0
	v.mu.Unlock()
	if lost {
		v.start(root)
	}
}

// seek returns the directories that were lost and that are held
// and seen again, and forgets them.
func (v *visits) seek(holds, seen func(nodeID) bool) (found []nodeID) {
	v.mu.Lock()
	var lost []nodeID
	for node := range v.lost {
		lost = append(lost, node)
	}
	v.mu.Unlock()
	for _, node := range lost {
		held := holds(node)
		if held && !seen(node) {
			continue
		}
		v.mu.Lock()
		delete(v.lost, node)
		v.mu.Unlock()
		if held {
			found = append(found, node)
		}
	}
	return found
}

// visit starts the look-ups of p's moved directories in the mounts whose kernels hold
// them, and waits for them until deadline. The caller must hold no lock.
func (p pending) visit(deadline time.Time) {
	type wait struct {
		on   *visits
		done <-chan struct{}
		end  time.Time
	}
	var all []wait
	crossed := time.Now().Add(crossedTime)
	for _, n := range p.list {
		for _, node := range n.visits {
			w := wait{on: &n.to.visits, done: n.to.visits.start(node), end: deadline}
			if n.crossed && p.by != nil && crossed.Before(deadline) {
				w.end = crossed
			}
			if w.done != nil {
				all = append(all, w)
			}
		}
	}
	if len(all) > 0 && p.by != nil {
		p.by.dev.standby()
	}
	for _, w := range all {
		t := time.NewTimer(time.Until(w.end))
		select {
		case <-w.done:
		case <-t.C:
			if w.end == deadline {
				w.on.overdue()
			}
		}
		t.Stop()
	}
}

// visit looks node up in the mount by the path it has now. It reports whether that
// took too long.
func (m *Mount) visit(node nodeID) (late bool) {
	k := m.fs.kern
	late = m.lookUp(node)
	for _, lost := range k.visits.seek(k.Holds, m.fs.sees) {
		late = m.lookUp(lost) || late
	}
	return late
}

// lookUp looks node up in the mount. It skips a node that the view does not see: the
// mount must not learn its path.
func (m *Mount) lookUp(node nodeID) (late bool) {
	last := ""
	for range visitTries {
		if !m.fs.kern.Holds(node) {
			return false
		}
		path, err := m.fs.view.Below(node)
		if err != nil || path == last {
			return false
		}
		last = path
		at, there, err := m.where()
		if err != nil || !there {
			return false
		}
		err = m.hub.serving.visitor.Look(visitor.Visit{Dir: at.Dir, Minor: m.minor, Own: !m.cfg.AllowOther,
			UID: m.cfg.UID, GID: m.cfg.GID, Path: path, Node: uint64(node)})
		var errno syscall.Errno
		switch {
		case err == nil:
			return false
		case errors.Is(err, visitor.ErrLate):
			m.fs.log.Warn("a directory that was renamed cannot be looked up in the mount in time: processes in it may be told the old name")
			return true
		case !errors.As(err, &errno):
			return false
		}
		m.fs.log.Debug("look up a directory that was renamed", "err", err)
	}
	return false
}

// sees reports whether the view sees a directory.
func (f *fileSystem) sees(dir nodeID) bool {
	_, err := f.view.Below(dir)
	return err == nil
}
