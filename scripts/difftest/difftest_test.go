package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/stack"
)

var shared stack.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestSameAsExt4 does calls of a fixed seed, so that a run says the same each time.
func TestSameAsExt4(t *testing.T) {
	plain := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(plain, &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC {
		t.Skip("temporary files are not on ext4")
	}
	s := shared.Running(t)
	dir := filepath.Join(s.Gaia, "agents/gaia/workspace/calls") // elsewhere others write, which owners show
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	n := 200
	if stack.Short() {
		n = 50
	}
	if err := Run(Options{Plain: plain, Dirs: []string{dir}, Seed: 6, Ops: n}); err != nil {
		t.Fatal(err)
	}
	s.Fsck(t)
}

// TestFindsDifferences: what is there on one side only is found.
func TestFindsDifferences(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	if err := unix.Setxattr(b, "user.x", []byte("x"), 0); err != nil {
		t.Skip("no extended attributes here: ", err)
	}
	l, err := see(a)
	if err != nil {
		t.Fatal(err)
	}
	r, err := see(b)
	if err != nil {
		t.Fatal(err)
	}
	if l.what == r.what {
		t.Error("an extended attribute is not seen")
	}
}
