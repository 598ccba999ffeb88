package fusefs

import (
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/posixtest"
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
