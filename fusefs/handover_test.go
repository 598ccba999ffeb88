package fusefs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

// foreign is a mount that a test makes itself, as a client does.
type foreign struct {
	t   *testing.T
	dir string
	fd  int
}

// foreign mounts at name, which nobody serves yet.
func (s *stack) foreign(t *testing.T, name string) *foreign {
	t.Helper()
	f := &foreign{t: t, dir: filepath.Join(s.dir, name)}
	must(t, os.Mkdir(f.dir, 0o755))
	var err error
	f.fd, err = openDevice()
	must(t, err)
	opts := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0,default_permissions,max_read=%d", f.fd, unix.S_IFDIR, maxWrite)
	must(t, unix.Mount("warren:test", f.dir, fsType, unix.MS_NOSUID|unix.MS_NODEV, opts))
	t.Cleanup(f.gone)
	return f
}

// copy gives the descriptor as one that arrives.
func (f *foreign) copy() int {
	f.t.Helper()
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 3)
	must(f.t, err)
	return fd
}

// gone unmounts, and closes the test's own descriptor; it may be called twice.
func (f *foreign) gone() {
	if f.fd >= 0 {
		_ = unix.Unmount(f.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		unix.Close(f.fd)
		f.fd = -1
	}
}

// handOver has f served for agent.
func (s *stack) handOver(f *foreign, agent string) *Mount {
	f.t.Helper()
	m, err := s.hub.TakeOver(context.Background(), f.copy(), Config{Agent: agent, Dir: "inside:" + filepath.Base(f.dir)})
	must(f.t, err)
	latchPoll(f.dir)
	return m
}

func closed(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-waits.After(t, time.Minute):
		t.Fatalf("%s does not end", what)
	}
}

// TestHandOver: a mount that its user made works as one of the daemon's, and
// goes when the user unmounts it.
func TestHandOver(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	f := s.foreign(t, "in")
	m := s.handOver(f, "web")
	work := f.dir + workDir
	must(t, os.WriteFile(work+"/a", []byte("one"), 0o600))
	own := s.mount("own", Config{Agent: "web", Root: "/"}) + workDir
	if b, err := os.ReadFile(own + "/a"); err != nil || string(b) != "one" {
		t.Errorf("%q %v", b, err)
	}
	must(t, os.WriteFile(own+"/a", []byte("two"), 0o600))
	if b, err := os.ReadFile(work + "/a"); err != nil || string(b) != "two" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(f.dir + "/agents/other"); !os.IsNotExist(err) {
		t.Errorf("another's home: %v", err)
	}
	must(t, unix.Unmount(f.dir, unix.UMOUNT_NOFOLLOW))
	closed(t, "mount", m.Done())
	closed(t, "connection", m.Ended())
	if n := len(s.hub.Mounts()); n != 1 {
		t.Errorf("%d mounts", n)
	}
}

// TestNumberUsedAgain: the kernel gives the number of a connection to the next before
// whoever served it has noticed its end. The next is taken over all the same.
func TestNumberUsedAgain(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	f := s.foreign(t, "in")
	number := connectionOf(f.fd)
	if number == 0 {
		t.Skip("this kernel does not tell the number")
	}
	last := &Mount{cfg: Config{Dir: "inside:last"}, minor: number, done: make(chan struct{})}
	s.hub.mu.Lock()
	s.hub.mounts["inside:last"] = last
	s.hub.mu.Unlock()
	taken := make(chan error, 1)
	go func() {
		_, err := s.hub.TakeOver(context.Background(), f.copy(), Config{Agent: "web", Dir: "inside:next"})
		taken <- err
	}()
	select {
	case err := <-taken:
		t.Errorf("before the last has ended: %v", err)
	case <-time.After(50 * time.Millisecond):
		s.hub.mu.Lock()
		delete(s.hub.mounts, "inside:last")
		s.hub.mu.Unlock()
		close(last.done)
		must(t, soon(t, taken, "the hand-over"))
	}
}

