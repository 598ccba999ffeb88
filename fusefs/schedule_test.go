package fusefs

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

// register is one thing that is set to 1, 2, 3, … through one mount or another, one
// setting at a time, and got through all of them. What a get gives must not be
// older than the last setting that had returned when it began, nor newer than the last that
// had begun when it returned.
type register struct {
	name string
	init func(dir string) error
	set  func(dir string, v int64) error
	get  func(dir string) (int64, error)
	mod  int64 // values repeat after so many; 0: never
	attr bool  // it is one of a file's attributes; see glimpses

	mu       sync.Mutex // held by who sets
	began    atomic.Int64
	returned atomic.Int64
	glimpses atomic.Int64 // gets of an attribute that were too old and right at once after
}

// maxGlimpses is how many a register may have: the kernel marks attributes as valid before it has
// written them all, and stat(2) takes no lock (docs/coherence.md, what is left). That
// is a few nanoseconds, once in a million turns; a notice that comes late would show in hundreds.
const maxGlimpses = 2

// write does one setting.
func (r *register) write(dir string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.began.Add(1)
	var err error
	for range 20 {
		// ESTALE is a file that was replaced through another mount between two steps of
		// the kernel; after its own second try the program sees it.
		if err = r.set(dir, v); !errors.Is(err, unix.ESTALE) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: setting %d: %w", r.name, v, err)
	}
	r.returned.Store(v)
	return nil
}

// read does one get, and one more of an attribute that is too old.
func (r *register) read(dir string) error {
	err := r.look(dir)
	if err == nil || !r.attr || r.look(dir) != nil || r.glimpses.Add(1) > maxGlimpses {
		return err
	}
	return nil
}

// look does one get.
func (r *register) look(dir string) error {
	low := r.returned.Load()
	got, err := r.get(dir)
	high := r.began.Load()
	switch {
	case errors.Is(err, unix.ESTALE):
		return nil
	case err != nil:
		return fmt.Errorf("%s: get between %d and %d: %w", r.name, low, high, err)
	case r.mod > 0:
		for v := low; v <= high; v++ {
			if v%r.mod == got {
				return nil
			}
		}
	case low <= got && got <= high:
		return nil
	}
	return fmt.Errorf("%s: got %d, want %d to %d", r.name, got, low, high)
}

func number(b []byte, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

func statOf(path string, what func(*unix.Stat_t) int64) (int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, err
	}
	return what(&st), nil
}

func file(name string) func(string) error {
	return func(d string) error { return os.WriteFile(d+"/"+name, []byte("00000000"), 0o644) }
}

