package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

// helperScript puts a shell script in the place of fusermount3, with the real one
// as $REAL, and has everything mounted and unmounted by it.
func (s *stack) helperScript(script string) {
	s.t.Helper()
	real, err := exec.LookPath("fusermount3")
	if err != nil {
		s.t.Skip("no fusermount3")
	}
	t := s.t.(*testing.T)
	bin := t.TempDir()
	must(t, os.WriteFile(bin+"/fusermount3", []byte("#!/bin/sh\nREAL="+real+"\n"+script+"\nexec $REAL \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s.hub.tests.helper = true
}

// appears waits until path is there.
func appears(t testing.TB, path string) {
	t.Helper()
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		if end.Passed() {
			t.Fatalf("%s does not appear", path)
		}
	}
}

// beingMade has a mount of web's made at dir, whose helper waits for a file go in at.
func (s *stack) beingMade() (at, dir string, made <-chan error) {
	s.t.Helper()
	at = s.t.TempDir()
	s.helperScript(`if [ "$1" = -o ]; then : >` + at + `/asked; while [ ! -e ` + at + `/go ]; do sleep 0.01; done; fi`)
	done := make(chan error, 1)
	dir = s.dir + "/m"
	must(s.t, os.Mkdir(dir, 0o755))
	go func() {
		_, err := s.hub.Mount(context.Background(), Config{Agent: "web", Root: "/", Dir: dir})
		done <- err
	}()
	appears(s.t, at+"/asked")
	return at, dir, done
}

// TestRulesChangeWhileMounting: a mount that is still being made when the rules
// change is left alone, and then shows the tree by the new ones.
func TestRulesChangeWhileMounting(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	in, out := s.site()
	at, dir, made := s.beingMade()
	s.publish(out)
	s.publish(in)
	s.publish(out)
	must(t, os.WriteFile(at+"/go", nil, 0o644))
	must(t, soon(t, made, "the mount"))
	if _, err := os.Lstat(dir + "/projects/site"); !os.IsNotExist(err) {
		t.Errorf("what was taken away while it was mounted: %v", err)
	}
	s.publish(in)
	if _, err := os.Lstat(dir + "/projects/site"); err != nil {
		t.Errorf("what came after it was mounted: %v", err)
	}
}

// TestHelperThatSendsNothing: nobody waits for a descriptor that does not come.
func TestHelperThatSendsNothing(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	s.helperScript(`[ "$1" != -o ] || exit 0`)
	dir := s.dir + "/m"
	must(t, os.Mkdir(dir, 0o755))
	made := make(chan error, 1)
	go func() {
		_, err := s.hub.Mount(context.Background(), Config{Agent: "web", Root: "/", Dir: dir})
		made <- err
	}()
	if err := soon(t, made, "the mount"); err == nil {
		t.Error("mounted")
	}
	if n := fuseDescriptors(); n != 0 {
		t.Errorf("%d descriptors left", n)
	}
}

// TestMountedOver: what somebody has mounted over a mount, or over a directory above,
// is not taken away in its place, by force either.
func TestMountedOver(t *testing.T) {
	for _, helper := range []bool{false, true} {
		t.Run(map[bool]string{false: "mount(2)", true: "fusermount3"}[helper], func(t *testing.T) {
			s := newStack(t, memDriver)
			s.watch(2 * time.Minute)
			s.hub.tests.helper = helper
			above := s.dir + "/above"
			must(t, os.MkdirAll(above+"/m", 0o755))
			m := s.mounted("m", Config{Dir: above + "/m"})
			must(t, os.WriteFile(m.Dir()+"/f", []byte("x"), 0o644))
			for _, at := range []string{m.Dir(), above} {
				must(t, unix.Mount("over", at, "tmpfs", 0, ""))
				for _, force := range []bool{false, true} {
					err := m.Unmount(context.Background(), force)
					if backend.KindOf(err) != backend.Busy || !errors.Is(err, ErrCovered) || !strings.Contains(err.Error(), "tmpfs") {
						t.Errorf("a tmpfs over %s, force %v: %v", at, force, err)
					}
				}
				if e, ok := topMount(at); !ok || e.Type != "tmpfs" {
					t.Fatalf("at %s is %+v, %v", at, e, ok)
				}
				must(t, unix.Unmount(at, 0))
				if b, err := os.ReadFile(m.Dir() + "/f"); string(b) != "x" {
					t.Errorf("uncovered: %q %v", b, err)
				}
			}
			s.unmount(m)
		})
	}
}

// TestMountInABoundDirectory: where a shared directory is bound over itself the kernel makes a
// second mount beneath the one that is asked for. It is unmounted all the same; and so is one
// that was bound over itself.
func TestMountInABoundDirectory(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		above := s.dir + "/above"
		must(t, os.Mkdir(above, 0o755))
		must(t, unix.Mount("shared", above, "tmpfs", 0, ""))
		defer func() { _ = unix.Unmount(above, unix.MNT_DETACH) }()
		must(t, unix.Mount("", above, "", unix.MS_SHARED, ""))
		must(t, unix.Mount(above, above, "", unix.MS_BIND, ""))
		defer func() { _ = unix.Unmount(above, unix.MNT_DETACH) }()
		must(t, os.Mkdir(above+"/m", 0o755))
		for _, force := range []bool{false, true} {
			m := s.mounted("m", Config{Dir: above + "/m"})
			if n := countMounts(m.Dir()); n != 2 {
				t.Errorf("%d mounts", n)
			}
			must(t, m.Unmount(context.Background(), force))
			if n := countMounts(m.Dir()); n != 0 {
				t.Errorf("force %v: %d mounts stay", force, n)
			}
		}
		m := s.mounted("m", Config{})
		must(t, unix.Mount(m.Dir(), m.Dir(), "", unix.MS_BIND, ""))
		must(t, m.Unmount(context.Background(), false))
		if n := countMounts(m.Dir()); n != 0 {
			t.Errorf("bound over itself: %d mounts stay", n)
		}
	})
}

