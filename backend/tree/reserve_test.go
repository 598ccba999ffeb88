package tree_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
)

// TestReserve: where nothing is left for users, what makes the store grow is
// refused, and all that makes room, or takes none, works.
func TestReserve(t *testing.T) {
	var free atomic.Uint64
	free.Store(1 << 30)
	s := mem.New(mem.Options{})
	tr, err := tree.Open(t.Context(), tree.Options{Store: s, Content: mem.Content{},
		FreeBytes: func() (uint64, uint64) { return free.Load(), 1 << 31 }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	info, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindWorkspace}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	ino := map[string]backend.Ino{}
	create := func(tx *tree.Txn, name string, typ backend.FileType) error {
		a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: typ, Mode: 0o755, Target: "t"})
		ino[name] = a.Node.Ino()
		return err
	}
	if err := tr.With(info.ID, func(tx *tree.Txn) error {
		return errors.Join(create(tx, "f", backend.TypeRegular), create(tx, "g", backend.TypeRegular), create(tx, "d", backend.TypeDir),
			second(tx.Write(ino["f"], page(1), 0)), tx.SetXattr(ino["f"], "user.a", []byte("1"), false, false))
	}); err != nil {
		t.Fatal(err)
	}
	root, size, mode := backend.RootIno, uint64(10), uint32(0o600)
	type op struct {
		name string
		do   func(*tree.Txn) error
	}
	grow := []op{
		{"create", func(tx *tree.Txn) error { return create(tx, "new", backend.TypeRegular) }},
		{"mkdir", func(tx *tree.Txn) error { return create(tx, "new", backend.TypeDir) }},
		{"symlink", func(tx *tree.Txn) error { return create(tx, "new", backend.TypeSymlink) }},
		{"tmpfile", func(tx *tree.Txn) error {
			return second(tx.CreateOrphan(backend.RootIno, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600}, true))
		}},
		{"link", func(tx *tree.Txn) error { return second(tx.Link(ino["f"], root, "l")) }},
		{"write", func(tx *tree.Txn) error { return second(tx.Write(ino["f"], page(2), 0)) }},
		{"append", func(tx *tree.Txn) error { return second(tx.Append(ino["f"], page(2))) }},
		{"copy", func(tx *tree.Txn) error { return second(tx.CopyRange(ino["f"], 0, ino["g"], 0, 4096)) }},
		{"setxattr", func(tx *tree.Txn) error { return tx.SetXattr(ino["f"], "user.b", []byte("1"), false, false) }},
		{"fallocate", func(tx *tree.Txn) error { return tx.Fallocate(ino["f"], 0, 1<<20, 0) }},
	}
	free.Store(0)
	time.Sleep(20 * time.Millisecond)
	for _, o := range grow {
		if err := tr.With(info.ID, o.do); backend.KindOf(err) != backend.NoSpace {
			t.Errorf("%s in a full store: %v, want NoSpace", o.name, err)
		}
	}
	for _, o := range []op{
		{"statfs", func(tx *tree.Txn) error {
			if st := tx.Stat(); st.FreeBytes != 0 {
				return errors.New("has free bytes")
			}
			return nil
		}},
		{"read", func(tx *tree.Txn) error { return second(tx.Read(ino["f"], make([]byte, 10), 0)) }},
		{"chmod", func(tx *tree.Txn) error { return second(tx.Setattr(ino["f"], backend.SetAttr{Mode: &mode})) }},
		{"rename", func(tx *tree.Txn) error { return tx.Rename(root, "f", root, "h", 0) }},
		{"punch", func(tx *tree.Txn) error {
			return tx.Fallocate(ino["f"], 0, 100, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		}},
		{"truncate", func(tx *tree.Txn) error { return second(tx.Setattr(ino["f"], backend.SetAttr{Size: &size})) }},
		{"removexattr", func(tx *tree.Txn) error { return tx.RemoveXattr(ino["f"], "user.a") }},
		{"unlink", func(tx *tree.Txn) error { return tx.Unlink(root, "h") }},
		{"rmdir", func(tx *tree.Txn) error { return tx.Rmdir(root, "d") }},
	} {
		if err := tr.With(info.ID, o.do); err != nil {
			t.Errorf("%s in a full store: %v", o.name, err)
		}
	}
	checkRoom(t, tr, &free, info.ID, ino["g"])
	checkTree(t, tr)
}

// checkRoom writes a page where less is left, and where there is room again.
func checkRoom(t *testing.T, tr *tree.Tree, free *atomic.Uint64, vol backend.VolumeID, file backend.Ino) {
	t.Helper()
	free.Store(100)
	time.Sleep(20 * time.Millisecond)
	err := tr.With(vol, func(tx *tree.Txn) error { return second(tx.Write(file, page(2), 0)) })
	if backend.KindOf(err) != backend.NoSpace {
		t.Errorf("a write of more than is left: %v, want NoSpace", err)
	}
	allocate := func(n uint64) error {
		return tr.With(vol, func(tx *tree.Txn) error { return tx.Fallocate(file, 0, n, unix.FALLOC_FL_KEEP_SIZE) })
	}
	if err := allocate(1 << 40); backend.KindOf(err) != backend.NoSpace {
		t.Errorf("allocating more than is left: %v, want NoSpace", err)
	}
	if err := allocate(100); err != nil {
		t.Errorf("allocating what is left: %v", err)
	}
	free.Store(1 << 30)
	time.Sleep(20 * time.Millisecond)
	if err := tr.With(vol, func(tx *tree.Txn) error { return second(tx.Write(file, page(2), 0)) }); err != nil {
		t.Errorf("a write when there is room again: %v", err)
	}
}

// TestRoomThatIsComing: a write that finds no room waits while room is being
// made, and no longer than that.
func TestRoomThatIsComing(t *testing.T) {
	var free, coming atomic.Uint64
	free.Store(1 << 30)
	s := mem.New(mem.Options{})
	tr, err := tree.Open(t.Context(), tree.Options{Store: s, Content: mem.Content{}, ComingBytes: coming.Load,
		FreeBytes: func() (uint64, uint64) { return free.Load(), 1 << 31 }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	info, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindWorkspace}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		return tr.With(info.ID, func(tx *tree.Txn) error {
			return second(tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644}))
		})
	}
	free.Store(0)
	coming.Store(64 << 20)
	time.Sleep(20 * time.Millisecond)
	var made atomic.Bool
	time.AfterFunc(200*time.Millisecond, func() { made.Store(true); coming.Store(0); free.Store(8 << 20) })
	if err := create("waited"); err != nil || !made.Load() {
		t.Errorf("while room is being made: %v, made: %v", err, made.Load())
	}
	free.Store(0)
	coming.Store(0)
	time.Sleep(20 * time.Millisecond)
	if err := create("not"); backend.KindOf(err) != backend.NoSpace {
		t.Errorf("with nothing coming: %v, want NoSpace", err)
	}
	if err := tr.With(info.ID, func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "waited") }); err != nil {
		t.Errorf("unlink: %v", err)
	}
}