// TestForgedDescriptors: what is not a fresh mount's /dev/fuse is refused, and
// nothing stays of it.
func TestForgedDescriptors(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	live := s.mounted("live", Config{})
	served := s.foreign(t, "served")
	s.handOver(served, "web")
	taken := s.foreign(t, "taken") // somebody has read its INIT
	buf := make([]byte, 2*maxWrite)
	if n, err := unix.Read(taken.fd, buf); err != nil || binary.NativeEndian.Uint32(buf[4:]) != 26 {
		t.Fatalf("INIT: %d %v", n, err)
	}
	open := func(name string, flags int) func() int {
		return func() int {
			fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
			must(t, err)
			return fd
		}
	}
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[1])
	for _, c := range []struct {
		name string
		fd   func() int
		kind backend.Kind
	}{
		{"/dev/null", open("/dev/null", unix.O_RDWR), backend.Invalid},
		{"a pipe", func() int { return pipe[0] }, backend.Invalid},
		{"a file", open("/proc/self/exe", unix.O_RDONLY), backend.Invalid},
		{"a directory", open(s.dir, unix.O_RDONLY), backend.Invalid},
		{"a file of a mount", open(live.Dir()+"/.warren/whoami", unix.O_RDONLY), backend.Invalid},
		{"/dev/fuse that is not mounted", open("/dev/fuse", unix.O_RDWR), backend.Invalid},
		{"/dev/fuse by name only", open("/dev/fuse", unix.O_PATH), backend.Invalid},
		{"/dev/fuse for reading", open("/dev/fuse", unix.O_RDONLY), backend.Invalid},
		{"one of the daemon's own mounts", func() int {
			fd, err := unix.FcntlInt(live.fs.kern.dev.file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
			must(t, err)
			return fd
		}, backend.Busy},
		{"one that is served", served.copy, backend.Busy},
		{"one that another serves", taken.copy, backend.Invalid},
		{"no descriptor", func() int { return 1 << 20 }, backend.Invalid},
	} {
		m, err := s.hub.TakeOver(context.Background(), c.fd(), Config{Agent: "web", Dir: "inside:forged"})
		if err == nil {
			t.Errorf("%s: served as %s", c.name, m.Dir())
			continue
		}
		// Busy is Invalid at a moment when nothing is asked for.
		if k := backend.KindOf(err); k != c.kind && (c.kind != backend.Busy || k != backend.Invalid) {
			t.Errorf("%s: %v (%v)", c.name, err, backend.KindOf(err))
		}
	}
	for _, dir := range []string{live.Dir(), served.dir} {
		if _, err := os.ReadFile(dir + "/.warren/whoami"); err != nil {
			t.Errorf("a mount that was there before: %v", err)
		}
	}
}

// TestSharedDescriptors: of a mount whose descriptor comes twice at once, also by
// another open file, one is served.
func TestSharedDescriptors(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	fresh, cloned := s.foreign(t, "fresh"), s.foreign(t, "cloned")
	clone := cloned.clone()
	errs := make(chan error, 4)
	for n, fd := range []int{fresh.copy(), fresh.copy(), cloned.copy(), clone} {
		go func() {
			_, err := s.hub.TakeOver(context.Background(), fd, Config{Agent: "web", Dir: fmt.Sprintf("inside:twice%d", n)})
			errs <- err
		}()
	}
	worked := 0
	for range 4 {
		if err := <-errs; err == nil {
			worked++
		} else if k := backend.KindOf(err); k != backend.Busy && k != backend.Invalid {
			t.Errorf("twice: %v", err)
		}
	}
	if worked != 2 {
		t.Errorf("%d of 2 mounts are served", worked)
	}
	for _, f := range []*foreign{fresh, cloned} {
		if _, err := os.ReadDir(f.dir); err != nil {
			t.Errorf("%s: %v", f.dir, err)
		}
	}
}

// TestOthersConnections: one that another daemon serves is refused, also when it
// has a request to be read; whoever waits for that one is told.
func TestOthersConnections(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	f := s.foreign(t, "theirs")
	buf := make([]byte, 2*maxWrite)
	n, err := unix.Read(f.fd, buf)
	if err != nil || n < 40 {
		t.Fatalf("INIT: %d %v", n, err)
	}
	out := make([]byte, 16+64)
	ne := binary.NativeEndian
	ne.PutUint32(out, uint32(len(out)))
	copy(out[8:16], buf[8:16])
	ne.PutUint32(out[16:], 7)
	ne.PutUint32(out[20:], 28)
	ne.PutUint32(out[16+20:], 4096) // max_write
	if _, err := unix.Write(f.fd, out); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	go func() {
		var st unix.Statfs_t
		told <- unix.Statfs(f.dir, &st)
	}()
	p := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, 60_000); n != 1 || err != nil {
		t.Fatalf("no request: %v", err)
	}
	if _, err := s.hub.TakeOver(context.Background(), f.copy(), Config{Agent: "web", Dir: "inside:theirs"}); backend.KindOf(err) != backend.Invalid {
		t.Errorf("another's connection: %v", err)
	}
	if err := <-told; !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("who waited: %v", err)
	}
}

