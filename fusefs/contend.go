package fusefs

import (
	"slices"
	"time"

	"github.com/warrenfs/warren/backend"
)

// disputes is what a kernel's memory has of files that other mounts change.
type disputes struct {
	contended map[backend.NodeID]*contended // open ones
	late      map[backend.NodeID]late       // those whose end is told of once more
	askers    askers
	resting   map[backend.NodeID]resting // of which quietly is to tell
	lapses    map[uint64]lapse           // by the name's hash
	busy      func() bool                // a request of the mount is under way or waits to be read; nil: never
}

// span is bytes [off, end) of a file; end 0: none.
type span struct{ off, end uint64 }

// with is what reaches over both.
func (s span) with(o span) span {
	switch {
	case o.end == 0:
		return s
	case s.end == 0:
		return o
	}
	return span{min(s.off, o.off), max(s.end, o.end)}
}

// toldLate has the pages of s dropped once more, a little later, if need be. The
// kernel takes a size from an answer under a lock, but cuts the page cache off there
// only after it gave the lock back. Where the file grew in between, and another thread
// had its last page read anew, that cut makes zeros of what is new in the page, for
// good. So there is need if a thread may not have taken in such an answer now, and
// still has not when another reads.
//
// The notice makes the kernel disregard a size that is on its way to it, of which
// READs tell too. So it waits until nobody has asked for as long as an answer may take.
func (k *kernel) toldLate(node backend.NodeID, s span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	have, known := k.late[node]
	suspects := k.askers.of(node, k.now())
	if !known && len(suspects) == 0 {
		return
	}
	have.span = have.with(s)
	for _, t := range suspects {
		if !slices.Contains(have.suspects, t) {
			have.suspects = append(have.suspects, t)
		}
	}
	k.late[node] = have
	if !known {
		time.AfterFunc(echoDelay, func() { k.tellLate(node) })
	}
}

// readLate notes that thread tid reads [off, end) of node. mu held.
func (k *kernel) readLate(node backend.NodeID, tid uint32, end uint64) {
	l, ok := k.late[node]
	if !ok || l.needed || end+backend.BlockSize <= l.off {
		return
	}
	for _, t := range l.suspects {
		a, still := k.askers[t]
		if still && (t != tid || t == noThread) && (a.node == node || a.node == 0) {
			l.needed = true
		}
	}
	k.late[node] = l
}

// asked puts off late notices of node. mu held.
func (k *kernel) asked(node backend.NodeID) {
	if r, ok := k.resting[node]; ok {
		r.asked = k.now()
		k.resting[node] = r
	}
	if s, ok := k.late[node]; ok {
		s.answered = k.now()
		k.late[node] = s
	}
}

// late is a notice that is to come.
type late struct {
	span
	answered uint32   // when attributes or bytes of the file were last asked for, ms since start
	suspects []uint32 // threads that may have had to take in an answer when the file grew
	needed   bool     // another thread has read since
}

func (k *kernel) tellLate(node backend.NodeID) {
	k.mu.Lock()
	s := k.late[node]
	busy := s.answered > 0 && k.now()-s.answered < uint32(blindTime/time.Millisecond)
	if s.needed && busy || !s.needed && k.waits(&s) {
		k.mu.Unlock()
		time.AfterFunc(echoDelay, func() { k.tellLate(node) })
		return
	}
	delete(k.late, node)
	n, _ := k.nodes.get(node)
	cached := n.marks&markData != 0 && s.needed
	k.mu.Unlock()
	if cached {
		k.quietly(node, func() { k.invalidate(&inodeNotice{node: node, off: int64(s.off), n: int64(s.end - s.off)}) })
	}
}

// waits tells whether one of the suspects may still have to take in its answer.
// mu held.
func (k *kernel) waits(s *late) bool {
	for _, t := range s.suspects {
		if a, still := k.askers[t]; still && a.pending(k.now()) {
			return true
		}
	}
	return false
}

// contended is kept of a file that this mount has open while another changes
// it. The kernel lets go of a page that it knows wholly before it sends the
// WRITE: a notice of the other mount's change can drop it then, and a READ that
// overtakes the WRITE bring back a page without it, for good. So a WRITE to what
// was read since a notice drops those pages again. The kernel sends one WRITE of
// a file's at a time (its inode lock), so what happened before the last one was
// done does not matter.
type contended struct {
	telling int    // notices being sent
	told    bool   // one was sent, or being sent, since the last WRITE
	reads   uint64 // READs so far
	lo, hi  uint64 // bytes read since; hi 0: none
}

// lockedTime bounds the wait for a page that may be locked by the very WRITE
// that is being answered; such a page is not wholly known, so nothing in it is
// stale.
const lockedTime = 10 * time.Millisecond

// reading notes a READ of [off, off+n) by thread tid before its bytes are looked up.
func (k *kernel) reading(node backend.NodeID, tid uint32, off uint64, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.here(tid)
	k.readLate(node, tid, off+uint64(n))
	if kn, ok := k.nodes.get(node); ok {
		kn.seq = uint32(k.next())
		kn.marks |= markData
		k.nodes.put(node, kn)
	}
	k.asked(node)
	c := k.contended[node]
	if c == nil || !c.told {
		return
	}
	if c.hi == 0 {
		c.lo = off
	}
	c.reads++
	c.lo, c.hi = min(c.lo, off), max(c.hi, off+uint64(n))
}

// noticing is called before a notice that drops pages of node is sent, and
// gives what is to be called after.
func (k *kernel) noticing(node backend.NodeID) (done func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.contended[node]
	if c == nil {
		c = &contended{}
		k.contended[node] = c
	}
	before := c.reads
	c.told = true
	c.telling++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if c.telling--; c.telling == 0 {
			if n, _ := k.nodes.get(node); n.opens == 0 {
				delete(k.contended, node)
			}
		}
		if c.reads == before {
			c.hi = 0 // what was read before is gone
		}
	}
}

// inDoubt tells whether the page cache may have lost a WRITE of [off, off+n)
// that has just been carried out.
func (k *kernel) inDoubt(node backend.NodeID, off uint64, n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.contended[node]
	if c == nil {
		return false
	}
	const page = backend.BlockSize
	lost := c.told && off < c.hi+page && c.hi > 0 && c.lo < off+uint64(n)+page
	c.settle()
	return lost
}

// settled notes that no WRITE of node can be under way: the kernel holds its
// inode lock for another request.
func (k *kernel) settled(node backend.NodeID) {
	k.mu.Lock()
	if c := k.contended[node]; c != nil {
		c.settle()
	}
	k.mu.Unlock()
}

// settle forgets what happened before now, but for notices that may yet drop
// pages. kernel.mu held.
func (c *contended) settle() { c.told, c.hi = c.telling > 0, 0 }

// refresh drops pages of node after such a WRITE.
func (k *kernel) refresh(node backend.NodeID, off uint64, n int) {
	w := k.wire(node)
	const page = backend.BlockSize
	if off%page == 0 && n%page == 0 { // whole pages are never locked
		k.dev.invalInode(w, int64(off), int64(n))
		return
	}
	done := make(chan struct{})
	go func() {
		k.dev.invalInode(w, int64(off), int64(n))
		close(done)
	}()
	t := time.NewTimer(lockedTime)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}
