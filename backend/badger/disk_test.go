package badger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// dirtyPages is the number of pages of a file that are not on the disk.
func dirtyPages(t *testing.T, name string) uint64 {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &stat, 0); err != nil {
		t.Skipf("cachestat(2): %v", err)
	}
	return stat.Dirty + stat.Writeback
}

// TestUpdatesAreOnTheDisk asks the kernel, after each Update, whether Badger's
// logs have anything that a power cut would take.
func TestUpdatesAreOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	probe := filepath.Join(dir, "probe")
	f, err := os.Create(probe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 { // the filesystem must be one that tells
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if dirtyPages(t, probe) == 0 {
			t.Skip("written pages do not show as dirty here")
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if dirtyPages(t, probe) != 0 {
			t.Skip("synced pages show as dirty here")
		}
	}
	s := open(t, filepath.Join(dir, "store"))
	defer closeStore(t, s)
	for i := range 60 { // over more than one log
		set(t, s, fmt.Sprint(i), "v")
		if _, err := s.Update(ctx, func(tx backend.Tx) error {
			for k := range 8 {
				if err := tx.Set(fmt.Append(nil, "big", k), make([]byte, 60<<10)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(dir, "store", "*.mem"))
		if err != nil || len(logs) < 2 {
			t.Fatal(logs, err)
		}
		for _, name := range logs[len(logs)-2:] {
			if n := dirtyPages(t, name); n != 0 {
				t.Fatalf("after Update %d, %d pages of %s are not on the disk", i, n, filepath.Base(name))
			}
		}
	}
}
