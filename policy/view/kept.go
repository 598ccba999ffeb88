package view

import (
	"sync"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
)

// kept are the files that have lost their last name in a view while its mount's
// kernel held them, and that have other names where the view does not look. As on
// a local file system a name that is removed ends no handle: to that view such a
// file is one without a name, standing where its last name stood, for as long as
// the kernel holds it. Rights are asked for as before, at that place.
type kept struct {
	n  atomic.Int32 // nodes in of: lets most calls do without mu
	mu sync.Mutex
	of map[backend.NodeID]map[*View]string // to the path, in the volume, of the last name
}

// keep remembers that v has node open by the name at path, which is gone. The
// volume's lock is held.
func (k *kept) keep(v *View, node backend.NodeID, path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[backend.NodeID]map[*View]string{}
	}
	if k.of[node] == nil {
		k.of[node] = map[*View]string{}
	}
	k.of[node][v] = path
	k.n.Store(int32(len(k.of)))
}

// path returns where v had node, if it keeps it.
func (k *kept) path(v *View, node backend.NodeID) (path string, ok bool) {
	if k.n.Load() == 0 {
		return "", false
	}
	k.mu.Lock()
	path, ok = k.of[node][v]
	k.mu.Unlock()
	return path, ok && v.holds(node)
}

// drop forgets that v keeps node.
func (k *kept) drop(v *View, node backend.NodeID) {
	if k.n.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of[node], v)
	if len(k.of[node]) == 0 {
		delete(k.of, node)
	}
	k.n.Store(int32(len(k.of)))
}

// dropNode forgets a node that no mount holds.
func (k *kept) dropNode(node backend.NodeID) {
	if k.n.Load() == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, node)
	k.n.Store(int32(len(k.of)))
}

// dropView forgets all that v keeps.
func (k *kept) dropView(v *View) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for node, views := range k.of {
		if delete(views, v); len(views) == 0 {
			delete(k.of, node)
		}
	}
	k.n.Store(int32(len(k.of)))
}

// holds reports whether the kernel of v's mount holds node.
func (v *View) holds(node backend.NodeID) bool {
	r, ok := v.o.Observer.(Revoker)
	return ok && r.Holds(node)
}
