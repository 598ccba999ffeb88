package badger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"golang.org/x/sys/unix"
)

// faultRun makes Updates that start many memtables and tables, and gives what
// was acknowledged. What fails must fail with a kind of those given.
func faultRun(t *testing.T, s *badger.Store, from int, kinds ...backend.Kind) (acked int) {
	t.Helper()
	acked = from
	for n := from + 1; n <= from+40; n++ {
		_, err := s.Update(ctx, func(tx backend.Tx) error {
			for k := range 25 { // of 1.5 MiB, which do not compress
				if err := tx.Set(fmt.Appendf(nil, "bulk%d", k), []byte(bulk(n*100+k))); err != nil {
					return err
				}
			}
			return tx.Set([]byte("n"), fmt.Append(nil, n))
		})
		if err != nil {
			for _, k := range kinds {
				if backend.KindOf(err) == k {
					return acked
				}
			}
			t.Fatalf("Update %d: %v, want one of %v", n, err, kinds)
		}
		acked = n
	}
	return acked
}

// hasRun checks that dir has what faultRun acknowledged, or the Update after it.
func hasRun(t *testing.T, dir string, acked int) {
	t.Helper()
	s, err := badger.Open(ctx, badger.Options{Dir: dir})
	if err != nil {
		t.Fatalf("after the faults: %v", err)
	}
	defer closeStore(t, s)
	if acked == 0 {
		return
	}
	v, err := get(t, s, "n")
	var n int
	if _, serr := fmt.Sscan(v, &n); err != nil || serr != nil || n < acked || n > acked+1 {
		t.Fatalf("n = %q, %v; %d was acknowledged", v, err, acked)
	}
	for k := range 25 {
		if v, err := get(t, s, fmt.Sprintf("bulk%d", k)); err != nil || v != bulk(n*100+k) {
			t.Errorf("bulk%d has %d bytes, %v", k, len(v), err)
		}
	}
}

// TestMappingErrorsAnywhere fails mmap(2) of a store's files, once and for a
// while, at every call in turn: Open and Updates fail with a clear error or do
// not notice, and nothing that was acknowledged is lost.
func TestMappingErrorsAnywhere(t *testing.T) {
	defer badger.FailMappings(nil)
	step := 2
	if testing.Short() {
		step = 6
	}
	for _, times := range []int64{1, 3} {
		for from := int64(1); ; from += int64(step) {
			var calls atomic.Int64
			dir := t.TempDir()
			badger.FailMappings(func() error {
				if n := calls.Add(1); n >= from && n < from+times {
					return unix.ENOMEM
				}
				return nil
			})
			acked := 0
			s, err := badger.Open(ctx, badger.Options{Dir: dir})
			switch {
			case err == nil:
				acked = faultRun(t, s, 0, backend.IO)
				if err := s.Close(); err != nil && backend.KindOf(err) != backend.IO {
					t.Errorf("Close: %v", err)
				}
			case backend.KindOf(err) != backend.IO:
				t.Errorf("Open: %v, want IO", err)
			}
			badger.FailMappings(nil)
			clone := t.TempDir() // a store that failed keeps its directory
			copyDir(t, dir, clone)
			hasRun(t, clone, acked)
			if t.Failed() {
				t.Fatalf("call %d, %d times", from, times)
			}
			if calls.Load() < from {
				break
			}
		}
	}
}

// TestWithoutInodes takes all inodes of the disk away when tables are to be
// merged: Badger does not notice that it cannot make a file, and would drop the
// tables that the new one was to replace.
func TestWithoutInodes(t *testing.T) {
	const tables = 6 // as many young ones as make Badger merge them
	disk := smallDisk(t, "300m,nr_inodes=100")
	dir := filepath.Join(disk, "store")
	for i := range tables {
		s := open(t, dir)
		set(t, s, fmt.Sprint("table", i), strings.Repeat("v", 1000))
		closeStore(t, s)
	}
	s := open(t, dir)
	defer closeStore(t, s)
	var hoard []string
	for {
		name := filepath.Join(disk, fmt.Sprint(len(hoard)))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			break
		}
		hoard = append(hoard, name)
	}
	time.Sleep(3 * time.Second) // compactors begin within a second
	for _, name := range hoard {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(time.Second)
	for i := range tables {
		if v, err := get(t, s, fmt.Sprint("table", i)); len(v) != 1000 || err != nil {
			t.Errorf("table%d has %d bytes, %v", i, len(v), err)
		}
	}
}

// TestFillSparesData: a filesystem may say that a file has no blocks though it
// has data.
func TestFillSparesData(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	dump(t, name, []byte("data"))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := badger.Fill(f, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got := string(slurp(t, name)); got != "data" {
		t.Errorf("%d bytes, want the data that was there", len(got))
	}
}
