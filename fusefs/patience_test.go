package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
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

// TestMountThatKeepsALock: a process of a soul lists a directory into memory that
// comes from a file system of its own, which does not answer; so it keeps the
// directory locked in its kernel. Work on that directory from another mount goes
// on all the same.
func TestMountThatKeepsALock(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	gaia := s.mount("gaia", Config{})
	soul := s.mounted("soul", Config{Agent: "web"})
	must(t, os.MkdirAll(gaia+"/d/old", 0o755))

	at := filepath.Join(s.dir, "slow")
	must(t, os.Mkdir(at, 0o755))
	call := mountCall{dir: at, source: "slow"}
	fd, err := call.do()
	must(t, err)
	slow := &slowFile{fuse.NewDefaultRawFileSystem(), make(chan struct{}, 10), make(chan struct{})}
	server, err := newTransport("", fd, slow, s.hub.log)
	must(t, err)
	go server.Serve()
	defer func() { must(t, unix.Unmount(at, unix.MNT_DETACH|unix.MNT_FORCE)) }()

	cmd := exec.Command("python3", "-c", `
import ctypes, mmap, os, sys
m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
d = os.open(sys.argv[2], os.O_RDONLY)
print(ctypes.CDLL(None).syscall(217, d, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 4096))`,
		at+"/file", soul.Dir()+"/d")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	select {
	case <-slow.asked:
	case <-time.After(20 * time.Second):
		t.Fatalf("the process does not list: %s", &out)
	}
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
	close(slow.release)
	must(t, cmd.Wait())
	if got, err := listing(soul.Dir() + "/d"); err != nil || strings.Join(got, " ") != "first old" {
		t.Errorf("afterwards the soul sees %v, %v", got, err)
	}
}
