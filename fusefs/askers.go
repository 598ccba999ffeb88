package fusefs

import (
	"time"

	"github.com/warrenfs/warren/backend"
)

// askers remembers, for a while, whether one thread alone asked for a file's
// attributes and bytes. It has a fixed size; two files that share a place are
// taken for asked by several.
type askers [512]asker

type asker struct {
	node    backend.NodeID
	tid     uint32 // 0: not known
	at      uint32 // of the last asking, ms since start
	several bool
}

func (l *askers) place(node backend.NodeID) *asker {
	return &l[uint64(node)*0x9e3779b97f4a7c15>>(64-9)]
}

// recent tells whether an answer of that time may not have been taken in yet.
func (a *asker) recent(now uint32) bool {
	return a.node != 0 && now-a.at < uint32(blindTime/time.Millisecond)
}

// note notes that thread tid asks for node.
func (l *askers) note(node backend.NodeID, tid, now uint32) {
	a := l.place(node)
	mixed := a.recent(now) && (a.several || a.node != node || a.tid != tid)
	*a = asker{node: node, tid: tid, at: now, several: mixed || tid == 0}
}

// several tells whether node may have been asked for by more than one thread of
// late.
func (l *askers) several(node backend.NodeID, now uint32) bool {
	a := l.place(node)
	return a.recent(now) && (a.several || a.node != node)
}

// asking notes that thread tid asks for node's attributes.
func (k *kernel) asking(node backend.NodeID, tid uint32) {
	k.mu.Lock()
	k.askers.note(node, tid, k.now())
	k.mu.Unlock()
}
