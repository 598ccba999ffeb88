package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// site puts project "site" into s and gives the facts with web as a member of
// it, and without.
func (s *stack) site() (in, out policy.Facts) {
	s.t.Helper()
	in, out = testFacts(), testFacts()
	in.Projects = map[string]map[string]string{"site": {"web": "write"}}
	out.Projects = map[string]map[string]string{"site": {}}
	s.publish(in)
	_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: view.Label{Kind: view.KindProject, Owner: "site"}})
	must(s.t, err)
	return in, out
}

func (s *stack) publish(f policy.Facts) {
	s.t.Helper()
	must(s.t, s.space.Publish(context.Background(), f))
}

// soon fails the test if nothing comes.
func soon(t *testing.T, ch <-chan error, what string) error {
	t.Helper()
	select {
	case err := <-ch:
		return err
	case <-waits.After(t, time.Minute):
		t.Fatalf("%s: nothing happens", what)
		return nil
	}
}

// TestRevokedLocksAreReleased: a view that loses a file holds up nobody who
// locks it, while its handles are still open.
func TestRevokedLocksAreReleased(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	_, out := s.site()
	web, gaia := s.mount("web", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	held, mine := openRW(t, web+"/projects/site/f"), openRW(t, web+workDir+"/f")
	must(t, ofd(held, unix.F_WRLCK, unix.F_OFD_SETLK))
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))
	must(t, ofd(mine, unix.F_WRLCK, unix.F_OFD_SETLK))
	f, kept := openRW(t, gaia+"/projects/site/f"), openRW(t, gaia+workDir+"/f")
	if err := ofd(f, unix.F_WRLCK, unix.F_OFD_SETLK); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("while web holds it: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(f.Fd()), unix.LOCK_EX) }()
	s.publish(out)
	if err := soon(t, got, "flock"); err != nil {
		t.Errorf("flock after the revocation: %v", err)
	}
	if err := ofd(f, unix.F_WRLCK, unix.F_OFD_SETLK); err != nil {
		t.Errorf("fcntl after the revocation: %v", err)
	}
	if err := ofd(kept, unix.F_WRLCK, unix.F_OFD_SETLK); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a lock on what web still sees: %v", err)
	}
}

// TestRevokedWaitForALock: a request that waits for a lock ends when its view
// loses the file, and has no lock.
func TestRevokedWaitForALock(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	_, out := s.site()
	web, gaia := s.mounted("web", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	f, waits := openRW(t, gaia+"/projects/site/f"), openRW(t, web.Dir()+"/projects/site/f")
	must(t, ofd(f, unix.F_WRLCK, unix.F_OFD_SETLK))
	got := make(chan error, 1)
	go func() { got <- ofd(waits, unix.F_WRLCK, unix.F_OFD_SETLKW) }()
	for len(s.hub.posix.Nodes(web.fs.conn)) == 0 {
		time.Sleep(time.Millisecond)
	}
	s.publish(out)
	if err := soon(t, got, "the wait"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the wait ends with %v", err)
	}
	if n := s.hub.posix.Nodes(web.fs.conn); len(n) > 0 {
		t.Errorf("web has locks on %v", n)
	}
}

// TestLockGrantedAfterRevocation: a lock that is had after the revocation took
// back what there was is given back.
func TestLockGrantedAfterRevocation(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	_, out := s.site()
	web, gaia := s.mounted("web", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	f, waits := openRW(t, gaia+"/projects/site/f"), openRW(t, web.Dir()+"/projects/site/f")
	must(t, ofd(f, unix.F_WRLCK, unix.F_OFD_SETLK))
	// The revocation does not know of this wait: as if it came before it began.
	conn := web.fs.kern.locks.conn
	web.fs.kern.locks.conn = 1 << 40
	got := make(chan error, 1)
	go func() { got <- ofd(waits, unix.F_WRLCK, unix.F_OFD_SETLKW) }()
	for len(s.hub.posix.Nodes(conn)) == 0 {
		time.Sleep(time.Millisecond)
	}
	s.publish(out)
	must(t, ofd(f, unix.F_UNLCK, unix.F_OFD_SETLK))
	if err := soon(t, got, "the wait"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a lock was given after the revocation: %v", err)
	}
	if err := ofd(f, unix.F_WRLCK, unix.F_OFD_SETLK); err != nil {
		t.Errorf("it was kept: %v", err)
	}
}

// TestRevokedDirectoryListsNoMore: an open directory that is listed in part
// gives no more names once its view has lost it.
func TestRevokedDirectoryListsNoMore(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	in, out := s.site()
	web, gaia := s.mount("web", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	for i := range 600 { // more than one READDIR gives
		must(t, os.WriteFile(filepath.Join(gaia, "projects/site", fmt.Sprintf("%0200d", i)), nil, 0o644))
	}
	d, err := unix.Open(web+"/projects/site", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(d)
	buf := make([]byte, 1024)
	if n, err := unix.Getdents(d, buf); n <= 0 || err != nil {
		t.Fatalf("before: %d, %v", n, err)
	}
	s.publish(out)
	// What the kernel has of the first answer may still come; then it asks.
	for err, n := error(nil), 1; n > 0; {
		if n, err = unix.Getdents(d, buf); err != nil {
			if !errors.Is(err, syscall.ENOENT) {
				t.Errorf("after: %v", err)
			}
			break
		} else if n == 0 {
			t.Error("the open directory was listed to its end")
		}
	}
	s.publish(in)
	if list, err := listing(web + "/projects/site"); err != nil || len(list) != 600 {
		t.Errorf("given back: %d names, %v", len(list), err)
	}
}
