package fusefs

import (
	"time"

	"github.com/warrenfs/warren/backend"
)

// A kernel that checks no mode bits opens a file without asking for attributes that it
// was told are outdated, and then goes by the old size: a map ends there, and pages
// behind it read as zeros. So the first OPEN of such a file is answered ESTALE: the kernel
// looks the name up again, which brings the size, and opens what it finds, which is
// another file where the name was replaced. A thread's second OPEN in a row is answered,
// whatever has changed since: ESTALE twice would reach the program. ESTALE for a CREATE of
// an existing name counts as the first.

// reopens are the threads whose last OPEN was answered ESTALE, by number.
type reopens map[uint32]reopen

type reopen struct {
	node backend.NodeID // of the OPEN, or of the thread's last look-up since
	at   uint32         // ms since the kernel's start
}

const (
	// manyReopens is the number of threads kept before those that never came back are
	// dropped.
	manyReopens = 1024
	// reopenTime is the longest time that a thread may take to come back.
	reopenTime = time.Minute
)

// lookAgain reports whether an OPEN of node by thread tid must be answered with ESTALE.
func (k *kernel) lookAgain(tid uint32, node backend.NodeID) bool {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	last, came := k.reopens[tid]
	back := came && last.node == node
	delete(k.reopens, tid)
	if n, known := k.nodes.get(node); back || !known || n.marks&markAttr != 0 || tid == noThread {
		return false
	}
	return k.reopens.add(tid, node, now)
}

// reopening notes that a CREATE of thread tid is answered with ESTALE.
func (k *kernel) reopening(tid uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reopens.add(tid, 0, k.now())
}

// add notes that thread tid comes back for node. It returns false if too many threads
// have yet to come back.
func (r reopens) add(tid uint32, node backend.NodeID, now uint32) bool {
	if len(r) >= manyReopens {
		for t, old := range r {
			if now-old.at > uint32(reopenTime/time.Millisecond) {
				delete(r, t)
			}
		}
		if len(r) >= manyReopens {
			return false
		}
	}
	r[tid] = reopen{node, now}
	return true
}

// found notes that thread tid looked node up.
func (r reopens) found(tid uint32, node backend.NodeID) {
	if old, back := r[tid]; back && node != 0 {
		r[tid] = reopen{node, old.at}
	}
}
