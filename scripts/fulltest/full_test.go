package fulltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// world is a stack whose store has a small disk of its own.
type world struct {
	*testing.T
	s    *stack.Stack
	disk string
	work string // the soul's workspace, in its mount
}

func newWorld(t *testing.T, size string) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting an image needs root")
	}
	dir := t.TempDir()
	w := &world{T: t, disk: filepath.Join(dir, "disk")}
	image := filepath.Join(dir, "image")
	w.run("mkfs.ext4", "-q", "-F", image, size)
	if err := os.Mkdir(w.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	w.run("mount", "-o", "loop", image, w.disk)
	t.Cleanup(func() { w.run("umount", w.disk) })
	s := stack.ForTest(t, stack.Options{Store: filepath.Join(w.disk, "store")})
	w.s, w.work = s, filepath.Join(s.Soul, "agents/web_designer/workspace")
	return w
}

func (w *world) run(name string, args ...string) {
	w.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		w.Fatalf("%s: %v: %s", name, err, out)
	}
}

// free is what statfs(2) in the mount says users may still write.
func (w *world) free() int64 {
	w.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(w.work, &st); err != nil {
		w.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

func (w *world) status() control.Status {
	w.Helper()
	var st control.Status
	if err := json.Unmarshal([]byte(w.s.Warren(w.T, "status", "--json")), &st); err != nil {
		w.Fatal(err)
	}
	return st
}

// says checks that status has a note with one of those texts.
func (w *world) says(texts ...string) {
	w.Helper()
	notes := strings.Join(w.status().Notes, "\n")
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(notes, text) }) {
		w.Errorf("status says none of %q: %q", texts, notes)
	}
}

// saysFull checks that status tells of a store that has just been filled, unless
// tables were merged since and there is room again.
func (w *world) saysFull() {
	w.Helper()
	for end := waits.In(time.Minute); w.free() == 0; time.Sleep(100 * time.Millisecond) {
		if strings.Contains(strings.Join(w.status().Notes, "\n"), "full") {
			return
		}
		if end.Passed() {
			w.says("full")
			return
		}
	}
}

func (w *world) clean() {
	w.Helper()
	w.s.Warren(w.T, "fsck")
}

// content is what the file of that name has.
func content(name string) []byte {
	src := rand.NewChaCha8(sha256.Sum256([]byte(name)))
	r := rand.New(src)
	sizes := []int{100, 3000, 20_000, 200_000, 1 << 20}
	b := make([]byte, 1+r.IntN(sizes[r.IntN(len(sizes))]))
	_, _ = src.Read(b)
	return b
}

// fill writes files in dir until the store is full, and gives those that were
// acknowledged.
func (w *world) fill(dir string) (files []string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Errorf("mkdir: %v", err)
		return nil
	}
	for i := range 100_000 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, content(name), 0o644); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				w.Errorf("write: %v, want ENOSPC", err)
			}
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				w.Errorf("remove in a full store: %v", err)
			}
			return files
		}
		files = append(files, name)
	}
	w.Error("the store is never full")
	return files
}

// fillByFour fills the store by four writers at once.
func (w *world) fillByFour() (files []string) {
	w.Helper()
	var mu sync.Mutex
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			got := w.fill(filepath.Join(w.work, fmt.Sprint("writer", i)))
			mu.Lock()
			defer mu.Unlock()
			files = append(files, got...)
		})
	}
	writers.Wait()
	return files
}

func (w *world) readable(files []string) {
	w.Helper()
	for _, name := range files {
		if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, content(name)) {
			w.Fatalf("%s: %d bytes, %v; acknowledged before the store was full", name, len(b), err)
		}
	}
}

func size(files []string) (n int64) {
	for _, name := range files {
		n += int64(len(content(name)))
	}
	return n
}

// waitFor waits until ok.
func (w *world) waitFor(what string, ok func() bool) {
	w.Helper()
	for end := waits.In(2 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if end.Passed() {
			w.Fatalf("not after two minutes: %s\n%+v\n%s", what, w.status(), w.s.Log())
		}
	}
}

func drivers(t *testing.T, test func(t *testing.T)) {
	contents := []string{"segment", "badger"}
	if stack.Short() {
		contents = contents[:1]
	}
	for _, content := range contents {
		t.Run(content, func(t *testing.T) {
			t.Setenv("STACK_CONTENT", content)
			test(t)
		})
	}
}

func TestFillAndEmpty(t *testing.T) { drivers(t, fillAndEmpty) }

func fillAndEmpty(t *testing.T) {
	w := newWorld(t, "300M")
	room := w.free()
	t.Logf("%d MiB are free at first", room>>20)
	rounds := 3
	if stack.Short() {
		rounds = 2
	}
	for round := range rounds {
		files := w.fillByFour()
		t.Logf("round %d: %d files of %d MiB, then %d MiB are free", round, len(files), size(files)>>20, w.free()>>20)
		if size(files) < 60<<20 {
			t.Errorf("only %d MiB went into a disk of 300", size(files)>>20)
		}
		if os.Getenv("STACK_CONTENT") == "segment" { // Badger merges tables meanwhile, and there is room again
			w.saysFull()
		}
		if round == 1 {
			if err := w.s.Kill(w.work); err != nil {
				t.Fatal(err)
			}
		}
		w.readable(files)
		w.clean()
		for i := range 4 {
			if err := os.RemoveAll(filepath.Join(w.work, fmt.Sprint("writer", i))); err != nil {
				t.Errorf("remove in a full store: %v", err)
			}
		}
		w.comesBack(room * 9 / 10)
	}
	w.clean()
}

