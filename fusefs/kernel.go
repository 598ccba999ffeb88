package fusefs

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// kernel is what one mount's kernel may hold in its caches: the armed marks.
// It is set when an answer grants caching and cleared when the invalidation is
// sent, so that nothing is sent where nothing is cached.
//
// It is the view.Observer of its mount. Observer methods and collect run under
// a volume's lock; mu is a leaf.
type kernel struct {
	dev   *device
	count *counters
	root  backend.NodeID
	birth

	underWay
	manners
	// locks are what this mount has of the file locks.
	locks  mountLocks
	visits visits

	mu    sync.Mutex
	seq   uint64 // counts armings; never the same twice, though a node may come again
	nodes nodeTable
	dirs  map[backend.NodeID]*absent
	dead  bool
	disputes
	reopens reopens
}

var _ view.Observer = (*kernel)(nil)

// underWay counts what decides whether a notice may wait for this kernel.
type underWay struct {
	// naming counts the requests of this mount under way that change names.
	// It is raised when the request is read, before any lock is taken.
	naming atomic.Int32
	// expiring counts the notices about names that are decided on and not taken
	// yet: see renamed.
	expiring atomic.Int32
	// overdue counts the notices that have been waited for long enough.
	overdue atomic.Int32
}

// manners are how a kernel is to be treated.
type manners struct {
	epochs  bool // it knows INC_EPOCH
	trusted bool // it is waited for as long as it takes
	// ready is set when the handshake is done, and what is above may be read, and
	// dev written to. Before it the kernel holds nothing.
	ready atomic.Bool
}

// birth is what a kernel's memory counts time and hashes names from.
type birth struct {
	start time.Time
	seed  maphash.Seed
}

// known is what is kept of one node.
type known struct {
	name    uint64 // hash of the one name that is armed, see markSeveral
	seq     uint32 // of the last time anything was armed, the low bits
	lookups uint32 // FUSE's nlookup: names answered less names forgotten
	at      uint32 // when an entry or attributes were last answered, ms since start
	opens   uint32 // open files
	marks   marks
}

// marks are the armed bits of a node.
type marks uint8

const (
	markEntry   marks = 1 << iota // a name that leads to it
	markSeveral                   // more names than one did: name is not decisive
	markAttr                      // its attributes
	markData                      // pages of its content
	markListing                   // its listing
	markStale                     // pages may have been missed: next OPEN drops them
	markBlind                     // attributes went out that the kernel takes unasked
	markSetID                     // its mode, as answered last, has set-id bits
)

// absent are the negative names of one directory that may be cached.
type absent struct {
	any   bool              // too many to remember: any may be
	names map[string]uint64 // to the sequence number at which they were armed
}

// maxAbsent bounds the names remembered for a directory; beyond it every
// change of a name in it is told.
const maxAbsent = 512

func newKernel(count *counters) *kernel {
	return &kernel{
		count: count,
		birth: birth{start: time.Now(), seed: maphash.MakeSeed()},
		nodes: newNodeTable(),
		dirs:  make(map[backend.NodeID]*absent),

		reopens: make(reopens),

		disputes: disputes{contended: make(map[backend.NodeID]*contended), late: make(map[backend.NodeID]late), askers: make(askers),
			resting: make(map[backend.NodeID]resting)},
	}
}

// wire gives the number by which the kernel knows node.
func (k *kernel) wire(node backend.NodeID) uint64 {
	if node == k.root {
		return rootID
	}
	return uint64(node)
}

func (k *kernel) now() uint32 { return uint32(time.Since(k.start).Milliseconds()) }

// next gives a sequence number. mu held.
func (k *kernel) next() uint64 {
	k.seq++
	return k.seq
}

