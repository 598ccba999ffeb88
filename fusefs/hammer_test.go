package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// until runs each function again and again in a goroutine of its own, until d
// is over or one fails.
func until(t *testing.T, d time.Duration, fns ...func(i int) error) (turns int) {
	t.Helper()
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, fn := range fns {
		wg.Go(func() {
			i := 0
			for ; time.Now().Before(end) && !t.Failed(); i++ {
				if err := fn(i); err != nil {
					t.Errorf("turn %d: %v", i, err)
					return
				}
			}
			mu.Lock()
			turns += i
			mu.Unlock()
		})
	}
	wg.Wait()
	return turns
}

// logStats tells what a test made the kernels do.
func (s *stack) logStats(turns int) {
	s.t.Logf("%d turns", turns)
	for _, m := range s.hub.Mounts() {
		s.t.Logf("%s: %+v", m.Dir(), m.Stats())
	}
}

// TestTwoWritersOfOnePage: both mounts keep a file open and write one page, each
// a byte range of its own; each always reads its own last bytes, and the other's
// never go back. It deadlocks at once where two mounts write through their
// caches.
func TestTwoWritersOfOnePage(t *testing.T) {
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{})}
	must(t, os.WriteFile(dirs[0]+"/page", make([]byte, 4096), 0o644))
	var fns []func(int) error
	for w := range 4 { // two in each mount
		f, err := os.OpenFile(dirs[w%2]+"/page", os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		seen := make([]uint32, 4)
		fns = append(fns, func(i int) error {
			mine := []byte(fmt.Sprintf("%08d", i))
			if _, err := f.WriteAt(mine, int64(w)*512); err != nil {
				return err
			}
			for o := range 4 {
				var got [8]byte
				if _, err := f.ReadAt(got[:], int64(o)*512); err != nil {
					return err
				}
				var n uint32
				if got != [8]byte{} {
					if _, err := fmt.Sscanf(string(got[:]), "%d", &n); err != nil {
						return fmt.Errorf("writer %d reads %q of %d", w, got, o)
					}
				}
				if o == w && n != uint32(i) {
					return fmt.Errorf("writer %d wrote %d and reads %d", w, i, n)
				}
				if n < seen[o] {
					return fmt.Errorf("writer %d reads %d of %d after %d", w, n, o, seen[o])
				}
				seen[o] = n
			}
			return nil
		})
	}
	s.logStats(until(t, d, fns...))
}

// TestReaderSeesEveryWrite: one mount writes, the other reads right after, with
// its file open and its page cached; then the other way round.
func TestReaderSeesEveryWrite(t *testing.T) {
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{})}
	must(t, os.WriteFile(dirs[0]+"/f", []byte("start"), 0o644))
	var open [2]*os.File
	for i := range open {
		f, err := os.OpenFile(dirs[i]+"/f", os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		open[i] = f
	}
	s.logStats(until(t, d, func(i int) error {
		from, to := open[i%2], open[1-i%2]
		data := bytes.Repeat([]byte(fmt.Sprintf("%d,", i)), 1+rand.IntN(2000))
		if err := from.Truncate(0); err != nil {
			return err
		}
		if _, err := from.WriteAt(data, 0); err != nil {
			return err
		}
		fi, err := to.Stat()
		if err != nil {
			return err
		}
		got := make([]byte, len(data)+10)
		n, _ := to.ReadAt(got, 0)
		if fi.Size() != int64(len(data)) || !bytes.Equal(got[:n], data) {
			return fmt.Errorf("size %d, read %d, want %d bytes", fi.Size(), n, len(data))
		}
		return nil
	}))
}