// comesBack waits until more than n bytes are free. A merge of Badger's that was under
// way when the last block went keeps what it has made until the next start
// (docs/full-disk.md): with contents in Badger a restart may be what it takes.
func (w *world) comesBack(n int64) {
	w.Helper()
	if os.Getenv("STACK_CONTENT") == "badger" {
		for end := waits.In(time.Minute); w.free() <= n && !end.Passed(); {
			time.Sleep(100 * time.Millisecond)
		}
		if w.free() <= n {
			w.Logf("after a minute %d MiB are free; the daemon is started again", w.free()>>20)
			if err := w.s.Kill(w.work); err != nil {
				w.Fatal(err)
			}
		}
	}
	w.waitFor("the space comes back", func() bool { return w.free() > n })
}

// takeDisk writes to a file of others until the disk has no block left.
func (w *world) takeDisk() (giveBack func()) {
	w.Helper()
	name := filepath.Join(w.disk, "others")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.Fatal(err)
	}
	defer f.Close()
	for n := 1 << 20; n > 0; n /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, n))
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			w.Error(err)
		}
	}
}

func TestOthersFillTheDisk(t *testing.T) { drivers(t, othersFill) }

func othersFill(t *testing.T) {
	w := newWorld(t, "400M")
	var files []string
	for i := range 60 {
		name := filepath.Join(w.work, fmt.Sprint("file", i))
		if err := os.WriteFile(name, content(name), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	full := func(when string) {
		t.Helper()
		w.readable(files)
		if err := os.WriteFile(filepath.Join(w.work, "new"), content("new"), 0o644); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: a write: %v, want ENOSPC", when, err)
		}
		for range 5 {
			last := files[len(files)-1]
			if err := errors.Join(os.Truncate(last, 0), os.Remove(last)); err != nil {
				t.Errorf("%s: a deletion: %v", when, err)
			}
			files = files[:len(files)-1]
		}
		w.says("filled the disk", "the database waits for room") // as a table of it may
	}
	giveBack := w.takeDisk()
	full("while the daemon runs")
	w.clean()
	if err := w.s.Kill(w.work); err != nil {
		t.Fatal(err)
	}
	full("after a kill")
	giveBack()
	w.waitFor("writes are taken again", func() bool {
		return os.WriteFile(filepath.Join(w.work, "new"), content("new"), 0o644) == nil
	})
	if err := w.s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	giveBack = w.takeDisk()
	if err := w.s.Restart(w.work); err != nil {
		t.Fatal(err)
	}
	full("after others filled it while the daemon was down")
	if !strings.Contains(w.s.Log(), "others have filled the disk") {
		t.Errorf("the log does not say that the disk is full: %s", w.s.Log())
	}
	if err := w.s.Kill(w.work); err != nil { // and once more from there
		t.Fatal(err)
	}
	full("after a second kill")
	w.clean()
	giveBack()
	w.waitFor("writes are taken again", func() bool {
		return os.WriteFile(filepath.Join(w.work, "new"), content("new"), 0o644) == nil
	})
	w.readable(files)
	w.clean()
}

// TestOthersBesideAgents has agents write and delete while others take the disk
// to the last block and give it back, again and again. What the agents delete is
// room for what they write next, so in the end the others take that as well,
// until somebody is refused.
func TestOthersBesideAgents(t *testing.T) {
	w := newWorld(t, "400M")
	stop := make(chan struct{})
	var agents sync.WaitGroup
	var mu sync.Mutex
	var kept []string
	var refused atomic.Int64
	for i := range 4 {
		agents.Go(func() {
			files := w.churn(filepath.Join(w.work, fmt.Sprint("agent", i)), stop, &refused)
			mu.Lock()
			defer mu.Unlock()
			kept = append(kept, files...)
		})
	}
	rounds := 6
	if stack.Short() {
		rounds = 2
	}
	for range rounds {
		time.Sleep(time.Second)
		giveBack := w.takeDisk()
		time.Sleep(time.Second)
		giveBack()
		time.Sleep(time.Second)
	}
	before := refused.Load()
	giveBack := w.takeDisk()
	for end := waits.In(time.Minute); refused.Load() == before && !end.Passed(); time.Sleep(10 * time.Millisecond) {
		w.takeDisk()
	}
	inTheEnd := refused.Load() - before
	close(stop)
	agents.Wait()
	if !w.s.Alive() {
		t.Fatal("the daemon died:\n" + w.s.Log())
	}
	if err := w.s.Kill(w.work); err != nil {
		t.Fatal(err)
	}
	w.readable(kept)
	w.clean()
	giveBack()
	t.Logf("%d files kept, %d operations refused before the end, %d then", len(kept), before, inTheEnd)
	if len(kept) == 0 {
		t.Error("the disk was always full")
	}
	if inTheEnd == 0 {
		t.Error("others had the whole disk for a minute, and nothing was refused")
	}
}

// churn writes files in dir and deletes some until stop, and counts what is
// refused. It gives those that it was told are there.
func (w *world) churn(dir string, stop <-chan struct{}, refused *atomic.Int64) (files []string) {
	full := func(err error) bool {
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			w.Errorf("%v, want ENOSPC", err)
		}
		return err != nil
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return files
		default:
		}
		name := filepath.Join(dir, fmt.Sprint(i))
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(name, content(name), 0o644)
		}
		if full(err) {
			refused.Add(1)
			if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
				full(err)
			}
			time.Sleep(10 * time.Millisecond)
			continue
		}
		files = append(files, name)
		if len(files) > 20 {
			if !full(os.Remove(files[0])) {
				files = files[1:]
			}
		}
	}
}
