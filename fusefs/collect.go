package fusefs

import (
	"math"
	"syscall"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// notices are what one kernel must be told of one change set. They are found
// under the volume's lock (collect) and sent under none (send).
type notices struct {
	to      *kernel
	epoch   bool
	crossed bool     // a request of that mount that changes names is under way
	visits  []nodeID // directories whose new names must be looked up
	entries []entryNotice
	inodes  []inodeNotice
}

type entryNotice struct {
	parent backend.NodeID
	name   string
	absent uint64         // sequence number of the negative name, 0: none
	child  backend.NodeID // whose markEntry goes, 0: none
	seq    uint32         // of child
	led    backend.NodeID // what a name that is gone led to, 0: nothing that is held by it
}

type inodeNotice struct {
	node  backend.NodeID
	off   int64 // -1: attributes only
	n     int64 // 0: to the end
	clear marks
	seq   uint32
	echo  bool
	dir   bool // names in it changed: told after them
	late  span // of a file whose size changed: told once more
}

// collect finds what this kernel must be told of changes; nil if nothing.
func (k *kernel) collect(changes []view.Change) *notices {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return nil
	}
	var out *notices
	get := func() *notices {
		if out == nil {
			out = &notices{to: k}
		}
		return out
	}
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case view.EntryAdded:
			k.entryAdded(c, get)
		case view.EntryRemoved:
			k.entryRemoved(c, get)
		case view.AttrChanged:
			k.attrChanged(c.Node, get)
		case view.DataChanged:
			k.dataChanged(c, get)
		}
	}
	if out != nil {
		out.decide()
	}
	return out
}

// decide chooses INC_EPOCH where a request of that mount holds a directory lock,
// or waits for one: INVAL_ENTRY would wait for it, and it perhaps for us. Nor is
// a mount waited for that kept an earlier notice waiting too long.
func (n *notices) decide() {
	if len(n.entries) == 0 && len(n.visits) == 0 {
		return
	}
	n.crossed = n.to.naming.Load() > 0
	if len(n.entries) == 0 {
		return
	}
	n.to.expiring.Add(1)
	if !n.crossed && n.to.overdue.Load() == 0 {
		return
	}
	n.epoch = true
	for i := range n.inodes {
		n.inodes[i].off = -1
	}
}

// own takes note of what a change through this mount itself did to its kernel's
// names: a rename moves a cached name, and the view answers nothing for it.
func (k *kernel) own(changes []view.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Kind != view.EntryAdded && c.Kind != view.EntryRemoved {
			continue
		}
		n, ok := k.nodes.get(c.Child)
		if !ok {
			continue
		}
		h := k.nameHash(c.Node, c.Name)
		switch {
		case c.Kind == view.EntryAdded:
			if n.marks&markEntry != 0 && n.name != h {
				n.marks |= markSeveral
			}
			n.name = h
			n.marks |= markEntry
			n.seq = uint32(k.next())
			if d := k.dirs[c.Node]; d != nil {
				delete(d.names, c.Name)
			}
		case n.marks&markSeveral == 0 && n.name == h:
			n.marks &^= markEntry
		}
		k.nodes.put(c.Child, n)
	}
}

func (k *kernel) entryAdded(c *view.Change, get func() *notices) {
	if dir, ok := k.nodes.get(c.Node); ok {
		seq, negative := k.absentSeq(c.Node, c.Name)
		if negative || dir.marks&markListing != 0 {
			n := get()
			n.entries = append(n.entries, entryNotice{parent: c.Node, name: c.Name, absent: seq})
		}
		k.dirChanged(c.Node, dir, get)
	}
	k.attrChanged(c.Child, get)
	if _, held := k.nodes.get(c.Child); held && c.Dir && c.Child != k.root && k.visits.look != nil {
		n := get()
		n.visits = append(n.visits, c.Child)
	}
}

func (k *kernel) entryRemoved(c *view.Change, get func() *notices) {
	dir, ok := k.nodes.get(c.Node)
	if ok {
		child, _ := k.nodes.get(c.Child)
		named := child.marks&markEntry != 0 && (child.marks&markSeveral != 0 || child.name == k.nameHash(c.Node, c.Name))
		if named || dir.marks&markListing != 0 {
			e := entryNotice{parent: c.Node, name: c.Name}
			if named {
				e.led = c.Child
			}
			if named && child.marks&markSeveral == 0 {
				e.child, e.seq = c.Child, child.seq
			}
			n := get()
			n.entries = append(n.entries, e)
		}
		k.dirChanged(c.Node, dir, get)
	}
	k.attrChanged(c.Child, get)
}

// absentSeq tells whether name in dir may be cached as absent.
func (k *kernel) absentSeq(dir backend.NodeID, name string) (seq uint64, ok bool) {
	d := k.dirs[dir]
	if d == nil {
		return 0, false
	}
	if d.any {
		return 0, true
	}
	seq, ok = d.names[name]
	return seq, ok
}

// dirChanged is for a directory whose names, and so its listing, times and
// cached pages of names, changed.
func (k *kernel) dirChanged(node backend.NodeID, dir known, get func() *notices) {
	if m := dir.marks & (markAttr | markListing); m != 0 {
		get().inode(inodeNotice{node: node, clear: m, seq: dir.seq, dir: true})
	}
}

func (k *kernel) attrChanged(node backend.NodeID, get func() *notices) {
	if n, ok := k.nodes.get(node); ok && n.marks&markAttr != 0 {
		get().inode(inodeNotice{node: node, off: -1, clear: markAttr, seq: n.seq, echo: k.echo(node, &n)})
	}
}

