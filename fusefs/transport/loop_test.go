package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

// testFS has names whose look-up waits ("wait..."), or takes a millisecond
// ("busy..."), and one file.
type testFS struct {
	fuse.RawFileSystem
	waiting atomic.Int32
	release chan struct{}
	content []byte
	largest atomic.Int64 // READ or WRITE
	standby func()
}

func (f *testFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	switch {
	case strings.HasPrefix(name, "wait"):
		f.waiting.Add(1)
		f.standby()
		<-f.release
		return fuse.ENOENT
	case strings.HasPrefix(name, "busy"):
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		}
		return fuse.ENOENT
	case name == "panic":
		panic("of a test")
	case name != "file":
		return fuse.ENOENT
	}
	out.NodeId = 2
	out.Attr = fuse.Attr{Ino: 2, Mode: unix.S_IFREG | 0o644, Nlink: 1, Size: uint64(len(f.content))}
	return fuse.OK
}

func (f *testFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr = fuse.Attr{Ino: 2, Mode: unix.S_IFREG | 0o644, Nlink: 1, Size: uint64(len(f.content))}
	if in.NodeId == fuse.FUSE_ROOT_ID {
		out.Attr = fuse.Attr{Ino: 1, Mode: unix.S_IFDIR | 0o755, Nlink: 1}
	}
	return fuse.OK
}

func (f *testFS) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (f *testFS) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	f.largest.Store(max(f.largest.Load(), int64(len(buf))))
	from := min(int(in.Offset), len(f.content))
	return fuse.ReadResultData(buf[:copy(buf, f.content[from:])]), fuse.OK
}

func (f *testFS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	f.largest.Store(max(f.largest.Load(), int64(len(data))))
	copy(f.content[in.Offset:], data)
	return uint32(len(data)), fuse.OK
}

// mounted is a connection of a test.
type mounted struct {
	dir    string
	fs     *testFS
	loop   *Loop
	served chan struct{}
	log    *bytes.Buffer
}

// mount mounts a testFS. declare tells whether its handlers say that they wait.
func mount(t *testing.T, w *Watch, declare bool) *mounted {
	t.Helper()
	return mountWith(t, w, declare, nil)
}

// mountWith is mount with what makes the buffers.
func mountWith(t *testing.T, w *Watch, declare bool, buffers func(int) (*buffers, error)) *mounted {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	m := &mounted{dir: t.TempDir(), served: make(chan struct{}), log: new(bytes.Buffer),
		fs: &testFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), release: make(chan struct{}), content: make([]byte, 3<<20), standby: func() {}}}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=%d", fd, 1<<20)
	if err := unix.Mount("test", m.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		unix.Close(fd)
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(m.dir, unix.MNT_FORCE|unix.MNT_DETACH) })
	m.loop, err = New(fd, m.fs, Options{
		Mount: &fuse.MountOptions{MaxWrite: 1 << 20, EnableLocks: true, PanicHandler: func(any) fuse.Status { return fuse.EIO }},
		Ended: sync.OnceFunc(func() { close(m.fs.release) }), Watch: w, Log: slog.New(slog.DiscardHandler), tests: buffers})
	if err != nil {
		t.Fatal(err)
	}
	if declare {
		m.fs.standby = m.loop.Standby
	}
	go func() {
		m.loop.Serve()
		close(m.served)
	}()
	return m
}

// soon fails the test unless cond comes true.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := waits.In(time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if end.Passed() {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// umount unmounts and waits for the end.
func (m *mounted) umount(t *testing.T, flags int) {
	t.Helper()
	if err := unix.Unmount(m.dir, flags); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.served:
	case <-waits.After(t, time.Minute):
		t.Fatal("Serve does not return")
	}
}

func descriptors() (n int) {
	list, _ := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); to == "/dev/fuse" {
			n++
		}
	}
	return n
}

// wait looks up n names that wait.
func (m *mounted) wait(t *testing.T, n int) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var st unix.Stat_t
			_ = unix.Lstat(fmt.Sprintf("%s/wait%d", m.dir, i), &st)
		})
	}
	soon(t, fmt.Sprint(n, " look-ups wait"), func() bool { return int(m.fs.waiting.Load()) == n })
	return &wg
}