func registers() []*register {
	return []*register{
		{name: "content", init: file("content"),
			set: func(d string, v int64) error {
				return openWrite(d+"/content", os.O_RDWR, fmt.Sprintf("%08d", v), 0)
			},
			get: func(d string) (int64, error) { return number(os.ReadFile(d + "/content")) }},
		{name: "content, written past the cache", init: file("direct"),
			set: func(d string, v int64) error {
				return openWrite(d+"/direct", os.O_WRONLY|os.O_SYNC, fmt.Sprintf("%08d", v), 0)
			},
			get: func(d string) (int64, error) { return number(os.ReadFile(d + "/direct")) }},
		{name: "replaced file", init: file("replaced"),
			set: func(d string, v int64) error {
				return errors.Join(os.WriteFile(d+"/replacing", []byte(fmt.Sprint(v)), 0o644), os.Rename(d+"/replacing", d+"/replaced"))
			},
			get: func(d string) (int64, error) { return number(os.ReadFile(d + "/replaced")) }},
		{name: "size", attr: true, init: func(d string) error { return os.WriteFile(d+"/size", nil, 0o644) },
			set: func(d string, v int64) error { return os.Truncate(d+"/size", v) },
			get: func(d string) (int64, error) {
				return statOf(d+"/size", func(st *unix.Stat_t) int64 { return st.Size })
			}},
		{name: "appended bytes", init: func(d string) error { return os.WriteFile(d+"/log", nil, 0o644) },
			set: func(d string, _ int64) error { return openWrite(d+"/log", os.O_WRONLY|os.O_APPEND, "x", -1) },
			get: func(d string) (int64, error) {
				// A zero at the end is the kernel's, for a moment (docs/coherence.md, "What is left").
				b, err := os.ReadFile(d + "/log")
				for end := waits.In(time.Minute); strings.Contains(string(b), "\x00") && !end.Passed(); {
					time.Sleep(3 * echoDelay)
					b, err = os.ReadFile(d + "/log")
				}
				return int64(strings.Count(string(b), "x")), err
			}},
		{name: "mode", attr: true, mod: 0o400, init: func(d string) error { return errors.Join(file("mode")(d), os.Chmod(d+"/mode", 0o400)) },
			set: func(d string, v int64) error { return os.Chmod(d+"/mode", os.FileMode(0o400+v%0o400)) },
			get: func(d string) (int64, error) {
				return statOf(d+"/mode", func(st *unix.Stat_t) int64 { return int64(st.Mode & 0o377) })
			}},
		{name: "mtime", attr: true, init: func(d string) error {
			return errors.Join(file("mtime")(d), os.Chtimes(d+"/mtime", time.Time{}, time.Unix(0, 0)))
		},
			set: func(d string, v int64) error { return os.Chtimes(d+"/mtime", time.Time{}, time.Unix(v, 0)) },
			get: func(d string) (int64, error) {
				return statOf(d+"/mtime", func(st *unix.Stat_t) int64 { return st.Mtim.Sec })
			}},
		{name: "xattr", init: func(d string) error {
			return errors.Join(file("xattr")(d), unix.Setxattr(d+"/xattr", "user.v", []byte("0"), 0))
		},
			set: func(d string, v int64) error { return unix.Setxattr(d+"/xattr", "user.v", []byte(fmt.Sprint(v)), 0) },
			get: func(d string) (int64, error) {
				b := make([]byte, 20)
				n, err := unix.Getxattr(d+"/xattr", "user.v", b)
				return number(b[:max(n, 0)], err)
			}},
		{name: "symlink", init: func(d string) error { return os.Symlink("0", d+"/symlink") },
			set: func(d string, v int64) error {
				_ = os.Remove(d + "/linking") // of a try before
				return errors.Join(os.Symlink(fmt.Sprint(v), d+"/linking"), os.Rename(d+"/linking", d+"/symlink"))
			},
			get: func(d string) (int64, error) {
				to, err := os.Readlink(d + "/symlink")
				return number([]byte(to), err)
			}},
		{name: "link count", attr: true, mod: 2, init: file("linked"),
			set: func(d string, v int64) error {
				if v%2 == 0 {
					return os.Remove(d + "/second")
				}
				return linkAgain(d+"/linked", d+"/second")
			},
			get: func(d string) (int64, error) {
				return statOf(d+"/linked", func(st *unix.Stat_t) int64 { return int64(st.Nlink) - 1 })
			}},
		{name: "name in a listing", init: func(d string) error {
			return errors.Join(os.Mkdir(d+"/listed", 0o755), os.WriteFile(d+"/listed/0", nil, 0o644))
		},
			set: func(d string, v int64) error {
				return os.Rename(fmt.Sprintf("%s/listed/%d", d, v-1), fmt.Sprintf("%s/listed/%d", d, v))
			},
			get: func(d string) (int64, error) {
				return oldestListed(d + "/listed")
			}},
		{name: "name that is there or not", mod: 2, init: func(string) error { return nil },
			set: func(d string, v int64) error {
				if v%2 == 0 {
					return unix.Rmdir(d + "/there")
				}
				return unix.Mkdir(d+"/there", 0o755)
			},
			get: func(d string) (int64, error) {
				err := unix.Access(d+"/there", unix.F_OK)
				if errors.Is(err, unix.ENOENT) {
					return 0, nil
				}
				return 1, err
			}},
	}
}

// linkAgain is link(2), and once more after a stat(2) where the kernel took the
// file for one without a name (docs/coherence.md, what is left).
func linkAgain(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, unix.ENOENT) {
		if _, err := os.Lstat(from); err != nil {
			return err
		}
		err = os.Link(from, to)
	}
	return err
}

// oldestListed is the least number that is a name in dir, where one file is
// renamed from each to the next. A listing that is read meanwhile may have the
// file under an old name, from the kernel's cache, and under a new one (as
// readdir(3) of ext4 may): both are to be of that time, so the older one is
// what tells.
func oldestListed(dir string) (int64, error) {
	list, err := os.ReadDir(dir)
	if err == nil && (len(list) == 0 || len(list) > 2) {
		err = fmt.Errorf("%d names: %v", len(list), list)
	}
	if err != nil {
		return 0, err
	}
	least := int64(math.MaxInt64)
	for _, e := range list {
		n, err := number([]byte(e.Name()), nil)
		if err != nil {
			return 0, err
		}
		least = min(least, n)
	}
	return least, nil
}

// TestSchedules sets and gets registers of every kind at random, all at once,
// through two and through three mounts.
func TestSchedules(t *testing.T) {
	for _, mounts := range []int{2, 3} {
		t.Run(fmt.Sprint(mounts), func(t *testing.T) {
			s := newStack(t, memDriver)
			d := hammerTime(t)
			s.watch(d + 2*time.Minute)
			var dirs []string
			for i := range mounts {
				dirs = append(dirs, filepath.Join(s.mount(fmt.Sprint("m", i), Config{}), "r"))
			}
			must(t, os.Mkdir(dirs[0], 0o755))
			regs := registers()
			for _, r := range regs {
				must(t, r.init(dirs[0]))
			}
			var fns []func(int) error
			for i := range 6 { // two that set, four that get
				seed := uint64(time.Now().UnixNano())
				r := rand.New(rand.NewPCG(seed, uint64(i)))
				fns = append(fns, func(int) error {
					g, dir := regs[r.IntN(len(regs))], dirs[r.IntN(len(dirs))]
					if i < 2 {
						return g.write(dir)
					}
					return g.read(dir)
				})
			}
			turns := until(t, d, fns...)
			for _, r := range regs {
				for _, dir := range dirs {
					if err := r.read(dir); err != nil {
						t.Errorf("at the end: %v", err)
					}
				}
			}
			s.logStats(turns)
		})
	}
}
