package tree_test

import (
	"context"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
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
	}
}

func openMem(t *testing.T) *driver {
	d := &driver{}
	s := mem.New(mem.Options{})
	d.store, d.content = s, mem.Content{}
	d.reopen = func(t *testing.T) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = s.Reopen()
		d.store = s
	}
	return d
}

// openMemTree is a fresh tree on mem with one volume.
func openMemTree(t *testing.T) (*tree.Tree, backend.VolumeID) {
	t.Helper()
	d := openMem(t)
	tr, err := tree.Open(context.Background(), tree.Options{Store: d.store, Content: d.content})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkTree(t, tr); tr.Close() })
	info, _, err := tr.CreateVolume(context.Background(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	return tr, info.ID
}

// checkTree runs fsck: it must find nothing.
func checkTree(t *testing.T, tr *tree.Tree) {
	t.Helper()
	err := tr.Check(context.Background(), tree.CheckOptions{Content: true}, func(p tree.Problem) { t.Errorf("fsck: %v", p) })
	if err != nil {
		t.Fatal(err)
	}
}
