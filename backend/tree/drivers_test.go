package tree_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/writeback"
)

// driver is one store under test.
type driver struct {
	store   backend.Store
	content backend.Content
	reopen  func(t *testing.T) // close and open again
}

type namedDriver struct {
	name string
	open func(t *testing.T) *driver
}

func drivers() []namedDriver {
	return []namedDriver{
		{"mem", openMem},
		{"badger", openBadger},
		{"writeback over mem", openWritebackMem},
		{"writeback over badger", openWritebackBadger},
		{"segments", openSegments},
	}
}

func openMem(t *testing.T) *driver {
	d := &driver{}
	s := mem.New(mem.Options{})
	d.store, d.content = s, mem.Content{}
	d.reopen = func(t *testing.T) {
		must(t, s.Close())
		s = s.Reopen()
		d.store = s
	}
	return d
}

func openBadger(t *testing.T) *driver {
	d, dir := &driver{content: badger.Content{}}, t.TempDir()
	open := func(t *testing.T) {
		s, err := badger.Open(context.Background(), badger.Options{Dir: dir})
		must(t, err)
		d.store = s
	}
	open(t)
	t.Cleanup(func() { d.store.Close() })
	d.reopen = func(t *testing.T) {
		must(t, d.store.Close())
		open(t)
	}
	return d
}

func openWritebackMem(t *testing.T) *driver { return wrap(t, openMem(t)) }

func openWritebackBadger(t *testing.T) *driver { return wrap(t, openBadger(t)) }

// wrap puts writeback over below.
func wrap(t *testing.T, below *driver) *driver {
	d, dir := &driver{content: below.content}, t.TempDir()
	open := func(t *testing.T) {
		s, err := writeback.Open(context.Background(), writeback.Options{Driver: below.store, Dir: dir})
		must(t, err)
		d.store = s
	}
	open(t)
	t.Cleanup(func() { d.store.Close() })
	d.reopen = func(t *testing.T) {
		must(t, d.store.Close())
		if below.store.View(context.Background(), func(backend.Tx) error { return nil }) != nil {
			below.reopen(t) // Close went down to the driver
		}
		open(t)
	}
	return d
}

// openSegments is what serve opens: segments over writeback over badger.
func openSegments(t *testing.T) *driver {
	below, dir := openBadger(t), t.TempDir()
	d := &driver{}
	open := func(t *testing.T) {
		c, err := segment.Open(segment.Options{Dir: filepath.Join(dir, "segments"), Logged: true, Reserve: -1,
			SegmentSize: 4 << 20, ReclaimEvery: 20 * time.Millisecond})
		must(t, err)
		wb, err := writeback.Open(context.Background(), writeback.Options{Driver: below.store, Dir: filepath.Join(dir, "log"),
			Bulk: c, CommitAge: 20 * time.Millisecond})
		must(t, err)
		s, err := c.Bind(context.Background(), wb)
		must(t, err)
		d.store, d.content = s, c
	}
	open(t)
	t.Cleanup(func() { d.store.Close() })
	d.reopen = func(t *testing.T) {
		must(t, d.store.Close())
		if below.store.View(context.Background(), func(backend.Tx) error { return nil }) != nil {
			below.reopen(t) // Close went down to the driver
		}
		open(t)
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openMemTree is a fresh tree on mem with one volume.
func openMemTree(t *testing.T) (*tree.Tree, backend.VolumeID) {
	t.Helper()
	d := openMem(t)
	tr, err := tree.Open(context.Background(), tree.Options{Store: d.store, Content: d.content})
	must(t, err)
	t.Cleanup(func() { checkTree(t, tr); tr.Close() })
	info, _, err := tr.CreateVolume(context.Background(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	must(t, err)
	return tr, info.ID
}

// checkTree runs fsck: it must find nothing.
func checkTree(t *testing.T, tr *tree.Tree) {
	t.Helper()
	err := tr.Check(context.Background(), tree.CheckOptions{Content: true}, func(p tree.Problem) { t.Errorf("fsck: %v", p) })
	must(t, err)
}
