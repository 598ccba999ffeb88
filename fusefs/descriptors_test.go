package fusefs

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// TestNoDescriptors: a mount that fails because descriptors ran out names the limit, and
// guesses nothing else.
func TestNoDescriptors(t *testing.T) {
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	s := newStack(t, memDriver)
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	unix.Close(fd)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(fd), Max: old.Max}))
	_, err = s.hub.Mount(t.Context(), Config{Agent: "gaia", Root: "/", Dir: t.TempDir()})
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if err == nil || backend.KindOf(err) != backend.Unavailable || !strings.Contains(err.Error(), "(EMFILE)") {
		t.Errorf("%v", err)
	}
}

// TestKindOfErrno: of the kinds that are one errno always the same is meant.
func TestKindOfErrno(t *testing.T) {
	for range 100 {
		if a, b := kindOfErrno(unix.EROFS), kindOfErrno(unix.EEXIST); a != backend.ReadOnly || b != backend.Exist {
			t.Fatal(a, b)
		}
	}
}
