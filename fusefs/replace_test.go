package fusefs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// busily makes a directory in dir over and over, as a program at work does.
func busily(dir string) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Mkdir(filepath.Join(dir, "agents"), 0o755)
			}
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}

// die leaves a dead mount of uid at dir, as a daemon that is killed does.
func die(t *testing.T, dir string, uid uint32) {
	t.Helper()
	call := mountCall{dir: dir, source: "warren:gone", uid: uid, gid: uid}
	fd, err := call.do()
	must(t, err)
	must(t, unix.Close(fd))
}

// TestDeadMountIsReplacedInPlace: a program at work in a dead mount never gets
// at the directory beneath.
func TestDeadMountIsReplacedInPlace(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	if s.hub.helper() {
		t.Skip("fusermount3 cannot")
	}
	dir := filepath.Join(s.dir, "m")
	must(t, os.Mkdir(dir, 0o755))
	for round := range 20 {
		uid := uint32(round % 2 * 4321)
		must(t, os.Chown(dir, int(uid), int(uid)))
		for range 1 + round%3 {
			die(t, dir, uid)
		}
		stop := busily(dir)
		cfg := Config{Agent: "web", Dir: dir, UID: uid, GID: uid, AllowOther: true}
		m, err := s.hub.Mount(context.Background(), cfg)
		if err != nil {
			stop()
			must(t, ClearDead(dir))
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := os.Stat(dir + "/agents"); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if n := countMounts(dir); n != 1 {
			t.Errorf("round %d: %d mounts", round, n)
		}
		stop()
		must(t, m.Unmount(context.Background(), true))
		if got, err := os.ReadDir(dir); err != nil || len(got) > 0 {
			t.Fatalf("round %d: in the directory beneath: %v %v", round, got, err)
		}
	}
}

// TestReplacedMountIsAsAsked: the new way to mount sets what mount(2) sets.
func TestReplacedMountIsAsAsked(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	if s.hub.helper() {
		t.Skip("fusermount3 cannot")
	}
	dir := filepath.Join(s.dir, "m")
	must(t, os.Mkdir(dir, 0o755))
	var lines [2]string
	for i := range lines {
		if i == 1 {
			die(t, dir, 0)
		}
		m, err := s.hub.Mount(context.Background(), Config{Agent: "web", Dir: dir, Access: view.ReadOnly, AllowOther: true})
		must(t, err)
		lines[i] = mountLine(t, dir)
		must(t, m.Unmount(context.Background(), true))
	}
	if lines[0] != lines[1] || lines[0] == "" {
		t.Errorf("%q, but in place of a dead one %q", lines[0], lines[1])
	}
}

// TestMountThatComesBackHidesWhatIsThere: what came while it was away does not
// keep it away. A mount made anew is refused, dead one in the way or not.
func TestMountThatComesBackHidesWhatIsThere(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := filepath.Join(s.dir, "m")
	must(t, os.MkdirAll(dir+"/made", 0o755))
	for _, c := range []struct{ dead, oldKernel bool }{{false, false}, {true, false}, {true, true}} {
		s.hub.tests.oldKernel = c.oldKernel
		if c.dead {
			die(t, dir, uint32(os.Geteuid()))
		}
		cfg := Config{Agent: "web", Dir: dir, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		if m, err := s.hub.Mount(context.Background(), cfg); backend.KindOf(err) != backend.NotEmpty {
			t.Fatalf("%+v: mounted at %v, %v", c, m, err)
		}
		cfg.Exact = true
		m, err := s.hub.Mount(context.Background(), cfg)
		must(t, err)
		if _, err := os.Stat(dir + "/made"); err == nil {
			t.Errorf("%+v: not mounted over", c)
		}
		must(t, m.Unmount(context.Background(), true))
	}
}

// mountLine is what mountinfo says of the mount at dir, but for its numbers:
// its options and those of its file system.
func mountLine(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for line := range strings.Lines(string(b)) {
		here, what, _ := strings.Cut(line, " - ")
		if f := strings.Fields(here); f[4] == dir {
			return f[5] + " " + what
		}
	}
	return ""
}
