package badger_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestMergeOfDamaged: a block of a table goes bad while the store is open, and then
// the table is merged. Badger would carry what is wrong over into a new table, with a
// checksum that fits, or take the block for the table's end and lose what follows. The tables
// stay as they are, no key is lost, and the store says what is wrong.
func TestMergeOfDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a hundred megabytes")
	}
	r := rand.New(rand.NewPCG(rand.Uint64(), 3))
	dir := t.TempDir()
	s := openFull(t, dir)
	first := filepath.Join(dir, "000001.sst")
	damaged := false
	want, refused := fills(s, r, func() {
		if info, err := os.Stat(first); !damaged && err == nil && settled(info) {
			flip(t, first, info.Size()/3)
			damaged = true
		}
	})
	for end := waits.In(time.Minute); damaged && refused == nil && !end.Passed(); time.Sleep(20 * time.Millisecond) {
		_, refused = s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte("one more"), nil) })
	}
	if !damaged || backend.KindOf(refused) != backend.IO {
		t.Errorf("damaged: %v; Updates say %v, want an IO error", damaged, refused)
	}
	lost, unread := 0, 0
	if err := s.View(ctx, func(tx backend.Tx) error {
		for k, v := range want {
			switch got, err := tx.Get([]byte(k)); {
			case err == nil && string(got) == string(v):
			case backend.KindOf(err) == backend.IO:
				unread++
			default:
				lost++
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if lost > 0 {
		t.Errorf("%d of %d keys are lost", lost, len(want))
	}
	t.Logf("%d keys, of which %d cannot be read; Updates: %v", len(want), unread, refused)
	_ = s.Close()
	if again, err := badger.Open(ctx, badger.Options{Dir: cloneDir(t, dir), Ballast: testBallast, VerifyBytes: 1 << 30}); backend.KindOf(err) != backend.IO {
		t.Errorf("opened again: %v, want an IO error", err)
		if err == nil {
			_ = again.Close()
		}
	}
}

// settled tells whether a file was written some time ago.
func settled(info os.FileInfo) bool {
	return info.Size() > 1<<20 && time.Since(info.ModTime()) > 50*time.Millisecond
}

// flip changes a byte of a file.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}
