package fusefs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// filler does one of the things that take or give bytes and inodes, to files that
// all fillers share.
type filler struct {
	rnd  *rand.Rand
	dir  string // in a mount, with a quota
	away string // another volume in the same mount
}

func (f *filler) name() string { return fmt.Sprintf("%s/f%d", f.dir, f.rnd.IntN(20)) }

func (f *filler) step() error {
	at, n := int64(f.rnd.IntN(400_000)), 1+f.rnd.IntN(60_000)
	open := func(name string, flags int, fn func(*os.File) error) error {
		file, err := os.OpenFile(name, flags, 0o644)
		if err != nil {
			return err
		}
		return errors.Join(fn(file), file.Close())
	}
	write := func(file *os.File) error {
		_, err := file.WriteAt(make([]byte, n), at) // beyond a hole, or over what is there
		return err
	}
	switch f.rnd.IntN(11) {
	case 0, 1, 2:
		return open(f.name(), os.O_RDWR|os.O_CREATE, write)
	case 3:
		return os.Truncate(f.name(), at)
	case 4:
		return open(f.name(), os.O_RDWR, func(file *os.File) error {
			return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, int64(n))
		})
	case 5:
		return os.Link(f.name(), f.name())
	case 6:
		return os.Rename(f.name(), f.name())
	case 7:
		return os.Remove(f.name())
	case 8: // extents shared with a file here, or in another volume
		from := f.name()
		if f.rnd.IntN(2) == 0 {
			from = f.away + "/source"
		}
		return open(from, os.O_RDONLY, func(src *os.File) error {
			return open(f.name(), os.O_RDWR|os.O_CREATE, func(dst *os.File) error {
				to, off := at, int64(0)
				_, err := unix.CopyFileRange(int(src.Fd()), &off, int(dst.Fd()), &to, n, 0)
				return err
			})
		})
	case 9: // without a name, and perhaps given one
		return open(f.dir, os.O_RDWR|unix.O_TMPFILE, func(file *os.File) error {
			err := write(file)
			if err == nil && f.rnd.IntN(2) == 0 {
				err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.AT_FDCWD, f.name(), unix.AT_SYMLINK_FOLLOW)
			}
			return err
		})
	default: // unlinked while it is open, and written then
		name := fmt.Sprintf("%s/gone%d", f.dir, f.rnd.Uint64())
		return open(name, os.O_RDWR|os.O_CREATE, func(file *os.File) error {
			return errors.Join(os.Remove(name), write(file))
		})
	}
}

// duOf gives the bytes of what du counts in dir, and how many files there are.
func duOf(t *testing.T, dir string) (du, files uint64) {
	t.Helper()
	counted := map[uint64]bool{}
	must(t, filepath.Walk(dir, func(_ string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		if fi.Mode().IsRegular() && !counted[st.Ino] {
			counted[st.Ino] = true
			du, files = du+uint64(st.Blocks)*512, files+1
		}
		return nil
	}))
	return du, files
}

// TestQuotaOfEverything: eight fillers on two mounts write beyond holes, punch,
// truncate, link, rename, copy ranges within and between volumes, and use files
// without a name, at the limit. The use never passes it; nothing but EDQUOT and
// what races make of names comes back; du and fsck (at the test's end) agree.
func TestQuotaOfEverything(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	const bytes, inodes = 1 << 20, 30
	s.quota(workDir, bytes, inodes)
	mounts := []string{s.mount("web", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})}
	for _, m := range mounts {
		must(t, os.WriteFile(m+"/agents/web/scratch/source", make([]byte, 300_000), 0o644))
	}
	use := func() (q view.Quota) {
		text, err := os.ReadFile(mounts[1] + "/.warren/quota")
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if must(t, json.Unmarshal([]byte(line), &q)); q.Path == workDir {
				return q
			}
		}
		t.Fatalf("no quota of %s in %s", workDir, text)
		return q
	}
	steps := 500
	if testing.Short() {
		steps = 100
	}
	var refused atomic.Int64
	var wg, watch sync.WaitGroup
	stop := make(chan struct{})
	watch.Go(func() {
		for {
			if q := use(); q.Bytes.Used > bytes || q.Inodes.Used > inodes {
				t.Errorf("%d bytes and %d inodes are used", q.Bytes.Used, q.Inodes.Used)
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for w := range 8 {
		f := &filler{rnd: rand.New(rand.NewPCG(seed, uint64(w))), dir: mounts[w%2] + workDir, away: mounts[w%2] + "/agents/web/scratch"}
		wg.Go(func() {
			for i := 0; i < steps || refused.Load() == 0 && i < 100*steps; i++ {
				err := f.step()
				switch {
				case errors.Is(err, syscall.EDQUOT):
					refused.Add(1)
				case err == nil, errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ESTALE), errors.Is(err, syscall.EINVAL):
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	watch.Wait()
	if refused.Load() == 0 {
		t.Error("nothing was refused: the limit was not reached")
	}
	du, files := duOf(t, mounts[1]+workDir)
	var q view.Quota
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) { // the kernel lets go of what was unlinked a little later
		if q = use(); q.Inodes.Used == files+1 || end.Passed() {
			break
		}
	}
	if q.Inodes.Used != files+1 || du < q.Bytes.Used || du >= q.Bytes.Used+files*512+1 {
		t.Errorf("%d files have %d bytes by du; used are %d bytes and %d inodes", files, du, q.Bytes.Used, q.Inodes.Used)
	}
}
