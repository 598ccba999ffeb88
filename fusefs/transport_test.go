package fusefs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// transportEnv names the transport of mounts that tests make.
const transportEnv = "WARREN_TEST_TRANSPORT"

// longWithOne are the tests that keep mounts under load for a while. With -short
// they do so with one transport, the default.
const longWithOne = "^Test(Case0.*|.*FromTwoMounts|BigDirectory|CoherencePairs|ListingWhileItChanges|MapAgainstWriter|NodeTable.*|" +
	"RandomChanges|ReaderSeesEveryWrite|RevocationUnderLoad|Schedules|Stress|TwoWritersOfOnePage)$"

// TestMain runs all tests over each transport, unless the environment names
// one.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(transportEnv) != "" || flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run())
	}
	code := 0
	for _, name := range Transports() {
		os.Setenv(transportEnv, name)
		fmt.Println("transport:", name)
		if skip := flag.Lookup("test.skip").Value; testing.Short() && name != Transports()[0] && skip.String() == "" {
			if err := skip.Set(longWithOne); err != nil {
				panic(err)
			}
		}
		code = max(code, m.Run())
	}
	os.Exit(code)
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
	for end := time.Now().Add(time.Minute); m.Stats().Requests["SETLKW"] < waiters; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
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
