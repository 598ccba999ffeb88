package badger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
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

// TestSmallDisk fills a disk of its own: Updates stop in time, Views go on, and
// Close leaves Badger alone where shutting it down would end the process.
func TestSmallDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=200m,mode=700"); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	dir := filepath.Join(disk, "store")
	s := open(t, dir)
	set(t, s, "a", "1")
	fillTo := func(left int64) {
		t.Helper()
		var st unix.Statfs_t
		if err := unix.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(disk, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(make([]byte, max(0, int64(st.Bavail)*st.Bsize-left))); err != nil {
			t.Fatal(err)
		}
	}
	update := func() error {
		_, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte("a"), make([]byte, 60<<10)) })
		return err
	}
	fillTo(66 << 20)
	if err := update(); err != nil {
		t.Errorf("Update with space left: %v", err)
	}
	fillTo(60 << 20)
	if err := update(); backend.KindOf(orTest(err)) != backend.NoSpace {
		t.Errorf("Update below the reserve: %v, want NoSpace", err)
	}
	if v, err := get(t, s, "a"); len(v) != 60<<10 || err != nil {
		t.Errorf("a has %d bytes, %v", len(v), err)
	}
	fillTo(1 << 20)
	if err := s.Close(); backend.KindOf(orTest(err)) != backend.NoSpace {
		t.Errorf("Close on a full disk: %v, want NoSpace", err)
	}
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	if got := openInChild(t, dir); !strings.HasPrefix(got, fmt.Sprintf("open %d ", int(backend.Busy))) {
		t.Errorf("the directory that was not let go of: %s, want Busy", got)
	}
	clone := t.TempDir()
	copyDir(t, dir, clone)
	s, err := badger.Open(ctx, badger.Options{Dir: clone})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if v, err := get(t, s, "a"); len(v) != 60<<10 || err != nil || s.LastLSN() != 2 {
		t.Errorf("after a restart a has %d bytes, %v, LastLSN %d", len(v), err, s.LastLSN())
	}
}

// TestOpenOnAFullDisk refuses with NoSpace, and opens when there is space again.
func TestOpenOnAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=40m,mode=700"); err != nil {
		if !errors.Is(err, unix.EPERM) {
			t.Fatal(err)
		}
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	opens(t, badger.Options{Dir: filepath.Join(disk, "store")}, backend.NoSpace, "64 MiB", "free some space")
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=300m"); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, filepath.Join(disk, "store")))
}
