package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/stack"
)

var shared stack.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const workspace = "agents/web_designer/workspace"

// count is how many operations a test does of n.
func count(n int) int {
	if stack.Short() {
		return n / 10
	}
	return n
}

func run(t *testing.T, o Options) {
	t.Helper()
	o.Seed = uint64(time.Now().UnixNano())
	began := time.Now()
	if err := Run(o); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %d operations in %v", o.Seed, o.Ops, time.Since(began))
}

// TestPlainDirectory: what the exerciser expects is what Linux does.
func TestPlainDirectory(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "zero"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_ZERO_RANGE, 0, 1); err != nil {
		t.Skip("a directory in memory does less: ", err)
	}
	run(t, Options{Dirs: []string{dir}, Name: "f", Other: filepath.Join(dir, "o"), Ops: count(2000)})
}

// TestOneMount copies ranges into another volume and back, too.
func TestOneMount(t *testing.T) {
	s := shared.Running(t)
	run(t, Options{Dirs: []string{filepath.Join(s.Gaia, workspace)}, Name: "one", Other: filepath.Join(s.Gaia, "agents/gaia/scratch/one"), Ops: count(30_000)})
	s.Fsck(t)
}

func TestTwoMounts(t *testing.T) {
	s := shared.Running(t)
	dirs := []string{filepath.Join(s.Gaia, workspace), filepath.Join(s.Soul, workspace)}
	run(t, Options{Dirs: dirs, Name: "two", Other: filepath.Join(dirs[0], "two-other"), Ops: count(20_000)})
	s.Fsck(t)
}

// TestFindsDifferences: a file that is not what was written is found by each
// kind of read.
func TestFindsDifferences(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []op{{"read", 1, read}, {"direct", 1, readDirect}, {"map", 1, readMap}, {"seek", 1, seek}, {"size", 1, size}} {
		t.Run(o.name, func(t *testing.T) {
			x := newExerciser(Options{Dirs: []string{dir}, Name: o.name, Seed: 1})
			defer x.close()
			if err := os.WriteFile(x.path(0), make([]byte, maxSize), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unix.Fallocate(int(must(x.file(0)).Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, maxSize); err != nil {
				t.Skip("holes are not told here: ", err)
			}
			x.page = make([]byte, maxSize)
			x.m.put(x.fill(make([]byte, maxSize-1)), 0)
			if o.name != "size" {
				x.m.resize(maxSize)
			}
			if err := o.do(x, 0); err == nil {
				t.Error("found no difference")
			}
		})
	}
}

func must(f *os.File, err error) *os.File {
	if err != nil {
		panic(err)
	}
	return f
}
