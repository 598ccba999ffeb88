package writeback

import (
	"time"
	"unsafe"

	"github.com/tidwall/btree"
	"github.com/warrenfs/warren/backend"
)

// entry is what one Update did to one key. Its bytes are parts of the Update's
// record and never change.
type entry struct {
	key     string
	value   []byte
	lsn     backend.LSN
	deleted bool
}

// op is one Update that is not durable in the driver yet.
type op struct {
	lsn     backend.LSN
	at      time.Time // when it took effect
	rec     []byte    // the redo record; its header is the log's, under the writer's lock
	entries []entry   // each key once
}

// entryCost is about what an entry takes beside its bytes in the record.
const entryCost = 128

// cost is about the memory that the operation takes, in bytes.
func (o *op) cost() int64 { return int64(len(o.rec)) + int64(len(o.entries))*entryCost }

// overlayTree maps keys to their newest pending entry.
type overlayTree = btree.Map[string, *entry]

// overlayDegree trades copying on write after a snapshot against depth.
const overlayDegree = 16

// snapshot is the overlay after Update lsn. It never changes but for the
// fields that say so. A driver view goes with it when the driver's committed
// LSN in that view lies in [trimmed, lsn]: then the overlay holds every later
// change, and the driver none that the snapshot should not see.
type snapshot struct {
	tree    *overlayTree
	lsn     backend.LSN
	trimmed backend.LSN // entries up to here may be missing

	// Guarded by Store.mu:
	lazy       int       // readers that have no driver view yet
	reserved   []*holder // driver views kept for them; never more than lazy
	prev, next *snapshot // in the list of snapshots with lazy readers
}

// snapshotList holds the snapshots that have lazy readers, oldest first. It is
// the head of a ring.
type snapshotList struct{ ring snapshot }

func (l *snapshotList) init() { l.ring.prev, l.ring.next = &l.ring, &l.ring }

func (l *snapshotList) push(s *snapshot) {
	s.prev, s.next = l.ring.prev, &l.ring
	s.prev.next, s.next.prev = s, s
}

func (l *snapshotList) remove(s *snapshot) {
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
}

// all calls fn for each, oldest first, until it returns false.
func (l *snapshotList) all(fn func(*snapshot) bool) {
	for s := l.ring.next; s != &l.ring && fn(s); s = s.next {
	}
}

// overlay is the pending part of the store. Store.mu guards it; changes of
// tree and trimmed are made with the writer's lock held too, so that whoever
// holds that lock may rely on them between uses of mu.
type overlay struct {
	tree    *overlayTree
	last    backend.LSN // the newest Update
	trimmed backend.LSN
	queue   []*op // pending Updates, ascending without gaps
	bytes   int64 // their cost
	current *snapshot
	lazy    snapshotList
}

func (o *overlay) init(committed backend.LSN) {
	o.tree = btree.NewMap[string, *entry](overlayDegree)
	o.last, o.trimmed = committed, committed
	o.lazy.init()
}

// add makes an Update take effect.
func (o *overlay) add(p *op) {
	for i := range p.entries {
		o.tree.Set(p.entries[i].key, &p.entries[i])
	}
	o.last = p.lsn
	o.queue = append(o.queue, p)
	o.bytes += p.cost()
	o.current = nil
}

// snapshot gives the overlay as it is now.
func (o *overlay) snapshot() *snapshot {
	if o.current == nil {
		o.current = &snapshot{tree: o.tree.Copy(), lsn: o.last, trimmed: o.trimmed}
	}
	return o.current
}

// pin counts a reader of s that has no driver view yet: until unpin the driver
// is not committed beyond what s may see.
func (o *overlay) pin(s *snapshot) {
	if s.lazy++; s.lazy == 1 {
		o.lazy.push(s)
	}
}

// unpin ends pin and gives a reserved driver view that nobody needs any more, or nil.
func (o *overlay) unpin(s *snapshot) *holder {
	if s.lazy--; s.lazy == 0 {
		o.lazy.remove(s)
	}
	if len(s.reserved) <= s.lazy {
		return nil
	}
	h := s.reserved[len(s.reserved)-1]
	s.reserved = s.reserved[:len(s.reserved)-1]
	return h
}

// pop takes the Updates up to lsn out of the queue: they are durable in the driver.
func (o *overlay) pop(lsn backend.LSN) {
	n := 0
	for n < len(o.queue) && o.queue[n].lsn <= lsn {
		o.bytes -= o.queue[n].cost()
		o.queue[n] = nil
		n++
	}
	o.queue = o.queue[n:]
}

// trim forgets entries of batch that are in the driver.
func (o *overlay) trim(batch []*entry) {
	for _, e := range batch {
		if now, ok := o.tree.Get(e.key); ok && now.lsn <= o.trimmed {
			o.tree.Delete(e.key)
		}
	}
}

// asString gives b as a string without copying; b must never change.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// asBytes gives s as bytes without copying; nobody may change them.
func asBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