// TestMovedAlong: a mount whose directory moved with one above it is found where it is.
func TestMovedAlong(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint("force ", force), func(t *testing.T) {
			s := newStack(t, memDriver)
			s.watch(2 * time.Minute)
			must(t, os.MkdirAll(s.dir+"/a/m", 0o755))
			m := s.mounted("m", Config{Dir: s.dir + "/a/m"})
			must(t, os.WriteFile(m.Dir()+"/f", []byte("x"), 0o644))
			must(t, os.Rename(s.dir+"/a", s.dir+"/b"))
			must(t, os.MkdirAll(s.dir+"/a/m", 0o755))
			_, err := s.hub.Mount(context.Background(), Config{Agent: "gaia", Dir: s.dir + "/a/m"})
			if backend.KindOf(err) != backend.Busy || !strings.Contains(err.Error(), s.dir+"/b/m") {
				t.Errorf("mounted anew while the mount is elsewhere: %v", err)
			}
			if b, err := os.ReadFile(s.dir + "/b/m/f"); string(b) != "x" {
				t.Errorf("moved along: %q %v", b, err)
			}
			must(t, m.Unmount(context.Background(), force))
			if e, ok := topMount(s.dir + "/b/m"); ok {
				t.Errorf("still there: %+v", e)
			}
			s.unmount(s.mounted("m", Config{Dir: s.dir + "/a/m"}))
		})
	}
}

// TestTakenByForce: umount -f ends the connection first, and takes the mount away then.
func TestTakenByForce(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	for range 20 {
		m := s.mounted("m", Config{})
		must(t, unix.Unmount(m.Dir(), unix.MNT_FORCE))
		if !waits.Received(time.Minute, m.done) {
			t.Fatal("it does not end")
		}
		if !m.Taken() {
			t.Error("it was taken away, and is not said to be")
		}
	}
}

// TestEndWhileMounting: a mount that is still being made when the hub closes, or leaves its
// mounts, is not made.
func TestEndWhileMounting(t *testing.T) {
	for name, end := range map[string]func(*Hub){
		"close": func(h *Hub) { _ = h.Close(context.Background()) },
		"leave": func(h *Hub) { h.Leave(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, memDriver)
			s.watch(2 * time.Minute)
			at, dir, made := s.beingMade()
			end(s.hub)
			must(t, os.WriteFile(at+"/go", nil, 0o644))
			if err := soon(t, made, "the mount"); backend.KindOf(err) != backend.Unavailable {
				t.Errorf("mounted: %v", err)
			}
			if e, ok := topMount(dir); ok {
				t.Errorf("left: %+v", e)
			}
		})
	}
}

// TestMountWithoutDescriptors: whichever descriptor cannot be had, a mount is made or
// it is not, and nothing is left.
func TestMountWithoutDescriptors(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		dir := s.dir + "/m"
		must(t, os.Mkdir(dir, 0o755))
		var old unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
		mounted, before := 0, descriptors(t)
		for more := 0; mounted < 3; more++ {
			if more > 40 {
				t.Fatal("never mounted")
			}
			free, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
			must(t, err)
			unix.Close(free)
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free + more), Max: old.Max}))
			m, err := s.hub.Mount(context.Background(), Config{Agent: "web", Root: "/", Dir: dir, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
			must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
			if err == nil {
				mounted++
				if _, err := os.Lstat(dir); err != nil {
					t.Errorf("%d descriptors: %v", more, err)
				}
				s.unmount(m)
			} else {
				t.Logf("%d descriptors: %v", more, err)
			}
			if e, ok := topMount(dir); ok {
				t.Fatalf("%d descriptors: left %+v", more, e)
			}
		}
		for end := waits.In(time.Minute); descriptors(t) > before; time.Sleep(10 * time.Millisecond) {
			if end.Passed() {
				t.Fatalf("%d descriptors, and there were %d", descriptors(t), before)
			}
		}
	})
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
