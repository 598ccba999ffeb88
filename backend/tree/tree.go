package tree

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
)

// Format is the version of the records in a store. A store of another version
// is refused.
const Format = 1

// Options say what a tree stands on. Store and Content must be set.
type Options struct {
	Store   backend.Store
	Content backend.Content
	Log     *slog.Logger
	Feed    *feed.Feed          // nil: changes are recorded nowhere
	Clock   func() backend.Time // default: the system's

	// CacheInodes bounds the decoded inodes and cached names kept in memory
	// (four names count as one inode). Default 150,000, about 80 MB.
	CacheInodes int
	// RestAfter is how long nothing must have changed before contents are written
	// anew of which files name less than seven eighths. Default 10 s.
	RestAfter time.Duration
	// FreeBytes tells how many bytes users may still write, and the total of the
	// disk below. Where it is 0 what makes the store grow fails with NoSpace.
	// nil: there is no bound.
	FreeBytes func() (free, total uint64)
	// Failure returns why FreeBytes could not ask the disk and returned 0, or nil if
	// it could.
	Failure func() error
	// ComingBytes tells how many bytes are about to be free, what is being merged
	// below for example. While they are many, or while content is being dropped,
	// what finds no room waits for it, some seconds at most. nil: nobody knows.
	ComingBytes func() uint64
}

// Tree is all volumes of one store. Its methods may be called from any
// goroutine.
type Tree struct {
	store   backend.Logged
	content backend.Content
	feed    *feed.Feed
	log     *slog.Logger
	clock   func() backend.Time
	room    room

	root    backend.NodeID
	created backend.Time
	inUse   atomic.Pointer[func(backend.NodeID) bool]
	last    atomic.Uint64 // LSN of the newest change
	cached  atomic.Int64  // weight of all cached inodes
	limit   int64
	todo    *reclaimer
	gone    tally // of volumes that are gone; added to with mu held

	mu   sync.RWMutex
	vols map[backend.VolumeID]*volume // guarded by mu
}

// Open reads the volumes of a store, or makes the root volume and its
// directories in an empty one, and starts the reclaimer. Errors: Invalid for a
// store of another format, IO for damaged records.
func Open(ctx context.Context, o Options) (*Tree, error) {
	t := &Tree{
		content: o.Content, feed: o.Feed, log: o.Log, clock: o.Clock, room: room{free: o.FreeBytes, coming: o.ComingBytes, failure: o.Failure, start: time.Now()},
		limit: int64(o.CacheInodes), vols: map[backend.VolumeID]*volume{},
	}
	if l, ok := o.Store.(backend.Logged); ok {
		t.store = l
	} else {
		t.store = unlogged{o.Store}
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.clock == nil {
		t.clock = func() backend.Time { return backend.TimeOf(time.Now()) }
	}
	if t.limit <= 0 {
		t.limit = 150_000
	}
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	if o.RestAfter <= 0 {
		o.RestAfter = 10 * time.Second
	}
	t.todo = startReclaimer(t, o.RestAfter)
	return t, nil
}

// unlogged lends a plain Store the method of a Logged one.
type unlogged struct{ backend.Store }

func (u unlogged) UpdateFrom(ctx context.Context, _ backend.Origin, fn func(backend.Tx) error) (backend.LSN, error) {
	return u.Update(ctx, fn)
}

var (
	metaFormat = []byte("mformat")
	metaRoot   = []byte("mroot")
)

func (t *Tree) load(ctx context.Context) error {
	fresh := false
	err := t.store.View(ctx, func(kv backend.Tx) error {
		b, err := kv.Get(metaFormat)
		if errors.Is(err, backend.NotFound) {
			fresh = true
			return nil
		}
		if err != nil {
			return err
		}
		d := decoder{b: b}
		if f := d.u(); f != Format {
			return &backend.Error{Op: "open store", Kind: backend.Invalid,
				Err: fmt.Errorf("its format is %d, this warren reads %d; use the version that wrote it", f, Format)}
		}
		return t.loadVolumes(kv)
	})
	if err != nil {
		return err
	}
	if fresh {
		return t.format(ctx)
	}
	return nil
}

func (t *Tree) loadVolumes(kv backend.Tx) error {
	b, err := kv.Get(metaRoot)
	if err != nil {
		return &backend.Error{Op: "open store", Kind: backend.IO, Err: errors.New("the root volume's record is missing; run warren fsck")}
	}
	d := decoder{b: b}
	t.root = backend.Node(backend.VolumeID(d.u()), backend.RootIno)
	t.created = backend.Time(d.i())
	return kv.Scan([]byte{famVolume}, []byte{famVolume + 1}, func(k, b []byte) error {
		rec, err := decodeVolume(volumeOf(k), b)
		if err != nil {
			return err
		}
		v := newVolume(t, rec)
		u, err := kv.Get(appendVol(nil, famUsage, rec.ID))
		if err != nil {
			return err
		}
		if v.use, err = decodeUsage(rec.ID, u); err != nil {
			return err
		}
		if v.limits, err = limitsOf(kv, rec.ID); err != nil {
			return err
		}
		t.vols[rec.ID] = v
		return nil
	})
}

// format makes the root volume and the directories that stand in it.
func (t *Tree) format(ctx context.Context) error {
	now := t.clock()
	id, err := t.newVolumeID()
	if err != nil {
		return err
	}
	rec := volrec{VolumeInfo: VolumeInfo{ID: id, Label: Label{Kind: KindRoot}, Created: now, Epoch: 1}}
	v := newVolume(t, rec)
	v.use = usage{nextIno: uint64(backend.RootIno), nextContent: 1}
	w := writer{v: v, use: v.use}
	lsn, err := t.store.Update(ctx, func(kv backend.Tx) error {
		w.kv, w.use = kv, v.use
		root := w.newRecord(backend.TypeDir, 0o755, Op{UID: backend.OwnerID, GID: backend.OwnerID}, now)
		ino := w.nextIno()
		for _, name := range []string{"agents", "projects", "users", "workspaces"} {
			sub := root
			sub.link, sub.entries = Link{Parent: ino, Name: name}, 0
			i := w.nextIno()
			w.putInode(i, &sub)
			w.putDirent(ino, name, dent{ino: i, typ: backend.TypeDir})
			root.entries++
		}
		w.putInode(ino, &root)
		w.putUsage()
		e := encoder{}
		e.u(uint64(id))
		e.i(int64(now))
		w.set(volumeKey(id), rec.encode())
		w.set(metaRoot, e.b)
		w.set(metaFormat, binary.AppendUvarint(nil, Format))
		return w.err
	})
	if err != nil {
		return err
	}
	v.use = w.use
	t.root, t.created = backend.Node(id, backend.RootIno), now
	t.vols[id] = v
	t.advance(lsn)
	return t.store.WaitDurable(ctx, lsn)
}

// newVolumeID draws a number no volume of the store has. mu may be held for
// reading at most.
func (t *Tree) newVolumeID() (backend.VolumeID, error) {
	var b [4]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return 0, &backend.Error{Op: "create volume", Kind: backend.IO, Err: err}
		}
		id := backend.VolumeID(binary.BigEndian.Uint32(b[:])) & backend.MaxVolumeID
		if id == 0 {
			continue
		}
		if t.vol(id) == nil {
			return id, nil
		}
	}
}

