package fusefs

import (
	"context"
	"sync"
)

// Leave is Close for a daemon that another is to follow: no request is let in
// any more, but the mounts stay in the tree. They are dead once the process has
// ended (ENOTCONN), until the next daemon mounts in their place; the directories
// beneath are never bare. It returns within a few seconds, whoever uses what.
func (h *Hub) Leave(ctx context.Context) {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.endVisits()
	var wg sync.WaitGroup
	for _, m := range h.Mounts() {
		wg.Go(func() {
			m.writeBack(ctx)
			m.left.Store(true)
			m.cutOff()
		})
	}
	wg.Wait()
	h.drops.stop()
}

// writeBack makes the kernel write what is dirty in maps of open files, while
// it can still be taken in; for a second at most, since a page may be locked for as long as its
// user likes.
func (m *Mount) writeBack(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := m.fs.kern
		for node := range m.fs.handles.writable() {
			if ctx.Err() == nil {
				k.dev.invalInode(k.wire(node), 0, -1)
			}
		}
	}()
	if !wait(ctx, graceTime, done) {
		m.fs.log.Warn("pages that are mapped take too long to be written back; what is in them is lost")
	}
}

// writable lists the nodes that are open for writing, which may have dirty pages.
func (t *handleTable) writable() map[nodeID]bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[nodeID]bool)
	for _, h := range t.open {
		if h.claimed && h.writes() {
			out[h.node] = true
		}
	}
	return out
}
