package fusefs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

// slowFile is a file system with one file, whose content comes when released.
type slowFile struct {
	fuse.RawFileSystem
	asked, release chan struct{}
}

func (s *slowFile) attr(a *fuse.Attr) {
	a.Mode, a.Nlink, a.Size, a.Ino = unix.S_IFREG|0o644, 1, 4096, 2
}

func (s *slowFile) Lookup(_ <-chan struct{}, _ *fuse.InHeader, _ string, out *fuse.EntryOut) fuse.Status {
	out.NodeId = 2
	s.attr(&out.Attr)
	return fuse.OK
}

func (s *slowFile) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if s.attr(&out.Attr); in.NodeId == rootID {
		out.Mode = unix.S_IFDIR | 0o755
	}
	return fuse.OK
}

func (s *slowFile) Read(_ <-chan struct{}, _ *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	s.asked <- struct{}{}
	<-s.release
	return fuse.ReadResultData(buf), fuse.OK
}

// pin starts a process that lists dir into memory that comes from a file system
// of its own, which does not answer; so it keeps dir locked in its kernel, until
// release is called.
func (s *stack) pin(dir string) (release func()) {
	t := s.t
	t.Helper()
	at := filepath.Join(s.dir, "slow")
	must(t, os.Mkdir(at, 0o755))
	call := mountCall{dir: at, source: "slow", uid: uint32(os.Geteuid()), helper: s.hub.helper()}
	fd, err := call.do()
	must(t, err)
	slow := &slowFile{fuse.NewDefaultRawFileSystem(), make(chan struct{}, 10), make(chan struct{})}
	server, err := newServer("", fd, slow, serverOptions{watch: &s.hub.serving.watch, ended: func() {}, log: s.hub.log})
	must(t, err)
	go server.Serve()

	cmd := exec.Command("python3", "-c", `
import ctypes, mmap, os, sys
m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
d = os.open(sys.argv[2], os.O_RDONLY)
print(ctypes.CDLL(None).syscall(217, d, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 4096))`,
		at+"/file", dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	release = sync.OnceFunc(func() {
		close(slow.release)
		must(t, cmd.Wait())
		must(t, detach(at, s.hub.helper()))
	})
	t.Cleanup(release)
	select {
	case <-slow.asked:
	case <-waits.After(t, time.Minute):
		t.Fatalf("the process does not list: %s", &out)
	}
	return release
}

// TestMountThatKeepsALock: work on a directory goes on although a process of a
// soul keeps it locked in its mount.
func TestMountThatKeepsALock(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	gaia := s.mount("gaia", Config{})
	soul := s.mounted("soul", Config{Agent: "web"})
	must(t, os.MkdirAll(gaia+"/d/old", 0o755))
	release := s.pin(soul.Dir() + "/d")
	start := time.Now()
	must(t, os.Mkdir(gaia+"/d/first", 0o755))
	first := time.Since(start)
	for range 20 {
		must(t, os.Remove(gaia+"/d/first"))
		must(t, os.Mkdir(gaia+"/d/first", 0o755))
	}
	t.Logf("first change after %v, 40 more after %v; %v", first, time.Since(start)-first, soul.Stats().Notices)
	if first < patience || first > 20*patience || time.Since(start)-first > 20*patience {
		t.Errorf("the first change took %v and the others %v", first, time.Since(start)-first)
	}
	release()
	if got, err := listing(soul.Dir() + "/d"); err != nil || strings.Join(got, " ") != "first old" {
		t.Errorf("afterwards the soul sees %v, %v", got, err)
	}
}

// TestUnmountOfAMountThatKeepsALock: such a process cannot keep its mount, even
// while a notice waits for it.
func TestUnmountOfAMountThatKeepsALock(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		gaia := s.mount("gaia", Config{})
		soul := s.mounted("soul", Config{Agent: "web"})
		must(t, os.MkdirAll(gaia+"/d/old", 0o755))
		s.pin(soul.Dir() + "/d")
		must(t, os.Mkdir(gaia+"/d/first", 0o755))
		if err := soul.Unmount(context.Background(), false); backend.KindOf(err) != backend.Busy {
			t.Errorf("without force: %v", err)
		}
		start := time.Now()
		must(t, soul.Unmount(context.Background(), true))
		s.quick("unmount by force", start)
		s.absent(soul)
		start = time.Now()
		must(t, os.Mkdir(gaia+"/d/second", 0o755))
		if took := time.Since(start); took >= patience {
			t.Errorf("a change still waits for it: %v", took)
		}
	})
}