// firstContent draws where a volume begins to number its content. Content that other
// volumes share outlives its volume, and a volume may get the number of one that is
// gone: then it does not give out the same content numbers again.
func firstContent() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, &backend.Error{Op: "create volume", Kind: backend.IO, Err: err}
	}
	return binary.BigEndian.Uint64(b[:])>>26 + 1, nil // 38 bits of 40
}

// Close stops the reclaimer. The store stays open: it is the caller's.
func (t *Tree) Close() error {
	t.todo.stop()
	return nil
}

// SetInUse gives the function that tells whether a mount still holds a node:
// an orphan is reclaimed when none does. It is called with the volume's lock
// held and must not block or call the tree.
func (t *Tree) SetInUse(fn func(backend.NodeID) bool) { t.inUse.Store(&fn) }

func (t *Tree) held(n backend.NodeID) bool {
	fn := t.inUse.Load()
	return fn != nil && (*fn)(n)
}

// Root is the node of "/".
func (t *Tree) Root() backend.NodeID { return t.root }

// Created is when the store was made.
func (t *Tree) Created() backend.Time { return t.created }

// Store is what the tree stands on, for what is not the tree's: registry keys.
func (t *Tree) Store() backend.Store { return t.store }

// Feed is where changes are recorded; nil: nowhere.
func (t *Tree) Feed() *feed.Feed { return t.feed }

// Sync returns when every change acknowledged so far is on disk.
func (t *Tree) Sync(ctx context.Context) error {
	return t.store.WaitDurable(ctx, backend.LSN(t.last.Load()))
}

// advance notes lsn as the newest if it is.
func (t *Tree) advance(lsn backend.LSN) {
	for {
		old := t.last.Load()
		if uint64(lsn) <= old || t.last.CompareAndSwap(old, uint64(lsn)) {
			return
		}
	}
}

func (t *Tree) vol(id backend.VolumeID) *volume {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.vols[id]
}

// Volume tells what is known of volume id.
func (t *Tree) Volume(id backend.VolumeID) (VolumeInfo, bool) {
	v := t.vol(id)
	if v == nil || v.removed.Load() {
		return VolumeInfo{}, false
	}
	return v.info, true
}

// Volumes lists all volumes, by number.
func (t *Tree) Volumes() []VolumeInfo {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []VolumeInfo
	for _, v := range t.vols {
		if !v.removed.Load() {
			out = append(out, v.info)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

// VolumeByLabel finds the volume with label l.
func (t *Tree) VolumeByLabel(l Label) (VolumeInfo, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, v := range t.vols {
		if v.info.Label == l && !v.removed.Load() {
			return v.info, true
		}
	}
	return VolumeInfo{}, false
}

// With runs fn with the lock of volume id held. It returns fn's error, or
// Stale when there is no such volume. Where fn changed nothing because the store
// is full, and room is being made, With waits, without the lock, and runs fn
// again.
func (t *Tree) With(id backend.VolumeID, fn func(*Txn) error) error {
	changed, err := t.with(id, fn)
	if changed || !refused(err) {
		return err
	}
	for end := time.Now().Add(patience); !changed && refused(err) && t.room.await(end); {
		changed, err = t.with(id, fn)
	}
	return err
}

func (t *Tree) with(id backend.VolumeID, fn func(*Txn) error) (changed bool, err error) {
	v := t.vol(id)
	if v == nil {
		return false, backend.Stale
	}
	tx := txns.Get().(*Txn)
	*tx = Txn{t: t, v: v, changes: tx.changes[:0], buf: tx.buf[:0], moved: tx.moved[:0]}
	v.mu.Lock()
	tx.locked = true
	if v.removed.Load() {
		v.mu.Unlock()
		txns.Put(tx)
		return false, backend.Stale
	}
	defer func() {
		changed = len(tx.changes) > 0
		tx.unlock()
		txns.Put(tx)
	}()
	return false, fn(tx)
}

var txns = sync.Pool{New: func() any { return new(Txn) }}
