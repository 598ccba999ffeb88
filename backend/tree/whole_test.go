package tree_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/writeback"
)

// whole is all that serve puts together below the door, on disks in memory that
// crash and fail: a tree over segments over a log over a driver. Its methods are
// operations in one volume, whose outcome it knows.
type whole struct {
	t      *testing.T
	seg    *crashdir.Disk
	log    *crashdir.Disk
	driver *mem.Store
	told   lockedBuffer

	c  *segment.Content
	wb *writeback.Store
	s  *segment.Store
	tr *tree.Tree

	mu     sync.Mutex
	states []listing // after each operation; the last may not have taken effect yet
	done   int       // the last that has
	acked  int       // the last that is durable
	failed int       // operations
	moved  int       // segments compacted

	patience time.Duration // of settle
}

// entry is what a name leads to.
type entry struct {
	typ   backend.FileType
	mode  uint32
	data  []byte
	xattr string
}

// listing is what there must be, by path; hard links share an entry.
type listing map[string]*entry

// clone is a listing that does not change with l.
func (l listing) clone() listing {
	out, copies := listing{}, map[*entry]*entry{}
	for p, e := range l {
		if copies[e] == nil {
			c := *e
			c.data = slices.Clone(e.data)
			copies[e] = &c
		}
		out[p] = copies[e]
	}
	return out
}

// String describes it, a line a path.
func (l listing) String() string {
	links := map[*entry]int{}
	for _, e := range l {
		links[e]++
	}
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(l)) {
		describe(&b, p, l[p], links[l[p]])
	}
	return b.String()
}

func describe(b *strings.Builder, p string, e *entry, links int) {
	fmt.Fprintf(b, "%s %v %o %d bytes %08x, %d links, %q\n", p, e.typ, e.mode, len(e.data), crc32.ChecksumIEEE(e.data), links, e.xattr)
}

func newWhole(t *testing.T) *whole {
	w := &whole{t: t, seg: crashdir.New(), log: crashdir.New(), driver: mem.New(mem.Options{}), states: []listing{{}}}
	must(t, w.open())
	_, _, err := w.tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"},
		Parent: w.tr.Root(), Name: "v", Mode: 0o755})
	must(t, err)
	must(t, w.s.WaitDurable(t.Context(), w.wb.LastLSN()))
	return w
}

// open opens what is on the disks. Nothing is synced or committed by age.
func (w *whole) open() (err error) {
	ctx, log := context.Background(), slog.New(slog.NewTextHandler(&w.told, nil))
	if w.c, err = segment.Open(segment.Options{FS: w.seg, SegmentSize: 1, Reserve: -1, ReclaimEvery: -1, PunchRate: -1, Logged: true, Log: log,
		Settled: func(ctx context.Context, lsn backend.LSN) error {
			if err := w.wb.Flush(ctx); err != nil {
				return err
			}
			return w.wb.WaitCommitted(ctx, lsn)
		}}); err != nil {
		return err
	}
	if w.wb, err = writeback.Open(ctx, writeback.Options{Driver: w.driver, FS: w.log, Bulk: w.c, Log: log,
		SyncAge: time.Hour, CommitAge: time.Hour, LogFileSize: 256 << 10}); err != nil {
		return errors.Join(err, w.c.Close())
	}
	if w.s, err = w.c.Bind(ctx, w.wb); err != nil {
		return errors.Join(err, w.wb.Close(), w.c.Close())
	}
	if w.tr, err = tree.Open(ctx, tree.Options{Store: w.s, Content: w.c, Log: log, CacheInodes: 1}); err != nil {
		return errors.Join(err, w.s.Close())
	}
	return nil
}

func (w *whole) close() error { return errors.Join(w.tr.Close(), w.s.Close()) }

// ok takes an error of a disk, and nothing else.
func (w *whole) ok(what string, err error) bool {
	w.t.Helper()
	if err == nil {
		return true
	}
	w.failed++
	if k := backend.KindOf(err); k != backend.IO && k != backend.NoSpace {
		w.t.Errorf("%s: %v (kind %v)", what, err, k)
	}
	return false
}

// vol is the volume that operations work in.
func (w *whole) vol() backend.VolumeID {
	for _, v := range w.tr.Volumes() {
		if v.Label.Kind == tree.KindWorkspace {
			return v.ID
		}
	}
	w.t.Fatal("the volume is gone")
	return 0
}

