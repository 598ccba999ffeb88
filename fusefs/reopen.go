package fusefs

import (
	"time"

	"github.com/warrenfs/warren/backend"
)

// A kernel that checks no mode bits opens a file without asking for attributes that it
// was told are outdated, and then goes by the old size: a map ends there, and pages
// behind it read as zeros. So the first OPEN of such a file is answered ESTALE: the kernel
// looks the name up again, which brings the size, and opens once more. A thread's second OPEN
// in a row is answered, whatever has changed since: ESTALE twice would reach the program.

// reopens are the threads whose last OPEN was answered ESTALE, by number.
type reopens map[uint32]reopen

type reopen struct {
	node backend.NodeID
	at   uint32 // ms since the kernel's start
}

const (
	// manyReopens is how many are kept before those are dropped that never came back.
	manyReopens = 1024
	// reopenTime is how long a thread may take to come back.
	reopenTime = time.Minute
)

// lookAgain reports whether an OPEN of node by thread tid is to be answered ESTALE.
func (k *kernel) lookAgain(tid uint32, node backend.NodeID) bool {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	back := k.reopens[tid].node == node
	delete(k.reopens, tid)
	if n, known := k.nodes.get(node); back || !known || n.marks&markAttr != 0 || tid == noThread {
		return false
	}
	if len(k.reopens) >= manyReopens {
		for t, r := range k.reopens {
			if now-r.at > uint32(reopenTime/time.Millisecond) {
				delete(k.reopens, t)
			}
		}
		if len(k.reopens) >= manyReopens {
			return false
		}
	}
	k.reopens[tid] = reopen{node, now}
	return true
}
