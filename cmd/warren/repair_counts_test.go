package main

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// spoil changes the first key of the segments' counts (sub 1) or of their marks
// (sub 2); nil removes it.
func spoil(sub byte, change func(key, value []byte) ([]byte, []byte)) func(backend.Tx) error {
	return func(kv backend.Tx) error {
		var key, value []byte
		err := kv.Scan([]byte{'s', sub}, []byte{'s', sub + 1}, func(k, v []byte) error {
			key, value = bytes.Clone(k), bytes.Clone(v)
			return backend.ErrStop
		})
		if err != nil || key == nil {
			return errors.Join(err, errors.New("no such key"))
		}
		at, text := change(key, value)
		if text == nil {
			return kv.Delete(at)
		}
		return kv.Set(at, text)
	}
}

// TestRepairOfSegmentCounts: whatever is wrong with them, no file loses a byte by
// the repair, and nothing is left to be mended.
func TestRepairOfSegmentCounts(t *testing.T) {
	mark := func(kv backend.Tx, segment, at []byte) error {
		return kv.Set(append(append([]byte{'s', 2}, segment...), at...), []byte{0xa0, 0x9c, 0x01}) // 20,000
	}
	for name, damage := range map[string]func(backend.Tx) error{
		"wrong":   spoil(1, func(k, _ []byte) ([]byte, []byte) { return k, []byte{1, 0x80, 0x01, 3, 0x80, 0x80, 0x80, 0x01, 0} }),
		"nothing": spoil(1, func(k, _ []byte) ([]byte, []byte) { return k, []byte{1, 0, 0, 0, 0} }),
		"garbage": spoil(1, func(k, _ []byte) ([]byte, []byte) { return k, []byte("garbage") }),
		"missing": spoil(1, func(k, _ []byte) ([]byte, []byte) { return k, nil }),
		"a key that is none": spoil(1, func(k, v []byte) ([]byte, []byte) {
			return k[:4:4], v
		}),
		"a mark on what is named": func(kv backend.Tx) error {
			return mark(kv, []byte{7: 1}, []byte{0, 0, 0, 0, 0, 0, 0x10, 0}) // the first record is at 4096
		},
		"a mark that is none": func(kv backend.Tx) error { return kv.Set([]byte{'s', 2, 1, 2}, []byte("garbage")) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := waits.Context(t.Context(), time.Minute)
			defer cancel()
			dir, text := t.TempDir(), bytes.Repeat([]byte("bytes of a file "), 1250)
			fillStore(t, dir, text)
			s, err := openBroken(ctx, dir, false, offlineLog(io.Discard))
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.kv.Update(ctx, damage)
			if err = errors.Join(err, s.kv.Close(), s.lock.Close()); err != nil {
				t.Fatal(err)
			}
			if r, err := checkOffline(ctx, dir, false, false, func(uint64, uint64) {}, io.Discard); err != nil || r.Clean {
				t.Fatalf("before: %+v, %v", r, err)
			}
			r, err := checkOffline(ctx, dir, true, false, func(uint64, uint64) {}, io.Discard)
			if err != nil || !r.Clean || len(r.Repaired) == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			if r, err := checkOffline(ctx, dir, true, false, func(uint64, uint64) {}, io.Discard); err != nil || len(r.Repaired) > 0 {
				t.Errorf("again: %+v, %v", r, err)
			}
			holds(t, dir, text)
		})
	}
}

// fillStore makes a store with two files of text in its root.
func fillStore(t *testing.T, dir string, text []byte) {
	t.Helper()
	s, err := openStore(t.Context(), dir, newStore{Make: true}, offlineLog(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	err = s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
		for _, name := range []string{"one", "two"} {
			a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
			if err == nil {
				_, err = tx.Write(a.Node.Ino(), text, 0)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// holds checks a store that fillStore made, as a daemon opens it, twice.
func holds(t *testing.T, dir string, text []byte) {
	t.Helper()
	for range 2 {
		s, err := openStore(t.Context(), dir, newStore{}, offlineLog(io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, len(text)+1)
		err = s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
			for _, name := range []string{"one", "two"} {
				node, _, err := tx.Lookup(backend.RootIno, name)
				if err != nil {
					return err
				}
				if n, err := tx.Read(node.Ino(), buf, 0); err != nil || !bytes.Equal(buf[:n], text) {
					t.Errorf("%s: %d bytes, %v", name, n, err)
				}
			}
			return nil
		})
		if err = errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	}
}
