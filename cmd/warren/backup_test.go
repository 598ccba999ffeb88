package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/control"
)

// countdown is a context that ends when it was asked so often.
type countdown struct {
	context.Context
	left atomic.Int64
}

// Err tells whether it ended.
func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return c.Context.Err()
}

// TestInterruptedRestoreLeavesNothing: wherever it is interrupted, the directory
// is empty afterwards, and the same restore works in it.
func TestInterruptedRestoreLeavesNothing(t *testing.T) {
	dir, log := t.TempDir(), offlineLog(io.Discard)
	s, err := openStore(t.Context(), filepath.Join(dir, "store"), newStore{Make: true}, log)
	if err != nil {
		t.Fatal(err)
	}
	err = s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
		a, err := tx.Create(backend.RootIno, "f", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
		for n := uint64(0); n < 8 && err == nil; n++ {
			_, err = tx.Write(a.Node.Ino(), bytes.Repeat([]byte{byte(n), 1}, 400_000), n*900_000)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "b.wbk")
	err = writeWhole(file, 0o600, func(w io.Writer) error { return s.backup(t.Context(), w, nil) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	a := &app{stdout: io.Discard, stderr: io.Discard}
	to, interrupted, stages := filepath.Join(dir, "new"), 0, map[bool]int{}
	for n := int64(1); ; n += 1 + n/4 {
		ctx := &countdown{Context: t.Context()}
		ctx.left.Store(n)
		_, err := a.restoreStore(ctx, to, []string{file}, false)
		if err == nil {
			break
		}
		if code := exitCode(err); code != exitInterrupted {
			t.Fatalf("after %d: exit code %d, %v", n, code, err)
		}
		left, err := os.ReadDir(to)
		if len(left) > 0 {
			t.Errorf("after %d: %v is left", n, left)
		}
		stages[err == nil]++ // true: it had begun to write
		if interrupted++; interrupted > 200 {
			t.Fatal("it never ends")
		}
	}
	if stages[true] == 0 || stages[false] == 0 {
		t.Errorf("interrupted %d times while it read and %d while it wrote", stages[false], stages[true])
	}
	r, err := checkOffline(t.Context(), to, false, false, func(uint64, uint64) {}, io.Discard)
	if err != nil || !r.Clean {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := a.restoreStore(t.Context(), to, []string{file}, false); control.KindOf(err) != control.KindConflict {
		t.Errorf("into a store: %v", err)
	}
}
