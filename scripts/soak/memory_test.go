package soak

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

var inodes = flag.Int("inodes", 0, "how many files TestMemory makes, with 16 mounts; 0: a few, with 4")

// What the daemon may take, anonymous memory in bytes.
const (
	idleMemory = 60 << 20
	fullMemory = 300 << 20
	perDir     = 1000
)

// TestMemory: a daemon at rest with two mounts takes little; with a million
// inodes, made through one of 16 mounts, whose kernel knows all of them, and a
// share of them known to each of the others, it keeps to its bound, while it works
// as well as afterwards.
func TestMemory(t *testing.T) {
	total, mounts := *inodes, 16
	if total == 0 {
		total, mounts = 10_000, 4
		if stack.Short() {
			total = 3_000
		}
	}
	s := stack.ForTest(t, stack.Options{Serve: strings.Fields(*serve)})
	k := &soak{s: s}
	time.Sleep(2 * time.Second)
	idle := k.anon(t)
	t.Logf("idle, two mounts: %d MiB", idle>>20)
	if idle > idleMemory && !stack.Short() { // the race detector takes as much again
		t.Errorf("an idle daemon takes %d MiB, want less than %d", idle>>20, idleMemory>>20)
	}
	dirs := []string{filepath.Join(s.Soul, "agents", "web_designer", "workspace")}
	for range mounts - 2 {
		dirs = append(dirs, s.Mount(t, "--agent", "web_designer", "--root", "/agents/web_designer/workspace"))
	}
	dirs = append(dirs, filepath.Join(s.Gaia, "agents", "web_designer", "workspace"))
	stop := watch(t, k.pid(t), 500*time.Millisecond)
	fill(t, dirs[0], total)
	made := k.anon(t)
	var wg sync.WaitGroup
	for n, d := range dirs[1:] {
		wg.Go(func() { look(t, d, total, n, mounts) })
	}
	wg.Wait()
	walked := k.anon(t)
	peak := highest(stop())
	time.Sleep(3 * time.Second)
	var st struct {
		Nodes int `json:"kernel_nodes"`
	}
	k.status(t, &st)
	t.Logf("%d inodes, %d mounts: %d MiB when made, %d after all were looked at, at most %d meanwhile, %d at rest; kernels hold %d nodes",
		total, mounts, made>>20, walked>>20, peak>>20, k.anon(t)>>20, st.Nodes)
	if peak > fullMemory && !stack.Short() {
		t.Errorf("the daemon took %d MiB, want less than %d", peak>>20, fullMemory>>20)
	}
	stop = watch(t, k.pid(t), 100*time.Millisecond)
	s.Fsck(t)
	checked := highest(stop())
	t.Logf("while it is checked: at most %d MiB", checked>>20)
	if checked > fullMemory && !stack.Short() {
		t.Errorf("the daemon took %d MiB for fsck, want less than %d", checked>>20, fullMemory>>20)
	}
}

// highest is the largest memory of samples, in bytes.
func highest(all []sample) (n int64) {
	for _, one := range all {
		n = max(n, one.anon)
	}
	return n
}

// anon is the daemon's anonymous memory, in bytes.
func (k *soak) anon(t *testing.T) int64 {
	t.Helper()
	s, err := take(k.pid(t))
	if err != nil {
		t.Fatal(err)
	}
	return s.anon
}

// fill makes files, a thousand in a directory.
func fill(t *testing.T, root string, total int) {
	var wg sync.WaitGroup
	const hands = 4
	for hand := range hands {
		wg.Go(func() {
			for d := hand; d < total/perDir; d += hands {
				dir := filepath.Join(root, fmt.Sprint("d", d))
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Error(err)
					return
				}
				for n := range perDir - 1 {
					fd, err := syscall.Open(fmt.Sprintf("%s/file%d", dir, n), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, 0o644)
					if err != nil {
						t.Error(err)
						return
					}
					_ = syscall.Close(fd)
				}
			}
		})
	}
	wg.Wait()
}

// look stats what is in every part-th directory, from a first one on.
func look(t *testing.T, root string, total, first, part int) {
	found := 0
	want := 0
	for d := first; d < total/perDir; d += part {
		want += perDir
		err := filepath.WalkDir(filepath.Join(root, fmt.Sprint("d", d)), func(_ string, e fs.DirEntry, err error) error {
			if err == nil {
				found++
				_, err = e.Info()
			}
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
	}
	if found != want {
		t.Errorf("%s shows %d inodes, want %d", root, found, want)
	}
}