// TestAppendFromTwoMounts: case 8, for as long as a hammer test goes on: whole
// lines, none lost, in the order of each writer.
func TestAppendFromTwoMounts(t *testing.T) {
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + 2*time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{})}
	must(t, os.WriteFile(dirs[0]+"/log", nil, 0o644))
	var fns []func(int) error
	counts := make([]int, 8)
	for w := range counts {
		f, err := os.OpenFile(dirs[w%2]+"/log", os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer f.Close()
		fns = append(fns, func(i int) error {
			counts[w] = i + 1
			_, err := fmt.Fprintf(f, "writer %d line %d\n", w, i)
			return err
		})
	}
	s.logStats(until(t, d, fns...))
	for _, dir := range dirs {
		b, err := os.ReadFile(dir + "/log")
		must(t, err)
		next := make([]int, len(counts))
		for _, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
			var w, i int
			if _, err := fmt.Sscanf(line, "writer %d line %d", &w, &i); err != nil {
				t.Fatalf("torn line %q", line)
			}
			if i != next[w] {
				t.Fatalf("writer %d: line %d where %d should be", w, i, next[w])
			}
			next[w]++
		}
		for w := range counts {
			if next[w] != counts[w] {
				t.Errorf("%s: writer %d: %d lines of %d", dir, w, next[w], counts[w])
			}
		}
	}
}

// nameChanges is one turn of making, moving and removing names in dir, each
// looked at in other right away. tag keeps turns apart.
func nameChanges(dir, other, tag string) error {
	f, g, sub := "/"+tag, "/"+tag+".moved", "/"+tag+".dir"
	gone := func(name string) error {
		if _, err := os.Lstat(other + name); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there: %v", name, err)
		}
		return nil
	}
	there := func(name, want string) error {
		b, err := os.ReadFile(other + name)
		if err != nil || string(b) != want {
			return fmt.Errorf("%s: %q, %v; want %q", name, b, err, want)
		}
		return nil
	}
	steps := []func() error{
		func() error { return gone(f) },
		func() error { return os.WriteFile(dir+f, []byte(tag), 0o644) },
		func() error { return there(f, tag) },
		func() error { return gone(g) },
		func() error { return os.Rename(dir+f, dir+g) },
		func() error { return errors.Join(gone(f), there(g, tag)) },
		func() error { return gone(sub) },
		func() error { return os.Mkdir(dir+sub, 0o755) },
		func() error { _, err := os.ReadDir(other + sub); return err },
		func() error { return os.Rename(dir+g, dir+sub+f) },
		func() error { return errors.Join(gone(g), there(sub+f, tag)) },
		func() error { return os.Remove(dir + sub + f) },
		func() error { return gone(sub + f) },
		func() error { return unix.Rmdir(dir + sub) },
		func() error { return gone(sub) },
	}
	for i, step := range steps {
		err := step()
		for try := 0; errors.Is(err, syscall.ESTALE) && try < 5; try++ {
			// A path walk that met a directory on its way to another place: the
			// kernel has tried once more by itself.
			err = step()
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// TestNamesFromTwoMounts: both mounts make, move and remove names in one
// directory, several at once. It deadlocks at once where every change waits for
// the other's directory lock.
func TestNamesFromTwoMounts(t *testing.T) {
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newStack(t, memDriver)
			d := hammerTime(t)
			s.watch(d + time.Minute)
			var dirs []string
			for i := range n {
				agent := []string{"gaia", "web"}[i%2] // trusted and not
				dirs = append(dirs, s.mount(fmt.Sprint("m", i), Config{Agent: agent}))
			}
			must(t, os.Mkdir(dirs[0]+"/shared", 0o755))
			var fns []func(int) error
			for w := range 2 * n {
				m, o := dirs[w%n]+"/shared", dirs[(w+1)%n]+"/shared"
				fns = append(fns, func(i int) error { return nameChanges(m, o, fmt.Sprintf("w%d-%d", w, i%7)) })
			}
			for _, dir := range dirs { // somebody always lists and walks
				fns = append(fns, func(int) error {
					list, err := os.ReadDir(dir + "/shared")
					for _, e := range list {
						_, _ = os.Lstat(dir + "/shared/" + e.Name())
					}
					return err
				})
			}
			s.logStats(until(t, d, fns...))
			for _, dir := range dirs {
				if list, err := os.ReadDir(dir + "/shared"); err != nil || len(list) > 0 {
					t.Errorf("%s: left: %v, %v", dir, list, err)
				}
			}
		})
	}
}

