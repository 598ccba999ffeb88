package fusefs

import (
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"
)

// notPosix are entries of the suite that fail on every file system of Linux.
var notPosix = map[string]string{
	"FcntlFlockLocksFile": "wants a process to conflict with a record lock of its own (skipped upstream too)",
}

// TestPosix runs go-fuse's conformance suite on a real mount over each driver.
func TestPosix(t *testing.T) {
	for name, d := range map[string]driver{"mem": memDriver, "badger": badgerDriver} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, d)
			s.watch(3 * time.Minute)
			dir := s.mount("m", Config{})
			names := make([]string, 0, len(posixtest.All))
			for n := range posixtest.All {
				names = append(names, n)
			}
			sort.Strings(names)
			for _, n := range names {
				t.Run(n, func(t *testing.T) {
					if why := notPosix[n]; why != "" {
						t.Skip(why)
					}
					sub := filepath.Join(dir, n)
					must(t, os.Mkdir(sub, 0o755))
					posixtest.All[n](t, sub)
				})
			}
		})
	}
}

// TestFarTimes: a time beyond the range of the store is the last one or the first
// one of it, never one of another century.
func TestFarTimes(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	file := filepath.Join(s.mount("m", Config{}), "f")
	must(t, os.WriteFile(file, nil, 0o644))
	for sec, year := range map[int64]int{10_413_792_000: 2262, 1<<63 - 1: 2262, 1 << 62: 2262, -11_676_096_000: 1677, -1 << 63: 1677, 9_223_372_036: 2262} {
		must(t, unix.UtimesNanoAt(unix.AT_FDCWD, file, []unix.Timespec{{Sec: sec}, {Sec: sec}}, 0))
		var st unix.Stat_t
		must(t, unix.Stat(file, &st))
		if got := time.Unix(st.Mtim.Sec, 0).UTC().Year(); got != year || st.Mtim != st.Atim {
			t.Errorf("%d s: year %d, want %d", sec, got, year)
		}
	}
}
