package fusefs

import (
	"sync"
	"syscall"
)

// handle is an open file or directory of one mount.
type handle struct {
	id      uint64
	node    nodeID
	flags   uint32 // of open(2)
	file    bool   // not a directory's, nor a control file's
	direct  bool   // FOPEN_DIRECT_IO
	claimed bool   // holds a claim as a cached writer
	lazy    bool   // closing sends no FLUSH: its locks go at RELEASE

	mu   sync.Mutex
	list []listed // of a directory, as of READDIR at offset 0
	up   nodeID   // and its parent
	ctl  *controlHandle
}

func (h *handle) writes() bool { return h.flags&syscall.O_ACCMODE != syscall.O_RDONLY }

// handleTable numbers the handles of one mount.
type handleTable struct {
	mu   sync.RWMutex
	next uint64
	open map[uint64]*handle
}

// add gives h a number.
func (t *handleTable) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[uint64]*handle)
	}
	t.next++
	h.id = t.next
	t.open[h.id] = h
	return h.id
}

// get finds the handle fh of node; nil if there is none.
func (t *handleTable) get(fh uint64, node nodeID) *handle {
	t.mu.RLock()
	h := t.open[fh]
	t.mu.RUnlock()
	if h == nil || h.node != node {
		return nil
	}
	return h
}

// remove is get, and takes the handle out.
func (t *handleTable) remove(fh uint64, node nodeID) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[fh]
	if h == nil || h.node != node {
		return nil
	}
	delete(t.open, fh)
	return h
}

// all takes every handle out.
func (t *handleTable) all() []*handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*handle, 0, len(t.open))
	for _, h := range t.open {
		out = append(out, h)
	}
	t.open = nil
	return out
}

func (t *handleTable) size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.open)
}