// op does an operation that makes of the present listing what change makes of it.
func (w *whole) op(what string, change func(listing), fn func(tx *tree.Txn) error) {
	w.t.Helper()
	w.mu.Lock()
	next := w.states[w.done].clone()
	change(next)
	w.states = append(w.states[:w.done+1], next)
	w.mu.Unlock()
	err := w.tr.With(w.vol(), fn)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ok(what, err) {
		w.done++
	} else {
		w.states = w.states[:w.done+1]
	}
}

// bounds tells which states a crash may leave: from the last that outlives it to
// the last there is.
func (w *whole) bounds() (done, acked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done, w.acked
}

// find gives the node at a path, and its directory and name.
func find(tx *tree.Txn, p string) (ino, dir backend.Ino, name string, err error) {
	ino = backend.RootIno
	for _, part := range strings.Split(p, "/") {
		dir, name = ino, part
		n, _, err := tx.Lookup(dir, name)
		if err != nil {
			return 0, dir, name, err
		}
		ino = n.Ino()
	}
	return ino, dir, name, nil
}

// at runs fn on what is at a path.
func at(p string, fn func(tx *tree.Txn, ino, dir backend.Ino, name string) error) func(*tree.Txn) error {
	return func(tx *tree.Txn) error {
		ino, dir, name, err := find(tx, p)
		if err != nil {
			return err
		}
		return fn(tx, ino, dir, name)
	}
}

// found gives what a reader finds in the volume.
func (w *whole) found() (string, error) {
	all := listing{}
	byNode := map[backend.Ino]*entry{}
	var walk func(tx *tree.Txn, dir backend.Ino, prefix string) error
	walk = func(tx *tree.Txn, dir backend.Ino, prefix string) error {
		list, err := tx.List(dir)
		for _, e := range list {
			ino := e.Node.Ino()
			if err == nil && byNode[ino] == nil {
				byNode[ino], err = look(tx, ino)
			}
			all[prefix+e.Name] = byNode[ino]
			if err == nil && byNode[ino].typ == backend.TypeDir {
				err = walk(tx, ino, prefix+e.Name+"/")
			}
			if err != nil {
				return err
			}
		}
		return err
	}
	if err := w.tr.With(w.vol(), func(tx *tree.Txn) error { return walk(tx, backend.RootIno, "") }); err != nil {
		return "", err
	}
	for ino, e := range byNode {
		if e.typ != backend.TypeRegular {
			continue
		}
		err := w.tr.With(w.vol(), func(tx *tree.Txn) error { // Read may give the lock back
			n, err := tx.Read(ino, e.data, 0)
			if err == nil && n != len(e.data) {
				err = fmt.Errorf("%d of %d bytes", n, len(e.data))
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return all.String(), nil
}

// look gives what an inode is, with room for its bytes.
func look(tx *tree.Txn, ino backend.Ino) (*entry, error) {
	a, err := tx.Attr(ino)
	if err != nil {
		return nil, err
	}
	e := &entry{typ: a.Type, mode: a.Mode}
	if a.Type == backend.TypeRegular {
		e.data = make([]byte, a.Size)
	}
	x, err := tx.GetXattr(ino, "user.x")
	if errors.Is(err, backend.NoData) {
		err = nil
	}
	e.xattr = string(x)
	return e, err
}

// is checks that exactly one of the states from to most is there, all invariants
// hold, and gives which.
func (w *whole) is(what string, states []listing, from, most int) int {
	w.t.Helper()
	got, err := w.found()
	if err != nil {
		w.t.Errorf("%s: %v\n%s", what, err, w.told.String())
		return -1
	}
	which := -1
	for i := most; i >= from && which < 0; i-- {
		if states[i].String() == got {
			which = i
		}
	}
	if which < 0 {
		w.t.Errorf("%s: it is no state from %d to %d:\n%s\nthe last is:\n%s", what, from, most, got, states[most])
	}
	err = tree.Check(context.Background(), w.s, w.c, tree.CheckOptions{Content: true}, func(p tree.Problem) { w.t.Errorf("%s: fsck: %v", what, p) })
	if err != nil {
		w.t.Errorf("%s: fsck: %v", what, err)
	}
	return which
}