// TestServedWhileHandlersWait: whether or not they say so.
func TestServedWhileHandlersWait(t *testing.T) {
	for _, declare := range []bool{true, false} {
		t.Run(fmt.Sprint("declared ", declare), func(t *testing.T) {
			m := mount(t, new(Watch), declare)
			wg := m.wait(t, 20)
			begun := time.Now()
			var st unix.Stat_t
			if err := unix.Stat(m.dir+"/file", &st); err != nil {
				t.Error(err)
			}
			if d := time.Since(begun); d > 2*time.Second {
				t.Errorf("a request waited %v for those before it", d)
			}
			for range 20 {
				m.fs.release <- struct{}{}
			}
			wg.Wait()
			soon(t, "spare goroutines end", func() bool {
				m.loop.mu.Lock()
				defer m.loop.mu.Unlock()
				return m.loop.live <= 1+maxParked
			})
			m.umount(t, 0)
		})
	}
}

// TestNoMemoryForAReader: when there is none for one that is to read while a handler
// waits, the next that comes back from its handler reads; and the new one does once there is.
func TestNoMemoryForAReader(t *testing.T) {
	var m *mounted
	var without atomic.Bool
	failed := make(chan struct{}, 100)
	m = mountWith(t, new(Watch), true, func(size int) (*buffers, error) {
		if !without.Load() {
			return newBuffers(size)
		}
		soon(t, "the handler's goroutine is parked", func() bool {
			m.loop.mu.Lock()
			defer m.loop.mu.Unlock()
			return m.loop.parked > 0 || !without.Load()
		})
		failed <- struct{}{}
		return nil, unix.ENOMEM
	})
	var st unix.Stat_t
	if err := unix.Stat(m.dir+"/file", &st); err != nil { // somebody reads
		t.Fatal(err)
	}
	without.Store(true)
	wg := m.wait(t, 1)
	m.fs.release <- struct{}{}
	wg.Wait()
	<-failed
	if err := unix.Stat(m.dir+"/file", &st); err != nil {
		t.Error(err)
	}
	soon(t, "one goroutine is left", func() bool {
		m.loop.mu.Lock()
		defer m.loop.mu.Unlock()
		return m.loop.live == 1
	})
	m.fs.waiting.Store(0)
	wg = m.wait(t, 1)
	without.Store(false)
	if err := unix.Stat(m.dir+"/file", &st); err != nil { // while the handler waits
		t.Error(err)
	}
	m.fs.release <- struct{}{}
	wg.Wait()
	m.umount(t, 0)
}

