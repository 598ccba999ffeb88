package fusefs

import (
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// nodeTable has what a kernel's memory keeps of each node. A mount may know a
// million of them, and there may be many mounts, so it is packed: slots of 20 bytes
// without keys or pointers, in chunks of nodes whose numbers follow each other, as
// those of a directory's files mostly do. A node takes some 23 bytes in such a
// directory, and about 130 where no other is near it.
//
// It is guarded by its kernel's mu.
type nodeTable struct {
	n      int // nodes in it
	peak   int // most chunks since chunks was made
	chunks map[backend.NodeID]*chunk
	wide   map[backend.NodeID]tally // of nodes whose counts do not fit into a slot
}

// chunkNodes is how many nodes share a chunk: the bits of chunk.has.
const chunkNodes = 64

// chunk has the nodes of chunkNodes numbers.
type chunk struct {
	has   uint64 // which of them are there, by bit
	slots []slot // of these, in their order
}

// slot is a packed known.
type slot struct {
	name    [2]uint32
	seq, at uint32
	lookups uint16 // narrow.lookups: see nodeTable.wide
	opens   uint8
	marks   marks
}

// tally is a node's counts.
type tally struct{ lookups, opens uint32 }

// narrow are the counts that say that the right ones are in nodeTable.wide.
var narrow = tally{math.MaxUint16, math.MaxUint8}

func newNodeTable() nodeTable {
	return nodeTable{chunks: make(map[backend.NodeID]*chunk), wide: make(map[backend.NodeID]tally)}
}

// at tells where in its chunk's slots a node is, or would be.
func (c *chunk) at(node backend.NodeID) (i int, ok bool) {
	bit := uint64(1) << (node % chunkNodes)
	return bits.OnesCount64(c.has & (bit - 1)), c.has&bit != 0
}

// get gives what is known of a node; ok: anything is.
func (t *nodeTable) get(node backend.NodeID) (n known, ok bool) {
	c := t.chunks[node/chunkNodes]
	if c == nil {
		return known{}, false
	}
	i, ok := c.at(node)
	if !ok {
		return known{}, false
	}
	s := &c.slots[i]
	n = known{
		name: uint64(s.name[0]) | uint64(s.name[1])<<32,
		seq:  s.seq, at: s.at, lookups: uint32(s.lookups), opens: uint32(s.opens), marks: s.marks,
	}
	if n.lookups == narrow.lookups && n.opens == narrow.opens {
		w := t.wide[node]
		n.lookups, n.opens = w.lookups, w.opens
	}
	return n, true
}

// put sets what is known of a node.
func (t *nodeTable) put(node backend.NodeID, n known) {
	s := slot{
		name: [2]uint32{uint32(n.name), uint32(n.name >> 32)},
		seq:  n.seq, at: n.at, lookups: uint16(n.lookups), opens: uint8(n.opens), marks: n.marks,
	}
	if n.lookups >= narrow.lookups || n.opens >= narrow.opens {
		t.wide[node] = tally{n.lookups, n.opens}
		s.lookups, s.opens = uint16(narrow.lookups), uint8(narrow.opens)
	} else if len(t.wide) > 0 {
		delete(t.wide, node)
	}
	c := t.chunks[node/chunkNodes]
	if c == nil {
		c = &chunk{}
		t.chunks[node/chunkNodes] = c
		t.peak = max(t.peak, len(t.chunks))
	}
	i, ok := c.at(node)
	if ok {
		c.slots[i] = s
		return
	}
	if len(c.slots) == cap(c.slots) {
		c.resize(len(c.slots)*5/4 + 1)
	}
	c.slots = slices.Insert(c.slots, i, s)
	c.has |= 1 << (node % chunkNodes)
	t.n++
}

// resize makes room for n slots, or a few more: what the allocator gives anyway.
func (c *chunk) resize(n int) {
	to := append([]slot(nil), make([]slot, min(n, chunkNodes))...)[:len(c.slots)]
	copy(to, c.slots)
	c.slots = to
}

// remove forgets a node.
func (t *nodeTable) remove(node backend.NodeID) {
	c := t.chunks[node/chunkNodes]
	if c == nil {
		return
	}
	i, ok := c.at(node)
	if !ok {
		return
	}
	delete(t.wide, node)
	c.slots = slices.Delete(c.slots, i, i+1)
	c.has &^= 1 << (node % chunkNodes)
	t.n--
	switch {
	case c.has == 0:
		delete(t.chunks, node/chunkNodes)
		t.shrink()
	case len(c.slots) < cap(c.slots)/2:
		c.resize(len(c.slots))
	}
}

// shrink gives memory back when most chunks of many are gone: a map never does.
func (t *nodeTable) shrink() {
	const worthwhile = 1 << 10
	if n := len(t.chunks); t.peak >= worthwhile && n <= t.peak/8 {
		smaller := make(map[backend.NodeID]*chunk, n)
		for at, c := range t.chunks {
			smaller[at] = c
		}
		t.chunks, t.peak = smaller, n
	}
}

// all lists the nodes, in no order.
func (t *nodeTable) all() iter.Seq[backend.NodeID] {
	return func(yield func(backend.NodeID) bool) {
		for at, c := range t.chunks {
			for left := c.has; left != 0; left &= left - 1 {
				if !yield(at*chunkNodes + backend.NodeID(bits.TrailingZeros64(left))) {
					return
				}
			}
		}
	}
}
