package tree_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestNamelessFileStaysUntilDropped: a file without a name is its maker's, mount
// or not: the reclaimer leaves it alone, also when it has work in it, until
// Dropped.
func TestNamelessFileStaysUntilDropped(t *testing.T) {
	tr, id := openMemTree(t)
	var made backend.Attr
	must(t, tr.With(id, func(tx *tree.Txn) (err error) {
		made, err = tx.CreateOrphan(backend.RootIno, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600}, true)
		return err
	}))
	size, text := uint64(1), bytes.Repeat([]byte("x"), 1<<16)
	for range 50 { // each cut is work for the reclaimer
		err := tr.With(id, func(tx *tree.Txn) error {
			if _, err := tx.Write(made.Node.Ino(), text, 0); err != nil {
				return err
			}
			_, err := tx.Setattr(made.Node.Ino(), backend.SetAttr{Size: &size})
			return err
		})
		if err != nil {
			t.Fatalf("the file is gone under its maker: %v", err)
		}
		time.Sleep(time.Millisecond)
	}
	tr.Dropped(made.Node)
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		err := tr.With(id, func(tx *tree.Txn) error {
			_, err := tx.Attr(made.Node.Ino())
			return err
		})
		if errors.Is(err, backend.Stale) || errors.Is(err, backend.NotFound) {
			return
		}
		if err != nil || end.Passed() {
			t.Fatalf("a dropped file stays: %v", err)
		}
	}
}