func (k *kernel) nameHash(parent backend.NodeID, name string) uint64 {
	return maphash.String(k.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
}

// Entry implements view.Observer: it also counts a look-up, which the kernel
// gives back by FORGET.
func (k *kernel) Entry(parent backend.NodeID, name string, a *backend.Attr) {
	h, now := k.nameHash(parent, name), k.now()
	k.mu.Lock()
	k.answered(h)
	n, _ := k.nodes.get(a.Node)
	if n.marks&markEntry != 0 && n.name != h {
		n.marks |= markSeveral
	}
	n.name = h
	n.lookups++
	n.seq = uint32(k.next())
	n.at = now
	n.marks |= markEntry | markAttr
	n.marks.setID(a)
	k.nodes.put(a.Node, n)
	k.asked(a.Node)
	if d := k.dirs[parent]; d != nil && !d.any {
		delete(d.names, name)
	}
	k.mu.Unlock()
}

// Negative implements view.Observer.
func (k *kernel) Negative(parent backend.NodeID, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered(k.nameHash(parent, name))
	if _, ok := k.nodes.get(parent); !ok && parent != k.root {
		return // forgotten meanwhile: no name can be cached below it
	}
	d := k.dirs[parent]
	if d == nil {
		d = &absent{names: make(map[string]uint64)}
		k.dirs[parent] = d
	}
	if d.any {
		return
	}
	if len(d.names) >= maxAbsent {
		d.any, d.names = true, nil
		return
	}
	d.names[name] = k.next()
}

// Attr implements view.Observer.
func (k *kernel) Attr(a *backend.Attr) {
	k.mu.Lock()
	if n, ok := k.nodes.get(a.Node); ok {
		n.seq = uint32(k.next())
		n.marks |= markAttr
		n.marks.setID(a)
		k.nodes.put(a.Node, n)
	}
	k.asked(a.Node)
	k.mu.Unlock()
}

func (m *marks) setID(a *backend.Attr) {
	*m &^= markSetID
	if a.Mode&0o6000 != 0 {
		*m |= markSetID
	}
}

// Listing implements view.Observer.
func (k *kernel) Listing(dir backend.NodeID) { k.arm(dir, markListing) }

// Opened implements view.Observer. Opening brings no page into a cache: READ
// and writing through the cache do, see reading and fileSystem.opened.
func (k *kernel) Opened(*backend.Attr, bool) {}

// arm marks a node that the kernel holds; one it does not hold has no caches.
func (k *kernel) arm(node backend.NodeID, m marks) {
	k.mu.Lock()
	if n, ok := k.nodes.get(node); ok {
		n.seq = uint32(k.next())
		n.marks |= m
		k.nodes.put(node, n)
	}
	k.mu.Unlock()
}

// hold counts a look-up of a node that was answered without a name (a
// temporary file).
func (k *kernel) hold(node backend.NodeID) {
	now := k.now()
	k.mu.Lock()
	n, _ := k.nodes.get(node)
	n.lookups++
	n.seq = uint32(k.next())
	n.at = now
	n.marks |= markAttr
	k.nodes.put(node, n)
	k.mu.Unlock()
}

// forget gives back count look-ups of node, and tells whether that were all.
func (k *kernel) forget(node backend.NodeID, count uint64) (gone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, ok := k.nodes.get(node)
	if !ok {
		return false
	}
	if uint64(n.lookups) > count {
		n.lookups -= uint32(count)
		k.nodes.put(node, n)
		return false
	}
	if node == k.root {
		return false
	}
	k.nodes.remove(node)
	delete(k.dirs, node)
	delete(k.contended, node)
	return true
}

// opened counts the open files of a node: by 1, or -1.
func (k *kernel) opened(node backend.NodeID, by int32) {
	k.mu.Lock()
	if n, ok := k.nodes.get(node); ok {
		n.opens = uint32(int32(n.opens) + by)
		if c := k.contended[node]; c != nil && n.opens == 0 && c.telling == 0 {
			delete(k.contended, node)
		}
		k.nodes.put(node, n)
	}
	k.mu.Unlock()
}

// blind notes that attributes of node go out in an answer that the kernel
// takes as the newest whatever it was told meanwhile (SETATTR, LINK, and what
// makes nodes).
func (k *kernel) blind(node backend.NodeID) {
	now := k.now()
	k.mu.Lock()
	if n, ok := k.nodes.get(node); ok {
		n.at = now
		n.marks |= markBlind
		k.nodes.put(node, n)
	}
	k.mu.Unlock()
}

// Holds implements view.Revoker.
func (k *kernel) Holds(node backend.NodeID) bool {
	k.mu.Lock()
	_, ok := k.nodes.get(node)
	k.mu.Unlock()
	return ok
}

// take tells whether node has mark m, and clears it.
func (k *kernel) take(node backend.NodeID, m marks) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, _ := k.nodes.get(node)
	if n.marks&m == 0 {
		return false
	}
	n.marks &^= m
	k.nodes.put(node, n)
	return true
}

// armedData tells whether the kernel may hold pages of node.
func (k *kernel) armedData(node backend.NodeID) bool {
	k.mu.Lock()
	n, _ := k.nodes.get(node)
	k.mu.Unlock()
	return n.marks&markData != 0
}

// size tells how many nodes the kernel holds.
func (k *kernel) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes.n
}

// bury empties the memory when the connection has ended and lists the nodes it
// held.
func (k *kernel) bury() []backend.NodeID {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := make([]backend.NodeID, 0, k.nodes.n)
	for node := range k.nodes.all() {
		held = append(held, node)
	}
	k.nodes, k.dirs, k.dead = newNodeTable(), make(map[backend.NodeID]*absent), true
	return held
}

// isAbsent tells whether name in parent has been noted as cached and absent.
func (k *kernel) isAbsent(parent backend.NodeID, name string) bool {
	k.mu.Lock()
	_, ok := k.absentSeq(parent, name)
	k.mu.Unlock()
	return ok
}

// setRoot names the node that the kernel knows from the start and never
// forgets.
func (k *kernel) setRoot(node backend.NodeID) {
	k.mu.Lock()
	k.root = node
	n, _ := k.nodes.get(node)
	n.lookups = 1
	k.nodes.put(node, n)
	k.mu.Unlock()
}
