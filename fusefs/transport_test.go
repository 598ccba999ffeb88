package fusefs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/visitor"
	"github.com/warrenfs/warren/scripts/waits"
)

// transportEnv names the transport of mounts that tests make.
const transportEnv = "WARREN_TEST_TRANSPORT"

// longWithOne are the tests that keep mounts under load for a while. With -short
// they do so with one transport, the default.
const longWithOne = "^Test(Case0.*|.*FromTwoMounts|BigDirectory|CoherencePairs|ListingWhileItChanges|MapAgainstWriter|NodeTable.*|" +
	"RandomChanges|ReaderSeesEveryWrite|RevocationUnderLoad|Schedules|Stress|TwoWritersOfOnePage)$"

// TestMain runs all tests over each transport, in a process of its own, unless
// the environment names one.
func TestMain(m *testing.M) {
	if os.Args[0] == visitor.Stage {
		os.Exit(visitor.Run(os.Stdin, os.Stdout))
	}
	flag.Parse()
	if os.Getenv(transportEnv) != "" || flag.Lookup("test.bench").Value.String() != "" || flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // the others end with the thread that started them
	ends := map[string]func() int{}
	for _, name := range Transports()[1:] {
		ends[name] = startOver(name)
	}
	fmt.Println("transport:", Transports()[0])
	os.Setenv(transportEnv, Transports()[0])
	code := m.Run()
	for name, end := range ends {
		fmt.Println("transport:", name)
		code = max(code, end())
	}
	os.Exit(code)
}

// startOver starts this program over with another transport. What it gives waits
// for the end, prints what was said and gives the exit status.
func startOver(transport string) func() int {
	args := os.Args[1:]
	if testing.Short() && flag.Lookup("test.skip").Value.String() == "" {
		args = append(slices.Clone(args), "-test.skip="+longWithOne)
	}
	var out bytes.Buffer
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), transportEnv+"="+transport)
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return func() int { return 1 }
	}
	return func() int {
		err := c.Wait()
		os.Stdout.Write(out.Bytes())
		if err != nil {
			fmt.Println(transport+":", err)
			return 1
		}
		return 0
	}
}

func TestUnknownTransport(t *testing.T) {
	s := newStack(t, memDriver)
	dir := t.TempDir()
	_, err := s.hub.Mount(context.Background(), Config{Agent: "gaia", Dir: dir, Transport: "pigeon"})
	if backend.KindOf(err) != backend.Invalid || !strings.Contains(fmt.Sprint(err), TransportGoFuse) {
		t.Errorf("mount: %v", err)
	}
	if err := s.hub.SetTransport("pigeon", false); backend.KindOf(err) != backend.Invalid {
		t.Errorf("set: %v", err)
	}
}

// TestWaitingLocksStopNobody: whoever waits for a lock takes no reader away from
// the others, and is let go when the mount ends.
func TestWaitingLocksStopNobody(t *testing.T) {
	const waiters = 40
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	file := m.Dir() + "/f"
	must(t, ofd(openRW(t, file), unix.F_WRLCK, unix.F_OFD_SETLK))
	var wg sync.WaitGroup
	errs := make([]error, waiters)
	for i := range waiters {
		f := openRW(t, file)
		wg.Go(func() { errs[i] = ofd(f, unix.F_WRLCK, unix.F_OFD_SETLKW) })
	}
	for end := waits.In(time.Minute); m.Stats().Requests["SETLKW"] < waiters; time.Sleep(time.Millisecond) {
		if end.Passed() {
			t.Fatalf("%d requests were read, of %d that wait", m.Stats().Requests["SETLKW"], waiters)
		}
	}
	begun := time.Now()
	for i := range 50 {
		f, err := os.Create(fmt.Sprint(m.Dir(), "/other", i))
		must(t, err)
		must(t, f.Sync())
		must(t, f.Close())
	}
	if d := time.Since(begun); d > 10*time.Second {
		t.Errorf("50 files took %v", d)
	}
	must(t, m.Unmount(t.Context(), true))
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			t.Errorf("waiter %d has a lock that another holds", i)
		}
	}
}

// TestDirectWritesAreQuiet: writing through handles that leave nothing in the
// page cache tells the writer's own kernel nothing.
func TestDirectWritesAreQuiet(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	before := m.Stats().Notices["INVAL_INODE"]
	for i := range 20 {
		must(t, os.WriteFile(fmt.Sprint(m.Dir(), "/f", i), make([]byte, 10_000), 0o644))
	}
	f, err := os.OpenFile(m.Dir()+"/log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	must(t, err)
	for range 20 {
		_, err := f.WriteString("a line\n")
		must(t, err)
	}
	must(t, f.Close())
	if n := m.Stats().Notices["INVAL_INODE"] - before; n > 0 {
		t.Errorf("%d notices", n)
	}
	// What was read is told.
	if got, err := os.ReadFile(m.Dir() + "/log"); err != nil || len(got) != 140 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	f, err = os.OpenFile(m.Dir()+"/log", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("another\n")
	must(t, err)
	must(t, f.Close())
	if got, err := os.ReadFile(m.Dir() + "/log"); err != nil || !strings.HasSuffix(string(got), "another\n") {
		t.Errorf("read again: %q, %v", got, err)
	}
}

// syncBuffer is a buffer for a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// TestDebug: each request and its reply is in the log, if that is asked for.
func TestDebug(t *testing.T) {
	for _, debug := range []bool{false, true} {
		s := newStack(t, memDriver)
		var log syncBuffer
		s.hub.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		must(t, s.hub.SetTransport(Transports()[0], debug))
		m := s.mounted("m", Config{})
		must(t, os.Mkdir(m.Dir()+"/named", 0o755))
		must(t, m.Unmount(t.Context(), true))
		want := `level=DEBUG msg=go-fuse mount=` + m.Dir()
		for _, part := range []string{want, "rx ", "MKDIR", "named", "tx "} {
			if strings.Contains(log.b.String(), part) != debug {
				t.Errorf("debug %v, %q in the log is wrong:\n%s", debug, part, log.b.String())
			}
		}
	}
}
