package fusefs

import (
	"time"

	"github.com/warrenfs/warren/backend"
)

// askers are the threads whose last request was answered with attributes: they may
// not have taken those in yet. A thread that asks for something else has.
type askers map[uint32]asking

// asking is what a thread asked for last.
type asking struct {
	node backend.NodeID // 0: not known yet
	at   uint32         // ms since start
}

// manyAskers is how many are kept before those are dropped that asked long ago.
const manyAskers = 256

// pending tells whether the answer may not have been taken in yet.
func (a asking) pending(now uint32) bool { return now-a.at < uint32(blindTime/time.Millisecond) }

// note notes that thread tid is about to be told node's attributes.
func (l askers) note(tid uint32, node backend.NodeID, now uint32) {
	if len(l) >= manyAskers {
		for t, a := range l {
			if !a.pending(now) {
				delete(l, t)
			}
		}
	}
	l[tid] = asking{node, now}
}

// of lists who may not have taken in an answer about node yet.
func (l askers) of(node backend.NodeID, now uint32) (tids []uint32) {
	for t, a := range l {
		if (a.node == node || a.node == 0) && a.pending(now) {
			tids = append(tids, t)
		}
	}
	return tids
}

// noThread is the number of threads that this pid namespace does not see.
const noThread = 0

// here notes that thread tid is here with a request, so that it has taken in what it
// was answered. mu held.
func (k *kernel) here(tid uint32) {
	if tid != noThread { // who is one of many
		delete(k.askers, tid)
	}
}

// alive is here for what holds no lock.
func (k *kernel) alive(tid uint32) {
	k.mu.Lock()
	k.here(tid)
	k.mu.Unlock()
}

const (
	// settleTime is how long the kernel may take, all but surely, to take an answer in.
	settleTime = 50 * time.Millisecond
	// busyTime is that where the mount is at work all the time: handlers may be slow.
	busyTime = 4 * settleTime
	// quietDelay is how long quietly waits before it looks again.
	quietDelay = 5 * time.Millisecond
)

// quietly sends, echoDelay from now, a notice about node that no change waits for. The kernel
// disregards a size in an answer that such a notice overtakes, and a read which had asked how long the
// file is, or was told it by a READ, then ends where it ended before. So it is sent when nothing was asked
// of node just now, however long that takes, and if possible when no request of the mount is under way.
func (k *kernel) quietly(node backend.NodeID, send func()) {
	k.mu.Lock()
	r, known := k.resting[node]
	if !known {
		r.asked = k.now()
	}
	r.sends++
	k.resting[node] = r
	k.mu.Unlock()
	patient := time.Now().Add(echoDelay + blindTime)
	var try func()
	try = func() {
		if !k.quiet(node, time.Now().Before(patient)) {
			time.AfterFunc(quietDelay, try)
			return
		}
		if k.rested(node) {
			send()
		}
	}
	time.AfterFunc(echoDelay, try)
}

// resting is what quietly knows of a node.
type resting struct {
	asked uint32 // when something was last asked of it, ms since start
	sends int    // that are to come
}

// rested forgets a notice that is to be sent now. It is false if there is no need to.
func (k *kernel) rested(node backend.NodeID) (held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.resting[node]
	if r.sends--; r.sends == 0 {
		delete(k.resting, node)
	} else {
		k.resting[node] = r
	}
	_, held = k.nodes.get(node)
	return held
}

// quiet is what quietly waits for; patient: also that the mount does nothing, and that no
// name was asked for just now, which might lead to node.
func (k *kernel) quiet(node backend.NodeID, patient bool) bool {
	k.mu.Lock()
	now, need := k.now(), uint32(settleTime/time.Millisecond)
	last := k.resting[node].asked
	for _, a := range k.askers {
		if (a.node == node || a.node == 0 && patient) && int32(a.at-last) > 0 {
			last = a.at
		}
	}
	_, held := k.nodes.get(node)
	k.mu.Unlock()
	if !held {
		return true
	}
	if k.busy != nil && k.busy() {
		if need = uint32(busyTime / time.Millisecond); patient {
			return false
		}
	}
	return now-last >= need
}

// asking notes that thread tid is about to be told node's attributes; node is 0
// where they are those of a name that is yet to be looked up.
func (k *kernel) asking(tid uint32, node backend.NodeID) {
	k.mu.Lock()
	k.askers.note(tid, node, k.now())
	k.reopens.found(tid, node)
	k.asked(node)
	k.mu.Unlock()
}
