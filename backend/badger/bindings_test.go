package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
)

// TestSwappedFiles writes each table's and each write-ahead log's bytes over each
// other one's. The store then does not open, and nothing in it is touched.
func TestSwappedFiles(t *testing.T) {
	for _, c := range []struct {
		suffix string
		make   func(t *testing.T) string
	}{{".sst", makeHistory}, {".mem", makeLogs}} {
		t.Run(c.suffix, func(t *testing.T) {
			whole := c.make(t)
			files, err := filepath.Glob(filepath.Join(whole, "*"+c.suffix))
			if err != nil || len(files) < 2 {
				t.Fatal(files, err)
			}
			for _, from := range files {
				for _, to := range files {
					if from == to || len(slurp(t, from)) == 0 || len(slurp(t, to)) == 0 {
						continue
					}
					dir := cloneDir(t, whole)
					victim := filepath.Join(dir, filepath.Base(to))
					dump(t, victim, slurp(t, from))
					before := contents(t, dir)
					opens(t, badger.Options{Dir: dir}, backend.IO, "holds the bytes of another file", victim, "restore it from a backup")
					if after := contents(t, dir); after != before {
						t.Errorf("%s over %s: Open changed the store:\n%s\nafter:\n%s", from, to, before, after)
					}
					dump(t, victim, slurp(t, to)) // put right
					closeStore(t, open(t, dir))
					os.RemoveAll(dir)
				}
			}
		})
	}
}

// contents returns the names and sizes of a directory's files that hold data.
func contents(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range files {
		if data := slurp(t, f); len(data) > 0 && filepath.Ext(f) != ".vlog" && filepath.Base(f) != "DISCARD" && filepath.Base(f) != "LOCK" {
			fmt.Fprintln(&out, filepath.Base(f), len(data))
		}
	}
	return out.String()
}

// makeLogs returns a store, as kill -9 leaves it, with two write-ahead logs that have data.
func makeLogs(t *testing.T) string {
	t.Helper()
	dir, clone := t.TempDir(), t.TempDir()
	s := open(t, dir)
	defer closeStore(t, s)
	defer badger.FailMappings(nil)
	value := make([]byte, backend.MaxValue)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for n := 0; ; n++ {
		if n == 1000 {
			t.Fatal("no second write-ahead log")
		}
		set(t, s, fmt.Sprint("key", n), string(value))
		if info, err := os.Stat(filepath.Join(dir, "00002.mem")); err == nil && info.Size() > 0 {
			break
		}
	}
	badger.FailMappings(func() error { return errors.New("no table is made") }) // so the first log stays
	set(t, s, "last", "1")
	copyDir(t, dir, clone)
	for _, name := range []string{"00001.mem", "00002.mem"} {
		if len(slurp(t, filepath.Join(clone, name))) == 0 {
			t.Fatal(name, "has nothing")
		}
	}
	return clone
}

// TestStoreWithoutBindings opens a store that has no bindings file, and finds a file
// that is swapped later.
func TestStoreWithoutBindings(t *testing.T) {
	dir := cloneDir(t, makeHistory(t))
	bindings := filepath.Join(dir, "bindings")
	if err := os.Remove(bindings); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, dir))
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) < 2 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		if !bytes.Contains(slurp(t, bindings), []byte(filepath.Base(name)+" size=")) {
			t.Errorf("%s is not bound", name)
		}
	}
	dump(t, tables[0], slurp(t, tables[1]))
	opens(t, badger.Options{Dir: dir}, backend.IO, tables[0])
}

// TestTornBindings: a power cut takes any part of what was not synced, and the
// store opens.
func TestTornBindings(t *testing.T) {
	whole := makeHistory(t)
	data := slurp(t, filepath.Join(whole, "bindings"))
	for range 20 {
		dir := cloneDir(t, whole)
		n := rand.IntN(len(data))
		dump(t, filepath.Join(dir, "bindings"), append(bytes.Clone(data[:n]), make([]byte, rand.IntN(100))...))
		closeStore(t, open(t, dir))
		os.RemoveAll(dir)
	}
}
