package fusefs

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/filelock"
	"github.com/warrenfs/warren/policy/view"
)

var _ view.Revoker = (*kernel)(nil)

// Revoked implements view.Revoker: this kernel loses what its view lost. Names
// that vanished are dropped, with all below them; the pages of nodes that may
// not be read any more are dropped and unmapped, so that a later touch of a map
// is SIGBUS; modes that are shown otherwise are asked for again. Of open files
// that may still be read the pages go as well, since dirty ones may not be
// written any more: they are asked for again. What stays
// visible keeps its names, so a shell's working directory survives. File locks on
// what it does not see any more are given up, and its waits for them end.
//
// A kernel whose mount is still being made has been told nothing, and will be
// answered by the new rules.
func (k *kernel) Revoked(r view.Revocation) {
	if !k.ready.Load() {
		return
	}
	changed := map[backend.VolumeID]bool{}
	for _, v := range r.Changed {
		changed[v] = true
	}
	k.locks.revoke(func(node nodeID) bool {
		return (len(r.Gone) > 0 || changed[node.Volume()]) && r.Standing(node) == view.Hidden
	})
	out := &notices{to: k}
	dirs := map[nodeID]bool{}
	for _, edges := range [][]view.Edge{r.Gone, r.Came} {
		for _, e := range edges {
			out.entries = append(out.entries, entryNotice{parent: e.Parent, name: e.Name})
			dirs[e.Parent] = true
		}
	}
	for dir := range dirs {
		out.inodes = append(out.inodes, inodeNotice{node: dir, dir: true})
	}
	out.decide()
	out.epoch = out.epoch || r.Names && k.epochs
	out.send()
	gone := &notices{to: k}
	for _, node := range k.held(len(r.Gone) > 0, changed) {
		standing := r.Standing(node)
		if standing == view.Hidden {
			k.lose(node, &r, gone)
		}
		switch standing {
		case view.Visible:
			switch {
			case !changed[node.Volume()]:
			case k.open(node): // a map may have dirty pages, which may not be written now
				k.within(func() { k.invalidate(&inodeNotice{node: node, n: -1}) })
			default:
				k.invalidate(&inodeNotice{node: node, off: -1})
			}
		default:
			k.within(func() { k.invalidate(&inodeNotice{node: node, n: -1}) })
		}
	}
	gone.decide()
	gone.send()
	k.visits.lookAgain(k.root)
}

// lose adds to out the notice that makes the kernel drop a hidden directory: getcwd
// of a process in it then fails with ENOENT. Without it, the kernel drops only the top
// of what vanished, and goes on naming what is below it by the old path.
func (k *kernel) lose(dir nodeID, r *view.Revocation, out *notices) {
	at, ok := r.Above(dir)
	if !ok || !k.Holds(at.Parent) {
		return
	}
	out.entries = append(out.entries, entryNotice{parent: at.Parent, name: at.Name, led: dir})
	k.visits.lose(dir)
}

// held lists the nodes that the kernel holds: all, or those of some volumes.
func (k *kernel) held(all bool, of map[backend.VolumeID]bool) []nodeID {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []nodeID
	for node := range k.nodes.all() {
		if all || of[node.Volume()] {
			out = append(out, node)
		}
	}
	return out
}

// open tells whether the kernel has node open; a map counts.
func (k *kernel) open(node nodeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, _ := k.nodes.get(node)
	return n.opens > 0
}

// refused drops what the write-back of a map was not allowed to write, so that
// the mount goes back to showing what is stored. The kernel holds the pages until
// it is answered, so this waits, in a goroutine of its own.
func (k *kernel) refused(node nodeID, off uint64, n int) {
	go k.invalidate(&inodeNotice{node: node, off: int64(off), n: int64(n)})
}

// mountLocks is what one mount has of the file locks of all.
type mountLocks struct {
	conn   uint64
	tables [2]*filelock.Table
}

// revoke gives up the locks on nodes that are lost, and ends the waits for
// them. It holds no lock while it asks.
func (m *mountLocks) revoke(lost func(nodeID) bool) {
	for _, t := range m.tables {
		for _, node := range t.Nodes(m.conn) {
			if lost(node) {
				t.Revoke(node, m.conn)
			}
		}
	}
}
