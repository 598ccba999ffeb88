package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestRepairOfAStoreThatDoesNotOpen: over the real drivers. A store whose tree
// cannot be opened any more is mended by fsck --repair, and what was in it is
// there.
func TestRepairOfAStoreThatDoesNotOpen(t *testing.T) {
	for _, content := range contents {
		t.Run(content, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
			none := func(uint64) {}
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
