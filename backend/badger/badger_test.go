package badger_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/badger"
)

var ctx = context.Background()

func open(t testing.TB, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(ctx, badger.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fixture(t testing.TB) backendtest.Fixture {
	dir := t.TempDir()
	return backendtest.Fixture{
		Store:  open(t, dir),
		Reopen: func(t testing.TB) backend.Store { return open(t, dir) },
		Crash: func(t testing.TB) backend.Store { // kill -9: the page cache survives
			clone := t.TempDir()
			copyDir(t, dir, clone)
			return open(t, clone)
		},
		Reserved: true,
	}
}

// copyDir copies the files of a directory and keeps holes: what kill -9 now
// would leave, while no Update runs. When a flush or compaction ended meanwhile
// it starts again.
func copyDir(t testing.TB, from, to string) {
	t.Helper()
	for range 100 {
		before := listing(t, from)
		if err := copyFiles(from, to); err == nil && listing(t, from) == before {
			return
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the directory never stands still")
}

// listing is what tells that a directory changed: its names and its manifest.
func listing(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, _ := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	text := string(manifest)
	for _, e := range entries {
		text += "\n" + e.Name()
	}
	return text
}

func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := in.Read(block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], off); err != nil {
				return err
			}
		}
		off += int64(n)
		if err == io.EOF {
			return out.Truncate(off)
		}
		if err != nil {
			return err
		}
	}
}

func TestStore(t *testing.T) { backendtest.TestStore(t, fixture) }

func TestContent(t *testing.T) {
	backendtest.TestContent(t, func(t testing.TB) backendtest.ContentFixture {
		return backendtest.ContentFixture{Fixture: fixture(t), Content: badger.Content{}}
	})
}
