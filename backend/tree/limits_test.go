package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

func (f *file) limit(l tree.Limits) {
	f.t.Helper()
	f.do(func(tx *tree.Txn) error { return tx.SetLimits(l) })
}

func (f *file) stat() (st tree.VolumeStat) {
	f.do(func(tx *tree.Txn) error { st = tx.Stat(); return nil })
	return st
}

// try runs fn and wants its error to be of kind k, Other for none.
func (f *file) try(what string, k backend.Kind, fn func(*tree.Txn) error) {
	f.t.Helper()
	err := f.tr.With(f.vol, fn)
	if k == backend.Other && err != nil || k != backend.Other && !errors.Is(err, k) {
		f.t.Errorf("%s: %v, want %v", what, err, k)
	}
}

// TestQuotaExactly: the last byte and the last inode fit, the next do not.
func TestQuotaExactly(t *testing.T) {
	f := newFile(t)
	const limit = 1 << 20
	f.limit(tree.Limits{Bytes: limit, Inodes: 5, SoftBytes: 10})
	put := func(n int, off uint64) (did int) {
		f.try(fmt.Sprintf("write %d at %d", n, off), backend.Other, func(tx *tree.Txn) error {
			r, err := tx.Write(f.ino, make([]byte, n), off)
			did = r.N
			return err
		})
		return did
	}
	var at uint64
	for at < limit-1000 {
		at += uint64(put(60_000, at))
	}
	if st := f.stat(); at != limit || st.UsedBytes != limit || st.FreeBytes != 0 || st.Bytes != limit {
		t.Errorf("filled with %d: %+v", at, st)
	}
	more := func(kind backend.Kind) {
		t.Helper()
		f.try("one byte more", kind, func(tx *tree.Txn) error { _, err := tx.Append(f.ino, []byte("x")); return err })
	}
	more(backend.Quota)
	if n := put(5000, 77); n != 5000 {
		t.Errorf("overwriting wrote %d", n)
	}
	f.truncate(limit - 1)
	more(backend.Other)
	more(backend.Quota)
	// A hole is nothing, and a punched one gives back.
	f.truncate(1 << 40)
	f.try("write into the hole", backend.Quota, func(tx *tree.Txn) error { _, err := tx.Write(f.ino, []byte("x"), 1<<30); return err })
	f.try("punch", backend.Other, func(tx *tree.Txn) error { return tx.Fallocate(f.ino, 0, 4096, 3) })
	if n := put(4096, 1<<30); n != 4096 {
		t.Errorf("after a punch: wrote %d", n)
	}
	f.try("allocate what it has and more", backend.Quota, func(tx *tree.Txn) error { return tx.Fallocate(f.ino, 0, limit+1, 0) })
	f.try("allocate what it has", backend.Other, func(tx *tree.Txn) error { return tx.Fallocate(f.ino, 0, limit, 0) })
	// Inodes: the root, f and three more.
	for i := range 4 {
		kind := backend.Other
		if i == 3 {
			kind = backend.Quota
		}
		f.try("create", kind, func(tx *tree.Txn) error {
			_, err := tx.Create(backend.RootIno, fmt.Sprint(i), tree.CreateSpec{Type: backend.TypeDir, Mode: 0o755})
			return err
		})
	}
	f.try("a nameless one", backend.Quota, func(tx *tree.Txn) error {
		_, err := tx.CreateOrphan(backend.RootIno, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600}, false)
		return err
	})
	f.try("link", backend.Other, func(tx *tree.Txn) error { _, err := tx.Link(f.ino, backend.RootIno, "l"); return err })
	f.try("rename", backend.Other, func(tx *tree.Txn) error { return tx.Rename(backend.RootIno, "l", backend.RootIno, "m", 0) })
	// Below what is used: nothing more, but less is always possible.
	f.limit(tree.Limits{Bytes: 10, Inodes: 1})
	more(backend.Quota)
	f.truncate(5000)
	f.try("rmdir", backend.Other, func(tx *tree.Txn) error { return tx.Rmdir(backend.RootIno, "0") })
	if st := f.stat(); st.FreeBytes != 0 || st.FreeInodes != 0 || st.Bytes != 10 || st.Inodes != 1 {
		t.Errorf("over the limit: %+v", st)
	}
	f.limit(tree.Limits{})
	more(backend.Other)
}

