package main

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestAStoreRenamedBeneath: what grows fails and names where the directory went, not
// as on a full disk; status and the end of the daemon name it, and renaming it back
// mends it.
func TestAStoreRenamedBeneath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := openStore(t.Context(), dir, newStore{Make: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.failure(); err != nil {
		t.Errorf("a store that is well: %v", err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		return s.tree.With(s.tree.Root().Volume(), func(tx *tree.Txn) error {
			_, err := tx.Create(backend.RootIno, "f"+strconv.Itoa(rand.Int()), tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
			return err
		})
	}
	waits.For(t, "a change names the rename", func() bool {
		err := write()
		return err != nil && backend.KindOf(err) == backend.IO && strings.Contains(err.Error(), "renamed to "+dir+".away")
	})
	for what, err := range map[string]error{"status": s.failure(), "closing": closeWithin(s, time.Minute)} {
		if err == nil || !strings.Contains(err.Error(), "renamed to "+dir+".away") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	waits.For(t, "changes work again", func() bool { return write() == nil })
	if err := closeWithin(s, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestAStoreThatDoesNotCloseDoesNotHoldTheDaemon: on a disk that fails closing
// may take for ever, and a daemon that was told to end must.
func TestAStoreThatDoesNotCloseDoesNotHoldTheDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	log := slog.New(slog.DiscardHandler)
	s, err := openStore(t.Context(), dir, newStore{Make: true}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeWithin(s, time.Nanosecond); err == nil || !strings.Contains(err.Error(), dir+" does not close") {
		t.Errorf("%v", err)
	}
	// This one does close, behind it.
	for end := waits.In(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if s, err = openStore(t.Context(), dir, newStore{}, log); err == nil {
			break
		}
		if end.Passed() {
			t.Fatal(err)
		}
	}
	if err := closeWithin(s, time.Minute); err != nil {
		t.Error(err)
	}
}
