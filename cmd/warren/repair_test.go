package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestRepairFindsTheBytesOfADamagedExtent: whatever keeps them.
func TestRepairFindsTheBytesOfADamagedExtent(t *testing.T) {
	for _, content := range contents {
		t.Run(content, func(t *testing.T) {
			ctx, cancel := waits.Context(t.Context(), time.Minute)
			defer cancel()
			dir, log := t.TempDir(), offlineLog(io.Discard)
			s, err := openStore(ctx, dir, newStore{Make: true, Content: content}, log)
			if err != nil {
				t.Fatal(err)
			}
			text := bytes.Repeat([]byte("bytes of a file "), 1000)
			err = s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
				for _, name := range []string{"one", "two"} {
					a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
					if err != nil {
						return err
					}
					if _, err := tx.Write(a.Node.Ino(), append(text, name...), 0); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil {
				_, err = s.kv.Update(ctx, func(kv backend.Tx) error {
					var key []byte
					if err := kv.ScanKeys([]byte("e"), []byte("f"), func(k []byte) error {
						key = append([]byte(nil), k...)
						return backend.ErrStop
					}); err != nil {
						return err
					}
					return kv.Set(key, []byte("damaged"))
				})
			}
			if err = errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
			r, err := checkOffline(ctx, dir, true, false, func(uint64, uint64) {}, io.Discard)
			if err != nil || !r.Clean {
				t.Fatalf("%+v, %v", r, err)
			}
			if s, err = openStore(ctx, dir, newStore{}, log); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := lostBytes(t, s); got != string(text)+"one" {
				t.Errorf("lost+found has %d bytes, %.40q; want %d", len(got), got, len(text)+3)
			}
		})
	}
}

// lostBytes reads the only file in the root volume's lost+found.
func lostBytes(t *testing.T, s *store) string {
	t.Helper()
	buf, n := make([]byte, 1<<20), 0
	err := s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
		dir, _, err := tx.Lookup(backend.RootIno, "lost+found")
		if err != nil {
			return err
		}
		list, err := tx.List(dir.Ino())
		if err != nil || len(list) != 1 {
			return fmt.Errorf("%v, %w", list, err)
		}
		n, err = tx.Read(list[0].Node.Ino(), buf, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestRepairOfAStoreThatDoesNotOpen: over the real drivers. A store whose tree
// cannot be opened any more is mended by fsck --repair, and what was in it is
// there.
func TestRepairOfAStoreThatDoesNotOpen(t *testing.T) {
	for _, content := range contents {
		t.Run(content, func(t *testing.T) {
			ctx, cancel := waits.Context(t.Context(), time.Minute)
			defer cancel()
			dir, log := t.TempDir(), offlineLog(io.Discard)
			s, err := openStore(ctx, dir, newStore{Make: true, Content: content}, log)
			if err != nil {
				t.Fatal(err)
			}
			space, _, err := openSpace(ctx, s, log, func(*view.Space) {})
			if err != nil {
				t.Fatal(err)
			}
			v, err := space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.List(nil, v.Root()); err != nil {
				t.Fatal(err)
			}
			// The counters of every volume: without them a tree does not open.
			_, err = s.kv.Update(ctx, func(kv backend.Tx) error {
				var keys [][]byte
				if err := kv.ScanKeys([]byte("u"), []byte("v"), func(k []byte) error {
					keys = append(keys, append([]byte(nil), k...))
					return nil
				}); err != nil {
					return err
				}
				for _, k := range keys {
					if err := kv.Delete(k); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err := openStore(ctx, dir, newStore{}, log); err == nil {
				_ = s.Close()
				t.Fatal("it opens")
			}
			none := func(uint64, uint64) {}
			r, err := checkOffline(ctx, dir, false, false, none, io.Discard)
			if err != nil || r.Clean {
				t.Fatalf("a dry run: %+v, %v", r, err)
			}
			r, err = checkOffline(ctx, dir, true, false, none, io.Discard)
			if err != nil || !r.Clean || len(r.Repaired) == 0 {
				t.Fatalf("repair: %+v, %v", r, err)
			}
			if s, err = openStore(ctx, dir, newStore{}, log); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