// TestQuotaOfSharedExtents: what a copy shares counts in it as well.
func TestQuotaOfSharedExtents(t *testing.T) {
	f := newFile(t)
	f.write(bytes.Repeat([]byte("x"), 60_000), 0)
	f.limit(tree.Limits{Bytes: 100_000})
	f.try("copy", backend.Other, func(tx *tree.Txn) error {
		n, err := tx.CopyRange(f.ino, 0, f.ino, 60_000, 60_000)
		if n != 40_000 {
			t.Errorf("copied %d", n)
		}
		return err
	})
	f.try("copy more", backend.Quota, func(tx *tree.Txn) error { _, err := tx.CopyRange(f.ino, 0, f.ino, 200_000, 1); return err })
	if st := f.stat(); st.UsedBytes != 100_000 {
		t.Errorf("%+v", st)
	}
}

// TestQuotaGivesBackAtOnce: what was deleted, truncated or punched can be written
// again at once, whatever the reclaimer has come to.
func TestQuotaGivesBackAtOnce(t *testing.T) {
	f := newFile(t)
	const limit = 4 << 20
	f.limit(tree.Limits{Bytes: limit, Inodes: 3})
	for round := range 30 {
		f.do(func(tx *tree.Txn) error {
			a, err := tx.Create(backend.RootIno, "g", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644})
			if err != nil {
				return err
			}
			g := a.Node.Ino()
			for off := uint64(0); off < limit; off += 4096 { // many extents
				if _, err := tx.Write(g, bytes.Repeat([]byte{byte(round)}, 4096), off*2); err != nil {
					return fmt.Errorf("round %d, at %d: %w", round, off, err)
				}
			}
			if round%2 == 0 {
				size := uint64(5000)
				if _, err := tx.Setattr(g, backend.SetAttr{Size: &size}); err != nil {
					return err
				}
				if _, err := tx.Write(f.ino, make([]byte, 60_000), 0); err != nil {
					return fmt.Errorf("round %d, after a truncation: %w", round, err)
				}
			}
			if err := tx.Unlink(backend.RootIno, "g"); err != nil {
				return err
			}
			size := uint64(0)
			_, err = tx.Setattr(f.ino, backend.SetAttr{Size: &size})
			return err
		})
	}
}

