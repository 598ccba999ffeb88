package filelock

import (
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
)

// Owner is who holds or wants a lock.
type Owner struct {
	Mount uint64 // number of the mount
	ID    uint64 // the kernel's: a process, or an open file
}

// Lock is a lock on the bytes [Start, End] of a node.
type Lock struct {
	Owner  Owner
	Start  uint64
	End    uint64 // inclusive; MaxEnd: to the end, however far it grows
	Write  bool   // exclusive, otherwise shared
	PID    uint32 // shown by F_GETLK
	Handle uint64 // of Owner.Mount; through which it was taken
	// Lazy tells that the lock may outlive the close that ends it by a moment,
	// since the kernel tells of it asynchronously.
	Lazy bool
}

// MaxEnd is the largest End.
const MaxEnd = 1<<63 - 1

// Grace is how long a request that does not wait should be held back when only
// Lazy locks stand against it.
const Grace = 20 * time.Millisecond

// Table is a set of locks by node.
type Table struct {
	grace time.Duration

	mu      sync.Mutex
	nodes   map[backend.NodeID]*node
	waiting map[Owner]want // what owners are blocked on, for deadlocks
}

type node struct {
	locks   []Lock
	changed chan struct{} // closed when a lock goes; nil: nobody waits
	waiting map[*waiter]struct{}
}

// waiter is a request that is held back.
type waiter struct {
	mount uint64
	void  bool // its mount may not lock the node any more
}

type want struct {
	node backend.NodeID
	lock Lock
}

// NewTable makes an empty table; grace is Grace but in tests.
func NewTable(grace time.Duration) *Table {
	return &Table{grace: grace, nodes: make(map[backend.NodeID]*node), waiting: make(map[Owner]want)}
}

func (l *Lock) overlaps(o *Lock) bool { return l.Start <= o.End && o.Start <= l.End }

func (l *Lock) conflicts(o *Lock) bool {
	return l.Owner != o.Owner && (l.Write || o.Write) && l.overlaps(o)
}

// Test finds a lock that stands against l.
func (t *Table) Test(n backend.NodeID, l Lock) (Lock, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if nd := t.nodes[n]; nd != nil {
		for i := range nd.locks {
			if nd.locks[i].conflicts(&l) {
				return nd.locks[i], true
			}
		}
	}
	return Lock{}, false
}

// Set takes l, replacing what its owner holds of the range. If another lock
// stands against it: with wait nil it fails with WouldBlock, after the
// grace if only Lazy locks do; else it waits until it can have it, Interrupted when wait is
// closed, Deadlock when it would wait for itself. NotFound when Revoke came meanwhile.
func (t *Table) Set(n backend.NodeID, l Lock, wait <-chan struct{}) error {
	return t.set(n, l, wait, false)
}

// Convert is Set for flock: a lock that the owner holds already is given up
// before the new one is waited for, as flock(2) does.
func (t *Table) Convert(n backend.NodeID, l Lock, wait <-chan struct{}) error {
	return t.set(n, l, wait, true)
}

func (t *Table) set(n backend.NodeID, l Lock, wait <-chan struct{}, convert bool) error {
	var grace *time.Timer
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		nd := t.node(n)
		blocked, lazy := nd.against(&l)
		if !blocked {
			nd.put(l)
			nd.wake() // a write lock may have become a read lock
			return nil
		}
		if convert {
			nd.remove(func(o *Lock) bool { return o.Owner == l.Owner })
			convert = false
		}
		var timeout <-chan time.Time
		switch {
		case wait != nil:
			if t.deadlocked(n, l) {
				t.tidy(n, nd)
				return backend.Deadlock
			}
		case !lazy:
			t.tidy(n, nd)
			return backend.WouldBlock
		default:
			if grace == nil {
				grace = time.NewTimer(t.grace)
				defer grace.Stop()
			}
			timeout = grace.C
		}
		if err := t.pause(n, nd, l, wait, timeout); err != nil {
			return err
		}
	}
}

