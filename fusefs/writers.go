package fusefs

import (
	"sync"

	"github.com/warrenfs/warren/backend"
)

// writers tells which mount may write an inode through its page cache: one at a
// time, from its first such open to the last release of one. The others write
// directly. So no two mounts ever wait for each other's pages.
type writers struct {
	mu sync.Mutex
	of map[backend.NodeID]writer
}

type writer struct {
	by    *kernel
	opens int
}

// claim asks for cached writing of node by k; false means: write directly.
// Each true claim needs a release.
func (w *writers) claim(node backend.NodeID, k *kernel) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	have, ok := w.of[node]
	if ok && have.by != k {
		return false
	}
	w.of[node] = writer{by: k, opens: have.opens + 1}
	return true
}

// release ends one claim.
func (w *writers) release(node backend.NodeID, k *kernel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	have, ok := w.of[node]
	if !ok || have.by != k {
		return
	}
	if have.opens--; have.opens == 0 {
		delete(w.of, node)
		return
	}
	w.of[node] = have
}