// TestEnd: nothing is left of a connection, whether it is unmounted or aborted
// with handlers that wait.
func TestEnd(t *testing.T) {
	var w Watch
	before, fds := runtime.NumGoroutine(), descriptors()
	m := mount(t, &w, true)
	m.umount(t, 0)
	m = mount(t, &w, true)
	wg := m.wait(t, 5)
	m.umount(t, unix.MNT_FORCE|unix.MNT_DETACH)
	wg.Wait()
	if n := len(*w.loops.Load()); n != 0 {
		t.Errorf("%d loops are still watched", n)
	}
	if n := descriptors(); n != fds {
		t.Errorf("%d descriptors left", n-fds)
	}
	soon(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestBigRequests: a READ and a WRITE of the largest size come whole, and what
// their buffers took is given back.
func TestBigRequests(t *testing.T) {
	m := mount(t, new(Watch), true)
	defer m.umount(t, 0)
	fd, err := unix.Open(m.dir+"/file", unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	want := bytes.Repeat([]byte("0123456789abcde\n"), 3<<16)
	if n, err := unix.Pwrite(fd, want, 0); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	written := m.fs.largest.Swap(0)
	got := make([]byte, len(want))
	if n, err := unix.Pread(fd, got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v, equal %v", n, err, bytes.Equal(got, want))
	}
	if read := m.fs.largest.Load(); written != 1<<20 || read != 1<<20 {
		t.Errorf("WRITEs have %d bytes, READs %d", written, read)
	}
	had := anonymous(t)
	time.Sleep((trimAfter + 200) * time.Millisecond) // looking often would take memory
	if now := anonymous(t); now > had-1<<19 {
		t.Errorf("%d bytes before, %d after a quiet second", had, now)
	}
}

// TestTrim: what is given back is not memory any more, the rest is.
func TestTrim(t *testing.T) {
	b, err := newBuffers(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.free()
	for _, buf := range [][]byte{b.in, b.out} {
		for i := range buf {
			buf[i] = 1
		}
	}
	b.note(1 << 20)
	b.trim()
	for _, buf := range [][]byte{b.in, b.out} {
		if buf[keepUsed-1] != 1 || buf[keepUsed] != 0 || buf[len(buf)-1] != 0 {
			t.Errorf("%d %d %d", buf[keepUsed-1], buf[keepUsed], buf[len(buf)-1])
		}
	}
}

// anonymous gives the process's memory that is no file's.
func anonymous(t *testing.T) (kb int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Skip("this kernel does not tell")
	return 0
}

// TestPanic: of a handler is an error of its request only.
func TestPanic(t *testing.T) {
	m := mount(t, new(Watch), true)
	defer m.umount(t, 0)
	var st unix.Stat_t
	if err := unix.Stat(m.dir+"/panic", &st); err != unix.EIO {
		t.Errorf("stat: %v", err)
	}
	if err := unix.Stat(m.dir+"/file", &st); err != nil {
		t.Error(err)
	}
}

// TestNonblocking: whoever shares the open file can make it non-blocking; the
// loop waits all the same.
func TestNonblocking(t *testing.T) {
	m := mount(t, new(Watch), true)
	defer m.umount(t, 0)
	if err := unix.SetNonblock(m.loop.fd, true); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	for range 3 {
		if err := unix.Stat(m.dir+"/file", &st); err != nil {
			t.Error(err)
		}
	}
	if used := cpu(200 * time.Millisecond); used > 100*time.Millisecond {
		t.Errorf("waiting costs %v of 200 ms", used)
	}
}

// TestManyIdle: connections that have nothing to do cost no time.
func TestManyIdle(t *testing.T) {
	var w Watch
	var st unix.Stat_t
	for range 24 {
		m := mount(t, &w, true)
		defer m.umount(t, 0)
		if err := unix.Stat(m.dir+"/file", &st); err != nil {
			t.Error(err)
		}
	}
	soon(t, "the watch rests", func() bool { return !w.awake.Load() })
	if used := cpu(500 * time.Millisecond); used > 100*time.Millisecond {
		t.Errorf("idle for 500 ms costs %v", used)
	}
}

// cpu tells how much processor time the process takes in d.
func cpu(d time.Duration) time.Duration {
	used := func() time.Duration {
		var r unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := used()
	time.Sleep(d)
	return used() - before
}

// TestCrowd: more goroutines read while requests queue, one when they do not.
func TestCrowd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	m := mount(t, new(Watch), true)
	defer m.umount(t, 0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := 0; !stop.Load(); j++ {
				var st unix.Stat_t
				_ = unix.Lstat(fmt.Sprintf("%s/busy%d-%d", m.dir, i, j), &st)
			}
		})
	}
	soon(t, "more may read", func() bool { return m.loop.most.Load() > 1 && m.loop.busy.Load() > 1 })
	stop.Store(true)
	wg.Wait()
	soon(t, "one may read", func() bool { return m.loop.most.Load() == 1 })
	var st unix.Stat_t
	for range 5 { // a reader too many is parked after its next request
		if err := unix.Stat(m.dir+"/file", &st); err != nil {
			t.Error(err)
		}
	}
	soon(t, "one reads", func() bool { return m.loop.reading.Load() <= 1 })
}

// TestRefusals: a request that the library gives up on is answered with an
// error, not left.
func TestRefusals(t *testing.T) {
	out := make([]byte, outHeaderSize)
	in := make([]byte, inHeaderSize)
	in[8] = 7 // unique
	if n := refuse(out, in, fuse.EIO); n != outHeaderSize || replyError(out) != int32(unix.EIO) || out[8] != 7 {
		t.Errorf("%d bytes: %v", n, out)
	}
	if _, err := New(-1, fuse.NewDefaultRawFileSystem(), Options{Mount: &fuse.MountOptions{}, Log: slog.New(slog.DiscardHandler)}); err != unix.EBADF {
		t.Errorf("no descriptor: %v", err)
	}
	notFuse, err := os.Open(filepath.Dir(os.Args[0]))
	if err != nil {
		t.Fatal(err)
	}
	fd, _ := unix.Dup(int(notFuse.Fd()))
	notFuse.Close()
	if _, err := New(fd, fuse.NewDefaultRawFileSystem(), Options{Mount: &fuse.MountOptions{}, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a directory is served")
	}
}