func (k *kernel) dataChanged(c *view.Change, get func() *notices) {
	n, ok := k.nodes.get(c.Node)
	if !ok || n.marks&(markData|markAttr) == 0 {
		return
	}
	note := inodeNotice{node: c.Node, off: -1, clear: markAttr, seq: n.seq, echo: k.echo(c.Node, &n)}
	if _, awaited := k.late[c.Node]; c.Sized && (awaited || n.marks&markAttr != 0) {
		note.late = span{c.Off, c.Off + c.Len}
		if c.Len == 0 {
			note.late.end = math.MaxInt64
		}
	}
	switch {
	case n.marks&markData == 0:
	case n.opens == 0: // nobody reads it now: drop all, and be quiet from now on
		note.off, note.clear = 0, markAttr|markData
	default:
		note.off, note.n = int64(c.Off), int64(c.Len)
	}
	get().inode(note)
}

// echo tells, once, whether an answer whose attributes the kernel takes unasked
// may still be under way to it: no longer if the thread has asked for something else.
func (k *kernel) echo(node backend.NodeID, n *known) bool {
	if n.marks&markBlind == 0 {
		return false
	}
	n.marks &^= markBlind
	k.nodes.put(node, *n)
	now := k.now()
	return now-n.at < uint32(blindTime/time.Millisecond) && len(k.askers.of(node, now)) > 0
}

// inode adds a notice, or widens one about the same node.
func (n *notices) inode(add inodeNotice) {
	for i := range n.inodes {
		have := &n.inodes[i]
		if have.node != add.node {
			continue
		}
		have.clear |= add.clear
		have.echo = have.echo || add.echo
		have.dir = have.dir || add.dir
		have.late = have.late.with(add.late)
		switch {
		case add.off < 0:
		case have.off < 0:
			have.off, have.n = add.off, add.n
		default:
			end := max(have.off+have.n, add.off+add.n)
			toEnd := have.n == 0 || add.n == 0
			have.off = min(have.off, add.off)
			if have.n = end - have.off; toEnd {
				have.n = 0
			}
		}
		return
	}
	n.inodes = append(n.inodes, add)
}

const (
	// blindTime is how long an answer may take from this daemon's reply until
	// the kernel's waiting thread has taken it in.
	blindTime = time.Second
	// echoDelay is when a notice that such an answer may have overtaken is
	// sent again.
	echoDelay = 100 * time.Millisecond
)

// tell tells the kernel, and clears the armed marks that have not been set again
// meanwhile.
func (n *notices) tell() {
	k := n.to
	// Nodes that lost a name go first: without it the kernel may drop them, and
	// would answer as if it had never heard of them.
	for i := range n.inodes {
		if !n.inodes[i].dir {
			k.invalidate(&n.inodes[i])
		}
	}
	switch {
	case !n.epoch:
		for i := range n.entries {
			e := &n.entries[i]
			k.dev.invalEntry(k.wire(e.parent), e.name)
		}
	case k.epochs:
		k.dev.incEpoch()
	}
	if len(n.entries) > 0 {
		k.expiring.Add(-1)
	}
	for i := range n.inodes {
		if n.inodes[i].dir {
			k.invalidate(&n.inodes[i])
		}
	}
	k.mu.Lock()
	for i := range n.entries {
		e := &n.entries[i]
		k.sentEntry(e)
		if n.epoch && e.led != 0 {
			k.lapsed(lapse{e.parent, e.name, e.led})
		}
	}
	for i := range n.inodes {
		if in := &n.inodes[i]; in.clear != 0 {
			if kn, ok := k.nodes.get(in.node); ok && kn.seq == in.seq {
				kn.marks &^= in.clear
				k.nodes.put(in.node, kn)
			}
		}
	}
	k.mu.Unlock()
}

// sentEntry clears the marks of a name. mu held.
func (k *kernel) sentEntry(e *entryNotice) {
	if d := k.dirs[e.parent]; d != nil && e.absent != 0 && d.names[e.name] == e.absent {
		delete(d.names, e.name)
		if len(d.names) == 0 && !d.any {
			delete(k.dirs, e.parent)
		}
	}
	if e.child != 0 {
		if n, ok := k.nodes.get(e.child); ok && n.seq == e.seq {
			n.marks &^= markEntry
			k.nodes.put(e.child, n)
		}
	}
}

// invalidate sends one INVAL_INODE. ENOENT although the kernel was told of the
// node means that it has forgotten it and says so soon, or that the answer
// which told of it is still under way; then its names must be asked for again,
// and what its open files hold is dropped at the next OPEN.
func (k *kernel) invalidate(in *inodeNotice) {
	node := k.wire(in.node)
	if in.off >= 0 {
		defer k.noticing(in.node)()
	}
	errno := k.dev.invalInode(node, in.off, in.n)
	if errno == syscall.ENOENT {
		k.mu.Lock()
		n, held := k.nodes.get(in.node)
		recent := held && k.now()-n.at < uint32(blindTime/time.Millisecond)
		k.mu.Unlock()
		if held && recent && k.epochs {
			k.count.add(noteRetry)
			k.dev.incEpoch()
			errno = k.dev.invalInode(node, in.off, in.n)
		}
		if held && errno == syscall.ENOENT {
			k.markStale(in.node)
		}
	}
	if in.late.end > 0 {
		k.toldLate(in.node, in.late)
	}
	if in.echo {
		k.quietly(in.node, func() { k.dev.invalInode(node, -1, 0) })
	}
}

func (k *kernel) markStale(node backend.NodeID) {
	k.mu.Lock()
	if n, ok := k.nodes.get(node); ok {
		n.marks |= markStale
		k.nodes.put(node, n)
	}
	k.mu.Unlock()
}