// TestListingsFromTwoMounts: after each name made or removed through one mount
// the listing of the other, cached before, is right.
func TestListingsFromTwoMounts(t *testing.T) {
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{})}
	must(t, os.Mkdir(dirs[0]+"/l", 0o755))
	have := map[string]bool{}
	s.logStats(until(t, d, func(i int) error {
		m, o := dirs[i%2]+"/l", dirs[1-i%2]+"/l"
		name := fmt.Sprint("n", rand.IntN(20))
		var err error
		if have[name] {
			err = os.Remove(m + "/" + name)
		} else {
			err = os.WriteFile(m+"/"+name, nil, 0o644)
		}
		have[name] = !have[name]
		want := []string{}
		for n, is := range have {
			if is {
				want = append(want, n)
			}
		}
		sort.Strings(want)
		got, lerr := listing(o)
		if err == nil && lerr == nil && strings.Join(got, " ") != strings.Join(want, " ") {
			lerr = fmt.Errorf("listing %v, want %v", got, want)
		}
		return errors.Join(err, lerr)
	}))
}

func listing(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out, err
}

// TestAttrsFromTwoMounts: modes, times and sizes set through either mount of a
// file that both hold.
func TestAttrsFromTwoMounts(t *testing.T) {
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{})}
	must(t, os.WriteFile(dirs[0]+"/f", nil, 0o644))
	noise := func(dir string) func(int) error { // attributes under way all the time
		return func(i int) error {
			return errors.Join(os.Chtimes(dir+"/f", time.Time{}, time.Unix(int64(i), 0)), statErr(dir+"/f"))
		}
	}
	glimpses := 0
	s.logStats(until(t, d, noise(dirs[0]), noise(dirs[1]), func(i int) error {
		m, o := dirs[i%2]+"/f", dirs[1-i%2]+"/f"
		mode, size := os.FileMode(rand.IntN(0o1000)), rand.Int64N(1<<20)
		if err := errors.Join(os.Chmod(m, mode), os.Truncate(m, size)); err != nil {
			return err
		}
		for _, path := range []string{m, o} {
			fi, err := os.Stat(path)
			if err == nil && (fi.Mode().Perm() != mode || fi.Size() != size) && glimpses < maxGlimpses {
				glimpses++
				fi, err = os.Stat(path)
			}
			if err != nil {
				return err
			}
			if fi.Mode().Perm() != mode || fi.Size() != size {
				return fmt.Errorf("%s: %v %d, want %v %d", path, fi.Mode(), fi.Size(), mode, size)
			}
		}
		return nil
	}))
}

func statErr(path string) error {
	_, err := os.Stat(path)
	return err
}

// TestMapAgainstWriter: one mount stores through a shared map of a file and
// syncs it, the other writes the same pages. Which of them wins is not promised;
// that neither hangs is, and that both mounts agree in the end.
func TestMapAgainstWriter(t *testing.T) {
	s, m, n := twoMounts(t)
	must(t, os.WriteFile(m+"/f", make([]byte, 8*4096), 0o644))
	seconds := max(1, int(hammerTime(t).Seconds()))
	// The first to open for writing has the pages, so the map comes first; and
	// what WriteFile closed is only let go of a little later.
	s.shell(m, n, fmt.Sprintf(`timeout %[2]d python3 - $N/f %[1]d <<'P' & a=$!
import mmap, os, sys, time
for patience in reversed(range(100)):
    f = os.open(sys.argv[1], os.O_RDWR)
    try: m = mmap.mmap(f, 8 * 4096); break
    except OSError:
        if not patience: raise
        os.close(f); time.sleep(0.02)
open(sys.argv[1] + ".mapped", "w").close()
end, i = time.time() + int(sys.argv[2]), 0
while time.time() < end:
    i += 1
    m[(i %% 8) * 4096 + 7] = i %% 256
    if i %% 3 == 0: m.flush()
m.flush(); m.close(); os.close(f)
P
timeout %[2]d python3 - $M/f %[1]d <<'P' & b=$!
import os, sys, time
while not os.path.exists(sys.argv[1] + ".mapped"): time.sleep(0.01)
f = os.open(sys.argv[1], os.O_RDWR)
end, i = time.time() + int(sys.argv[2]), 0
while time.time() < end:
    i += 1
    os.pwrite(f, b"w" * 100, (i %% 8) * 4096 + 50)
    os.pread(f, 10, 0)
os.close(f)
P
wait $a; wait $b; cmp $M/f $N/f`, seconds, seconds+60))
}