// clone gives another open file of the connection.
func (f *foreign) clone() int {
	f.t.Helper()
	const devClone = 0x8004e500 // FUSE_DEV_IOC_CLONE
	fd, err := openDevice()
	must(f.t, err)
	if err := unix.IoctlSetPointerInt(fd, devClone, f.fd); err != nil {
		f.t.Fatalf("clone: %v", err)
	}
	return fd
}

// TestHandedOverNames: names for TakeOver are not those of mountpoints, and an
// agent or a root that is not there is refused.
func TestHandedOverNames(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	for _, c := range []struct {
		cfg  Config
		kind backend.Kind
	}{
		{Config{Agent: "web", Dir: "/warren"}, backend.Invalid}, {Config{Agent: "web"}, backend.Invalid},
		{Config{Agent: "nobody", Dir: "inside:x"}, backend.NotFound},
		{Config{Agent: "web", Root: "/agents/other", Dir: "inside:x"}, backend.NotFound},
	} {
		f := s.foreign(t, fmt.Sprintf("n%d%s", len(c.cfg.Dir), c.cfg.Agent)+filepath.Base("x"+c.cfg.Root))
		if _, err := s.hub.TakeOver(context.Background(), f.copy(), c.cfg); backend.KindOf(err) != c.kind {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

// TestGuessedNodes: a handed-over mount reaches no node that it was not told of,
// be it in its view, and gives files to nobody else.
func TestGuessedNodes(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	own := s.mount("own", Config{Root: "/"})
	must(t, os.WriteFile(own+workDir+"/mine", []byte("mine"), 0o644))
	must(t, os.WriteFile(own+"/agents/other/workspace/theirs", []byte("theirs"), 0o666))
	f := s.foreign(t, "in")
	m := s.handOver(f, "web")
	for _, path := range []string{workDir + "/mine", "/agents/other/workspace/theirs"} {
		var st unix.Stat_t
		must(t, unix.Lstat(own+path, &st))
		h := fuse.InHeader{NodeId: st.Ino}
		var attr fuse.AttrOut
		var entry fuse.EntryOut
		var open fuse.OpenOut
		ops := map[string]fuse.Status{
			"getattr": m.gate.GetAttr(nil, &fuse.GetAttrIn{InHeader: h}, &attr),
			"open":    m.gate.Open(nil, &fuse.OpenIn{InHeader: h}, &open),
			"setattr": m.gate.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: h, Valid: fuse.FATTR_SIZE}}, &attr),
			"unlink":  m.gate.Unlink(nil, &h, "x"),
			"link":    m.gate.Link(nil, &fuse.LinkIn{InHeader: fuse.InHeader{NodeId: rootID}, Oldnodeid: st.Ino}, "x", &entry),
			"lookup":  m.gate.Lookup(nil, &h, "x", &entry),
			"write":   second(m.gate.Write(nil, &fuse.WriteIn{InHeader: h, Fh: 1}, []byte("x"))),
			"setlk":   m.gate.SetLk(nil, &fuse.LkIn{InHeader: h, Fh: 1}),
		}
		buf := make([]byte, 16)
		if r, status := m.gate.Read(nil, &fuse.ReadIn{InHeader: h, Size: 16}, buf); status == fuse.OK {
			t.Errorf("%s: read %v", path, r)
		}
		for op, status := range ops {
			if status == fuse.OK || status == fuse.ENOSYS {
				t.Errorf("%s: %s of a node that was guessed: %v", path, op, status)
			}
		}
	}
	if b, err := os.ReadFile(f.dir + workDir + "/mine"); err != nil || string(b) != "mine" {
		t.Errorf("after the look-up: %q %v", b, err)
	}
	if b, err := os.ReadFile(own + "/agents/other/workspace/theirs"); err != nil || string(b) != "theirs" {
		t.Errorf("another's file: %q %v", b, err)
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestForgedReply: whoever keeps the descriptor of a mount that it handed over
// can answer its kernel itself, but makes it show no file by a guessed number.
func TestForgedReply(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	own := s.mount("own", Config{Root: "/"})
	must(t, os.WriteFile(own+"/agents/other/workspace/theirs", []byte("theirs"), 0o666))
	var st unix.Stat_t
	must(t, unix.Lstat(own+"/agents/other/workspace/theirs", &st))
	f := s.foreign(t, "in")
	m := s.handOver(f, "web")
	before := m.fs.kern.size()
	got := make(chan error, 1)
	for range 20 { // the daemon may be faster
		go func() {
			b, err := os.ReadFile(f.dir + "/guess")
			if err == nil {
				err = fmt.Errorf("read %q", b)
			}
			got <- err
		}()
		f.forge(st.Ino)
		if err := <-got; !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.EBADF) {
			t.Fatalf("by a forged reply: %v", err)
		}
	}
	if n := m.fs.kern.size(); n > before {
		t.Errorf("nodes: %d, were %d", n, before)
	}
}

// forge reads one request, if the daemon does not, and answers a LOOKUP by node.
func (f *foreign) forge(node uint64) {
	buf := make([]byte, 2*maxWrite)
	p := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		if n, _ := unix.Poll(p, 5); n != 1 || unix.SetNonblock(f.fd, true) != nil {
			continue
		}
		n, err := unix.Read(f.fd, buf)
		_ = unix.SetNonblock(f.fd, false)
		if err != nil || n < 40 {
			continue
		}
		ne := binary.NativeEndian
		out := make([]byte, 16+128)
		copy(out[8:16], buf[8:16])
		if ne.Uint32(buf[4:]) == 1 { // LOOKUP
			ne.PutUint64(out[16:], node)
			ne.PutUint64(out[24:], 1)
			ne.PutUint32(out[16+40+60:], unix.S_IFREG|0o666)
			ne.PutUint32(out[16+40+64:], 1)
		} else {
			out = out[:16]
			ne.PutUint32(out[4:], ^uint32(unix.EIO)+1)
		}
		ne.PutUint32(out, uint32(len(out)))
		_, _ = unix.Write(f.fd, out)
		return
	}
}

