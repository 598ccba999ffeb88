package tree_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
)

// dump writes down everything a reader can see of a volume.
func dump(t *testing.T, tr *tree.Tree, vol backend.VolumeID) string {
	t.Helper()
	var b strings.Builder
	err := tr.With(vol, func(tx *tree.Txn) error {
		fmt.Fprintf(&b, "%+v\n", tx.Stat())
		return dumpNode(&b, tx, "", backend.RootIno)
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func dumpNode(b *strings.Builder, tx *tree.Txn, path string, ino backend.Ino) error {
	a, err := tx.Attr(ino)
	if err != nil {
		return err
	}
	p, err := tx.Provenance(ino)
	if err != nil {
		return err
	}
	x, err := tx.ListXattr(ino)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "%s %+v %+v %v\n", path, a, p, x)
	if a.Type != backend.TypeDir {
		return nil
	}
	list, err := tx.List(ino)
	for _, e := range list {
		if err == nil {
			err = dumpNode(b, tx, path+"/"+e.Name, e.Node.Ino())
		}
	}
	return err
}

// TestFailedUpdateChangesNothing fails the store under every operation that
// changes something: neither the caches nor the store may show a trace of it.
func TestFailedUpdateChangesNothing(t *testing.T) {
	s := mem.New(mem.Options{})
	tr, err := tree.Open(t.Context(), tree.Options{Store: s, Content: mem.Content{}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	info, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindWorkspace}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	ino := map[string]backend.Ino{"": backend.RootIno}
	make := func(tx *tree.Txn, dir, name string, typ backend.FileType) error {
		a, err := tx.Create(ino[dir], name, tree.CreateSpec{Type: typ, Mode: 0o644})
		ino[name] = a.Node.Ino()
		return err
	}
	err = tr.With(info.ID, func(tx *tree.Txn) error {
		return errors.Join(make(tx, "", "d", backend.TypeDir), make(tx, "", "e", backend.TypeDir), make(tx, "d", "f", backend.TypeRegular),
			make(tx, "d", "g", backend.TypeRegular), second(tx.Write(ino["f"], page(1), 0)), second(tx.Link(ino["g"], ino["d"], "h")))
	})
	if err != nil {
		t.Fatal(err)
	}
	size, mode := uint64(10), uint32(0o600)
	ops := map[string]func(*tree.Txn) error{
		"create": func(tx *tree.Txn) error { return make(tx, "d", "new", backend.TypeRegular) },
		"mkdir":  func(tx *tree.Txn) error { return make(tx, "d", "new", backend.TypeDir) },
		"tmpfile": func(tx *tree.Txn) error {
			return second(tx.CreateOrphan(backend.RootIno, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600}, true))
		},
		"link":     func(tx *tree.Txn) error { return second(tx.Link(ino["f"], ino["e"], "l")) },
		"unlink":   func(tx *tree.Txn) error { return tx.Unlink(ino["d"], "f") },
		"unlink2":  func(tx *tree.Txn) error { return tx.Unlink(ino["d"], "g") },
		"rmdir":    func(tx *tree.Txn) error { return tx.Rmdir(backend.RootIno, "e") },
		"rename":   func(tx *tree.Txn) error { return tx.Rename(ino["d"], "f", ino["e"], "f", 0) },
		"replace":  func(tx *tree.Txn) error { return tx.Rename(ino["d"], "f", ino["d"], "g", 0) },
		"whiteout": func(tx *tree.Txn) error { return tx.Rename(ino["d"], "f", ino["d"], "g", tree.Whiteout) },
		"exchange": func(tx *tree.Txn) error { return tx.Rename(ino["d"], "f", backend.RootIno, "e", tree.Exchange) },
		"write":    func(tx *tree.Txn) error { return second(tx.Write(ino["f"], page(2), 100)) },
		"append":   func(tx *tree.Txn) error { return second(tx.Append(ino["f"], page(2))) },
		"truncate": func(tx *tree.Txn) error { return second(tx.Setattr(ino["f"], backend.SetAttr{Size: &size})) },
		"amend":    func(tx *tree.Txn) error { return second(tx.Amend(ino["f"], page(2)[:50], 10)) },
		"chmod":    func(tx *tree.Txn) error { return second(tx.Setattr(ino["f"], backend.SetAttr{Mode: &mode})) },
		"punch": func(tx *tree.Txn) error {
			return tx.Fallocate(ino["f"], 0, 100, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		},
		"copy":     func(tx *tree.Txn) error { return second(tx.CopyRange(ino["f"], 0, ino["g"], 0, 4096)) },
		"setxattr": func(tx *tree.Txn) error { return tx.SetXattr(ino["f"], "user.a", nil, false, false) },
		"denied":   func(tx *tree.Txn) error { return tx.MarkDenied(ino["f"]) },
	}
	before := dump(t, tr, info.ID)
	for name, op := range ops {
		for _, at := range []mem.Point{mem.BeforeUpdate, mem.BeforeCommit} {
			s.SetHook(mem.FailAt(at, 0, 1, backend.NoSpace))
			err := tr.With(info.ID, op)
			s.SetHook(nil)
			if !errors.Is(err, backend.NoSpace) {
				t.Errorf("%s: %v, want no space", name, err)
			}
			if after := dump(t, tr, info.ID); after != before {
				t.Fatalf("%s: something changed:\n%s\nwas:\n%s", name, after, before)
			}
		}
	}
	checkTree(t, tr)
	fresh, err := tree.Open(context.Background(), tree.Options{Store: s, Content: mem.Content{}})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	if after := dump(t, fresh, info.ID); after != before {
		t.Errorf("the store changed:\n%s\nwas:\n%s", after, before)
	}
}

func second[T any](_ T, err error) error { return err }
