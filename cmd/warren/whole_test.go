package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWriteWholeRemovesTheDead: what a killed call left goes with the next one; the
// files of a call under way, of others and of other names stay.
func TestWriteWholeRemovesTheDead(t *testing.T) {
	dir := t.TempDir()
	dead, live, other := filepath.Join(dir, ".b.1.part"), filepath.Join(dir, ".b.2.part"), filepath.Join(dir, ".c.1.part")
	var held *os.File
	for _, name := range []string{dead, live, other} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if name == live {
			held = f
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			continue
		}
		f.Close()
	}
	if err := os.Symlink(other, filepath.Join(dir, ".b.3.part")); err != nil {
		t.Fatal(err)
	}
	want := errors.New("no")
	for _, fail := range []error{want, nil} {
		err := writeWhole(filepath.Join(dir, "b"), 0o640, func(w io.Writer) error {
			_, err := io.WriteString(w, "whole")
			return errors.Join(err, fail)
		})
		if !errors.Is(err, fail) {
			t.Errorf("%v, want %v", err, fail)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{".b.2.part", ".b.3.part", ".c.1.part", "b"}) {
		t.Errorf("left: %v", names)
	}
	info, err := os.Stat(filepath.Join(dir, "b"))
	if err != nil || info.Mode().Perm() != 0o640 || info.Size() != 5 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestAKilledRestoreIsNamed: every command on the directory says that a restore was
// interrupted, and what to do.
func TestAKilledRestoreIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := emptyStore(dir, storeInfo{Format: storeFormat, Content: contentSegment})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.lock.Close(); err != nil { // as a kill does
		t.Fatal(err)
	}
	_, again := emptyStore(dir, storeInfo{Format: storeFormat, Content: contentSegment})
	_, opened := openStore(t.Context(), dir, newStore{}, offlineLog(io.Discard))
	_, made := openStore(t.Context(), dir, newStore{Make: true}, offlineLog(io.Discard))
	_, mended := openBroken(t.Context(), dir, false, offlineLog(io.Discard))
	for what, err := range map[string]error{"restore-store": again, "serve": opened, "init": made, "fsck": mended} {
		if err == nil || !errors.Is(err, errRestoring) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, restoringFile)); err != nil {
		t.Error(err)
	}
}