// TestForgedIDs: whatever uid a request has, it is the mount's user's; it gives
// nothing to others and makes no device.
func TestForgedIDs(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	f := s.foreign(t, "in")
	m := s.handOver(f, "web")
	work, err := m.fs.view.Resolve(workDir)
	must(t, err)
	must(t, errOf(os.Stat(f.dir+workDir)))
	h := fuse.InHeader{NodeId: uint64(work.Node), Caller: fuse.Caller{Owner: fuse.Owner{Uid: 4321, Gid: 4322}, Pid: 1}}
	var out fuse.EntryOut
	if st := m.gate.Mkdir(nil, &fuse.MkdirIn{InHeader: h, Mode: 0o755}, "d", &out); st != fuse.OK || out.Uid != 0 || out.Gid != 0 {
		t.Errorf("mkdir by a forged uid: %v, %d:%d", st, out.Uid, out.Gid)
	}
	other := s.mount("other", Config{Root: "/", UID: 7, GID: 8})
	var st unix.Stat_t
	must(t, unix.Lstat(f.dir+workDir+"/d", &st))
	if other == "" || st.Uid != 0 {
		t.Errorf("d is %d's", st.Uid)
	}
	a, err := m.fs.view.Resolve(workDir + "/d")
	must(t, err)
	if a.UID != 0 {
		t.Errorf("stored as %d's", a.UID)
	}
	if err := os.Chown(f.dir+workDir+"/d", 4321, -1); !errors.Is(err, unix.EPERM) {
		t.Errorf("chown: %v", err)
	}
	if err := os.Chown(f.dir+workDir+"/d", -1, 4321); !errors.Is(err, unix.EPERM) {
		t.Errorf("chgrp: %v", err)
	}
	must(t, os.Chown(f.dir+workDir+"/d", 0, 0))
	if err := unix.Mknod(f.dir+workDir+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); !errors.Is(err, unix.EPERM) {
		t.Errorf("mknod of a device: %v", err)
	}
	must(t, unix.Mkfifo(f.dir+workDir+"/fifo", 0o600))
}

func errOf[T any](_ T, err error) error { return err }

// TestCutOff: when it returns nothing is let in any more, and what was cached is
// not shown; the mount goes with its user.
func TestCutOff(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	f := s.foreign(t, "in")
	m := s.handOver(f, "web")
	name := f.dir + workDir + "/a"
	must(t, os.WriteFile(name, []byte("secret"), 0o600))
	file, err := os.Open(name)
	must(t, err)
	defer file.Close()
	buf := make([]byte, 6)
	if _, err := file.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	m.CutOff()
	closed(t, "mount", m.Done())
	for end := waits.In(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err = file.ReadAt(buf, 0); err != nil || end.Passed() {
			break // pages go in a goroutine
		}
	}
	if !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("read of an open file: %v", err)
	}
	if _, err := os.ReadFile(name); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("open: %v", err)
	}
	if err := os.WriteFile(name, nil, 0o600); !errors.Is(err, unix.ENOTCONN) {
		t.Errorf("write: %v", err)
	}
	file.Close()
	f.gone()
	closed(t, "connection", m.Ended())
}