// pause waits for a change of nd. mu held, and given up meanwhile.
func (t *Table) pause(n backend.NodeID, nd *node, l Lock, wait <-chan struct{}, timeout <-chan time.Time) (err error) {
	if nd.changed == nil {
		nd.changed = make(chan struct{})
	}
	changed := nd.changed
	self := &waiter{mount: l.Owner.Mount}
	if nd.waiting == nil {
		nd.waiting = make(map[*waiter]struct{})
	}
	nd.waiting[self] = struct{}{}
	if wait != nil {
		t.waiting[l.Owner] = want{n, l}
	}
	t.mu.Unlock()
	select {
	case <-changed:
	case <-wait:
		err = backend.Interrupted
	case <-timeout:
		err = backend.WouldBlock
	}
	t.mu.Lock()
	if wait != nil {
		delete(t.waiting, l.Owner)
	}
	delete(nd.waiting, self)
	if self.void {
		err = backend.NotFound
	}
	if err != nil {
		t.tidy(n, nd)
	}
	return err
}

// deadlocked tells whether waiting for l would close a circle of owners that
// wait for each other. mu held.
func (t *Table) deadlocked(n backend.NodeID, l Lock) bool {
	seen := map[Owner]bool{}
	var blocked func(n backend.NodeID, l *Lock) bool
	blocked = func(n backend.NodeID, by *Lock) bool {
		nd := t.nodes[n]
		if nd == nil {
			return false
		}
		for i := range nd.locks {
			o := &nd.locks[i]
			if !o.conflicts(by) {
				continue
			}
			if o.Owner == l.Owner {
				return true
			}
			if seen[o.Owner] {
				continue
			}
			seen[o.Owner] = true
			if w, ok := t.waiting[o.Owner]; ok && blocked(w.node, &w.lock) {
				return true
			}
		}
		return false
	}
	return blocked(n, &l)
}

// Unlock gives up the owner's locks on [start, end] of a node.
func (t *Table) Unlock(n backend.NodeID, o Owner, start, end uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	nd := t.nodes[n]
	if nd == nil {
		return
	}
	nd.cut(o, start, end)
	nd.wake()
	t.tidy(n, nd)
}

// ReleaseHandle gives up what was taken through one handle.
func (t *Table) ReleaseHandle(n backend.NodeID, mount, handle uint64) {
	t.release(n, func(l *Lock) bool { return l.Owner.Mount == mount && l.Handle == handle })
}

func (t *Table) release(n backend.NodeID, which func(*Lock) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	nd := t.nodes[n]
	if nd == nil {
		return
	}
	if nd.remove(which) {
		nd.wake()
	}
	t.tidy(n, nd)
}

// Revoke gives up all locks of a mount on a node that it may not see any more,
// and ends its waits for one: they fail with NotFound.
func (t *Table) Revoke(n backend.NodeID, mount uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	nd := t.nodes[n]
	if nd == nil {
		return
	}
	for w := range nd.waiting {
		if w.mount == mount {
			w.void = true
		}
	}
	nd.remove(func(l *Lock) bool { return l.Owner.Mount == mount })
	nd.wake()
	t.tidy(n, nd)
}

// Nodes lists the nodes on which a mount holds a lock or waits for one.
func (t *Table) Nodes(mount uint64) []backend.NodeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []backend.NodeID
	for n, nd := range t.nodes {
		if nd.concerns(mount) {
			out = append(out, n)
		}
	}
	return out
}

// ReleaseMount gives up all locks of a mount that is gone. Its waiters must be
// ended by the channel they wait with.
func (t *Table) ReleaseMount(mount uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, nd := range t.nodes {
		if nd.remove(func(l *Lock) bool { return l.Owner.Mount == mount }) {
			nd.wake()
		}
		t.tidy(n, nd)
	}
}

// Empty tells whether no lock is held and nobody waits.
func (t *Table) Empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.nodes) == 0
}

func (t *Table) node(n backend.NodeID) *node {
	nd := t.nodes[n]
	if nd == nil {
		nd = &node{}
		t.nodes[n] = nd
	}
	return nd
}

// tidy forgets a node without locks and waiters. mu held.
func (t *Table) tidy(n backend.NodeID, nd *node) {
	if len(nd.locks) == 0 && len(nd.waiting) == 0 && t.nodes[n] == nd {
		delete(t.nodes, n)
	}
}
