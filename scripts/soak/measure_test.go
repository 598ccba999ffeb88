package soak

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// sample is what the daemon uses at one moment.
type sample struct {
	anon    int64 // bytes
	files   int64 // descriptors of files that hold the data: one for each table and segment
	fds     int64 // the other descriptors
	threads int64
}

// take reads what a process uses.
func take(pid int) (sample, error) {
	var s sample
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		switch {
		case err != nil: // closed meanwhile
		case strings.HasSuffix(to, ".sst") || strings.HasSuffix(to, ".seg"):
			s.files++
		default:
			s.fds++
		}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		field := strings.Fields(value)
		if name != "RssAnon" && name != "Threads" {
			continue
		}
		n, err := strconv.ParseInt(field[0], 10, 64)
		if err != nil {
			return s, err
		}
		if name == "RssAnon" {
			s.anon = n << 10
		} else {
			s.threads = n
		}
	}
	return s, nil
}

// watch takes samples until stop is called, which gives them.
func watch(t *testing.T, pid int, every time.Duration) (stop func() []sample) {
	quit, ended := make(chan struct{}), make(chan []sample)
	go func() {
		var all []sample
		defer func() { ended <- all }()
		for {
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
			s, err := take(pid)
			if err != nil {
				t.Error(err)
				<-quit
				return
			}
			all = append(all, s)
		}
	}()
	return func() []sample { close(quit); return <-ended }
}

// dataFiles is how many tables and segments a store has.
func dataFiles(t *testing.T, store string) (n int64) {
	t.Helper()
	for _, pattern := range []string{"badger/*.sst", "segments/*.seg"} {
		names, err := filepath.Glob(filepath.Join(store, pattern))
		if err != nil {
			t.Error(err)
		}
		n += int64(len(names))
	}
	return n
}

// holdsNoOthers fails the test if a daemon keeps more tables and segments open than
// there are, but for those that are being made or removed just now.
func holdsNoOthers(t *testing.T, pid int, store string) {
	t.Helper()
	s, err := take(pid)
	if err != nil {
		t.Error(err)
		return
	}
	have := dataFiles(t, store)
	t.Logf("%d tables and segments, %d descriptors of such; %d others", have, s.files, s.fds)
	if s.files > have+24 {
		t.Errorf("%d descriptors of tables and segments, of which there are %d", s.files, have)
	}
}

// rank is what so many in a hundred samples have at most of one value.
func rank(all []sample, percent int, value func(sample) int64) int64 {
	var v []int64
	for _, s := range all {
		v = append(v, value(s))
	}
	slices.Sort(v)
	return v[len(v)*percent/100]
}

// grew fails the test if the last third of the samples is above the first.
func grew(t *testing.T, all []sample, long bool) {
	t.Helper()
	if len(all) < 3 {
		t.Logf("%d samples: too short a run to tell what grows", len(all))
		return
	}
	first, last := all[:len(all)/3], all[len(all)-len(all)/3:]
	slackMemory, slackThreads := int64(64<<20), int64(40)
	if long { // the caches are full before the first third is over
		slackMemory, slackThreads = 24<<20, 12
	}
	if stack.Race() { // whose own memory is most of it, and follows what was done
		slackMemory = 1 << 30
	}
	for _, c := range []struct {
		what         string
		unit, slack  int64
		of           func(sample) int64
		tenthAllowed bool
		percent      int
	}{
		// Memory is compared as it is between the database's merges: what they take,
		// hundreds of MiB where they have to wait for a processor, comes and goes.
		{"MiB of anonymous memory", 1 << 20, slackMemory, func(s sample) int64 { return s.anon }, true, 25},
		{"descriptors of no table or segment", 1, 6, func(s sample) int64 { return s.fds }, false, 50},
		{"threads", 1, slackThreads, func(s sample) int64 { return s.threads }, false, 50},
	} {
		for _, percent := range []int{25, 50, 99} {
			t.Logf("%s, %d%% of %d samples each: first third %d, last third %d", c.what, percent, len(first),
				rank(first, percent, c.of)/c.unit, rank(last, percent, c.of)/c.unit)
		}
		a, b := rank(first, c.percent, c.of), rank(last, c.percent, c.of)
		allowed := a + c.slack
		if c.tenthAllowed {
			allowed += a / 10
		}
		if b > allowed {
			t.Errorf("%s grew from %d to %d, %d are allowed", c.what, a/c.unit, b/c.unit, allowed/c.unit)
		}
	}
}

// used is what a store takes of the disk, in bytes, and what of that are segments.
func used(t *testing.T, store string) (all, segments int64) {
	t.Helper()
	err := filepath.WalkDir(store, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed just now
		}
		var st syscall.Stat_t
		if syscall.Lstat(p, &st) == nil {
			all += st.Blocks * 512
			if strings.HasSuffix(p, ".seg") {
				segments += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all, segments
}

// allowance is what a store on a large disk takes whatever is in it: the ballasts,
// allocated logs of the database and of the store, and tables that wait to be
// merged (docs/full-disk.md).
const allowance = 512 << 20

// settles waits until a store takes no more than it should for live bytes.
func settles(t *testing.T, store string, live int64) {
	t.Helper()
	var all, segments int64
	for end := waits.In(3 * time.Minute); ; time.Sleep(2 * time.Second) {
		all, segments = used(t, store)
		if all <= live*13/10+allowance && segments <= live*13/10+32<<20 {
			break
		}
		if end.Passed() {
			t.Errorf("the disk is not within 1.3 of what is live, and a fixed allowance")
			break
		}
	}
	t.Logf("%d MiB are live; the store takes %d MiB, its segments %d MiB of them", live>>20, all>>20, segments>>20)
}
