package fusefs

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

// stalling is a file system with one directory, which is looked up anew each time; it
// answers until it is to stall.
type stalling struct {
	fuse.RawFileSystem
	stall   atomic.Bool
	release chan struct{}
}

func (s *stalling) attr(a *fuse.Attr, node uint64) fuse.Status {
	if s.stall.Load() {
		<-s.release
	}
	a.Mode, a.Nlink, a.Ino = unix.S_IFDIR|0o755, 1, node
	a.Uid, a.Gid = uint32(os.Geteuid()), uint32(os.Getegid())
	return fuse.OK
}

func (s *stalling) Lookup(_ <-chan struct{}, in *fuse.InHeader, _ string, out *fuse.EntryOut) fuse.Status {
	if in.NodeId != rootID {
		return fuse.ENOENT
	}
	out.NodeId = 2
	return s.attr(&out.Attr, 2)
}

func (s *stalling) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.attr(&out.Attr, in.NodeId)
}

func (s *stalling) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return fuse.OK
}

func (s *stalling) ReadDir(_ <-chan struct{}, _ *fuse.ReadIn, _ *fuse.DirEntryList) fuse.Status {
	return fuse.OK
}

// TestUnmountBelowWhatDoesNotAnswer: a file system on the way to a mountpoint that does
// not answer any more keeps neither the caller of an unmount nor, by force, the mount.
func TestUnmountBelowWhatDoesNotAnswer(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	at := filepath.Join(s.dir, "far")
	must(t, os.Mkdir(at, 0o755))
	call := mountCall{dir: at, source: "far", uid: uint32(os.Geteuid()), helper: s.hub.helper()}
	fd, err := call.do()
	must(t, err)
	far := &stalling{RawFileSystem: fuse.NewDefaultRawFileSystem(), release: make(chan struct{})}
	server, err := newServer("", fd, far, serverOptions{watch: &s.hub.serving.watch, ended: func() {}, log: s.hub.log})
	must(t, err)
	go server.Serve()
	defer func() { must(t, detach(at, s.hub.helper())) }()

	m := s.mounted("m", Config{Dir: at + "/d"})
	other := s.mounted("other", Config{})
	in, err := os.Open(m.Dir())
	must(t, err)
	defer in.Close()
	s.hub.tests.answer = time.Second / 2
	far.stall.Store(true)
	if err := m.Unmount(context.Background(), false); err == nil {
		t.Error("unmounted through what does not answer")
	}
	if err := m.Unmount(context.Background(), true); err == nil {
		t.Error("unmounted by force through what does not answer")
	}
	if got := s.hub.Mounts(); len(got) != 1 || got[0] != other {
		t.Errorf("there are %d mounts", len(got))
	}
	if _, err := in.Readdirnames(1); err == nil {
		t.Error("the mount still answers")
	}
	s.hub.tests.answer = 0
	s.unmount(other)
	close(far.release)
	for end := waits.In(time.Minute); stillMounted(m.Dir(), m.minor); time.Sleep(10 * time.Millisecond) {
		if end.Passed() {
			t.Fatal("it stays in the tree")
		}
	}
}