// TestQuotaUnderRace: many writers never get past it together, and what they
// leave is what is counted.
func TestQuotaUnderRace(t *testing.T) {
	f := newFile(t)
	const limit, inodes = 2 << 20, 60
	f.limit(tree.Limits{Bytes: limit, Inodes: inodes})
	make1 := func(tx *tree.Txn, name string) (backend.NodeID, error) {
		a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644})
		return a.Node, err
	}
	for w := range 8 { // each has one file at least to fill
		f.do(func(tx *tree.Txn) error { _, err := make1(tx, fmt.Sprintf("%d-0", w)); return err })
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			refused := 0
			for i := 0; refused < 20; i++ {
				err := f.tr.With(f.vol, func(tx *tree.Txn) error {
					name := fmt.Sprintf("%d-%d", w, i%20)
					n, _, err := tx.Lookup(backend.RootIno, name)
					if err != nil {
						if n, err = make1(tx, name); errors.Is(err, backend.Quota) {
							return nil // of inodes
						} else if err != nil {
							return err
						}
					}
					_, err = tx.Append(n.Ino(), make([]byte, 1000+i*37%9000))
					if st := tx.Stat(); st.UsedBytes > limit || st.UsedInodes > inodes {
						t.Errorf("over: %+v", st)
					}
					return err
				})
				if errors.Is(err, backend.Quota) {
					refused++
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	var sum uint64
	f.do(func(tx *tree.Txn) error {
		list, err := tx.List(backend.RootIno)
		for _, e := range list {
			a, err := tx.Attr(e.Node.Ino())
			if err != nil {
				return err
			}
			sum += a.Size
		}
		if got := len(list) + 1; got != inodes {
			t.Errorf("%d inodes", got)
		}
		return err
	})
	if st := f.stat(); sum != limit || st.UsedBytes != limit || st.UsedInodes != inodes {
		t.Errorf("files hold %d: %+v", sum, st)
	}
}

// TestFormatRule20: limits outlive a restart and go with their volume; a damaged
// record is a problem that repair mends.
func TestFormatRule20(t *testing.T) {
	for _, d := range drivers()[:2] {
		t.Run(d.name, func(t *testing.T) {
			ctx, d := context.Background(), d.open(t)
			open := func() *tree.Tree {
				tr, err := tree.Open(ctx, tree.Options{Store: d.store, Content: d.content})
				must(t, err)
				return tr
			}
			tr := open()
			info, _, err := tr.CreateVolume(ctx, tree.VolumeSpec{Label: tree.Label{Kind: tree.KindProject, Owner: "p"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
			must(t, err)
			want := tree.Limits{Bytes: 7, SoftBytes: 6, Inodes: 5, SoftInodes: 4}
			must(t, tr.With(info.ID, func(tx *tree.Txn) error { return tx.SetLimits(want) }))
			if err := tr.With(info.ID, func(tx *tree.Txn) error { return tx.SetLimits(tree.Limits{Bytes: 1, SoftBytes: 2}) }); !errors.Is(err, backend.Invalid) {
				t.Errorf("a soft limit over the hard one: %v", err)
			}
			must(t, tr.Close())
			d.reopen(t)
			tr = open()
			must(t, tr.With(info.ID, func(tx *tree.Txn) error {
				if st := tx.Stat(); st.Limits != want {
					t.Errorf("after a restart: %+v", st.Limits)
				}
				return nil
			}))
			must(t, tr.Close())
			key := []byte{'q', byte(info.ID >> 24), byte(info.ID >> 16), byte(info.ID >> 8), byte(info.ID)}
			_, err = d.store.Update(ctx, func(kv backend.Tx) error { return kv.Set(key, []byte("x")) })
			must(t, err)
			if _, err := tree.Open(ctx, tree.Options{Store: d.store, Content: d.content}); !errors.Is(err, backend.IO) {
				t.Errorf("a damaged quota: %v", err)
			}
			found := 0
			must(t, tree.Check(ctx, d.store, d.content, tree.CheckOptions{}, func(tree.Problem) { found++ }))
			must(t, tree.Repair(ctx, d.store, d.content, tree.CheckOptions{}, func(tree.Problem) {}))
			tr = open()
			checkTree(t, tr)
			must(t, tr.With(info.ID, func(tx *tree.Txn) error { return tx.SetLimits(want) }))
			if _, err := tr.RemoveVolume(ctx, info.ID); err != nil || found == 0 {
				t.Errorf("found %d; %v", found, err)
			}
			must(t, tr.Close())
		})
	}
}

// TestQuotaBoundsAttributes: what counts no bytes is bounded for each inode.
func TestQuotaBoundsAttributes(t *testing.T) {
	f := newFile(t)
	set := func(name string, n int, kind backend.Kind) {
		t.Helper()
		f.try(fmt.Sprintf("%s of %d bytes", name, n), kind, func(tx *tree.Txn) error {
			return tx.SetXattr(f.ino, name, make([]byte, n), false, false)
		})
	}
	for _, name := range []string{"user.a", "user.b", "user.c"} { // no quota, no bound
		set(name, 40<<10, backend.Other)
	}
	f.limit(tree.Limits{Inodes: 100})
	set("user.d", 1, backend.Quota)
	set("user.a", 40<<10+1, backend.Quota)
	for _, name := range []string{"user.a", "user.b", "user.c"} { // less is always possible
		set(name, 1000, backend.Other)
	}
	set("user.d", 60<<10, backend.Other)
	set("user.e", 2000, backend.Quota)
}
