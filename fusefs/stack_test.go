package fusefs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/fusefs/visitor"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// stack is a whole store with its hub, and real mounts.
type stack struct {
	t     testing.TB
	tree  *tree.Tree
	space *view.Space
	hub   *Hub
	dir   string
	hung  atomic.Bool
}

// workDir is the tree path that most tests mount as their root.
const workDir = "/agents/web/workspace"

func testFacts() policy.Facts {
	return policy.Facts{
		Agents: map[string]policy.Agent{
			"gaia":  {Key: "gaia", Role: "orchestrator"},
			"web":   {Key: "web", Role: "soul", User: "ada", Parent: "gaia"},
			"other": {Key: "other", Role: "soul", User: "bob", Parent: "gaia"},
		},
		Users: map[string]bool{"ada": true, "bob": true},
	}
}

// driver opens a store driver and its content.
type driver func(t testing.TB, dir string) (backend.Store, backend.Content)

func memDriver(_ testing.TB, _ string) (backend.Store, backend.Content) {
	return mem.New(mem.Options{}), mem.Content{}
}

func badgerDriver(t testing.TB, dir string) (backend.Store, backend.Content) {
	s, err := badger.Open(context.Background(), badger.Options{Dir: filepath.Join(dir, "badger")})
	if err != nil {
		t.Fatal(err)
	}
	return s, badger.Content{}
}

// newStack makes a store with the volumes of testFacts. What it made is taken
// down, and checked, when the test ends.
func newStack(t testing.TB, d driver) *stack {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	return anyStack(t, d)
}

// anyStack is newStack for tests that run as any user who may use /dev/fuse.
func anyStack(t testing.TB, d driver) *stack {
	t.Helper()
	if unix.Access("/dev/fuse", unix.R_OK|unix.W_OK) != nil {
		t.Skip("no right to use /dev/fuse")
	}
	if _, err := exec.LookPath("fusermount3"); err != nil && os.Geteuid() != 0 {
		t.Skip("mounting needs root, or fusermount3")
	}
	ctx := context.Background()
	s := &stack{t: t, dir: t.TempDir()}
	store, content := d(t, s.dir)
	log := testLog(t)
	wb, err := writeback.Open(ctx, writeback.Options{Driver: store, Dir: filepath.Join(s.dir, "log"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	if s.tree, err = tree.Open(ctx, tree.Options{Store: wb, Content: content, Log: log}); err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Swap(testFacts()); err != nil {
		t.Fatal(err)
	}
	s.space = view.New(s.tree, engine, log)
	s.hub = NewHub(s.space, log)
	s.hub.SetVisitor(visitor.New("/proc/self/exe", s.hub.log))
	s.space.SetNotifier(s.hub)
	for _, l := range []view.Label{
		{Kind: view.KindHome, Owner: "web"}, {Kind: view.KindWorkspace, Owner: "web"}, {Kind: view.KindScratch, Owner: "web"},
		{Kind: view.KindHome, Owner: "other"}, {Kind: view.KindWorkspace, Owner: "other"},
		{Kind: view.KindUser, Owner: "ada"},
	} {
		if _, err := s.space.EnsureVolume(ctx, view.VolumeSpec{Label: l}); err != nil {
			t.Fatalf("volume %v: %v", l, err)
		}
	}
	t.Cleanup(func() { s.down(wb) })
	return s
}

func testLog(t testing.TB) *slog.Logger {
	if os.Getenv("WARREN_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// down takes everything down and checks that nothing is left.
func (s *stack) down(store backend.Store) {
	t, ctx := s.t, context.Background()
	mounts := s.hub.Mounts()
	// FORGETs of an unmount do not come; what was unlinked goes by the end of
	// the connection.
	if err := s.hub.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, m := range mounts {
		if n := m.fs.handles.size(); n > 0 {
			t.Errorf("%s: %d handles left", m.Dir(), n)
		}
		if n := m.fs.kern.naming.Load(); n != 0 {
			t.Errorf("%s: %d name changes counted as under way", m.Dir(), n)
		}
	}
	if !s.hub.posix.Empty() || !s.hub.flock.Empty() {
		t.Error("file locks left")
	}
	if n := len(s.hub.writers.of); n > 0 {
		t.Errorf("%d cached writers left", n)
	}
	if n := len(*s.hub.kernels.Load()); n > 0 {
		t.Errorf("%d kernels left", n)
	}
	// A connection that was cut off, not aborted, ends with the last user, which
	// may be a namespace that another package's tests have made.
	s.closed()
	if table, err := mountTable(); err == nil {
		for _, e := range table {
			if strings.HasPrefix(e.Dir, s.dir) {
				t.Errorf("still mounted: %s", e.Dir)
			}
		}
	}
	if !s.hung.Load() {
		if err := s.tree.Check(ctx, tree.CheckOptions{}, func(p tree.Problem) { t.Errorf("fsck: %+v", p) }); err != nil {
			t.Errorf("fsck: %v", err)
		}
	}
	if err := s.tree.Close(); err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func fuseDescriptors() (n int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == "/dev/fuse" {
			n++
		}
	}
	return n
}

// mount mounts a view of the orchestrator's, of workDir unless cfg says
// otherwise, and gives its mountpoint.
func (s *stack) mount(name string, cfg Config) string {
	s.t.Helper()
	return s.mounted(name, cfg).Dir()
}

func (s *stack) mounted(name string, cfg Config) *Mount {
	s.t.Helper()
	if cfg.Agent == "" {
		cfg.Agent = "gaia"
	}
	if cfg.Root == "" {
		cfg.Root = workDir
	}
	if cfg.Transport == "" {
		cfg.Transport = os.Getenv(transportEnv)
	}
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(s.dir, name)
		if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if uid := os.Geteuid(); uid != 0 {
		cfg.UID, cfg.GID = uint32(uid), uint32(os.Getegid())
	}
	m, err := s.hub.Mount(context.Background(), cfg)
	if err != nil {
		s.t.Fatalf("mount: %v", err)
	}
	latchPoll(m.Dir())
	return m
}

// latchPoll makes the kernel learn that there is no poll here, by a system call
// that the Go runtime knows to block. Otherwise opening a file in this process,
// which is the daemon too, asks by one that it does not: with all its threads
// in such calls nobody would answer.
func latchPoll(dir string) {
	fd, err := unix.Open(filepath.Join(dir, ControlDir, "whoami"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

// watch fails the test and frees whoever hangs, if it takes longer than limit.
func (s *stack) watch(limit time.Duration) {
	begun := time.Now()
	stop := waits.AfterFunc(limit, func() {
		s.hung.Store(true)
		fmt.Fprintf(os.Stderr, "%s: hangs after %v; aborting the connections\n", s.t.Name(), time.Since(begun))
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		for _, m := range s.hub.Mounts() {
			fmt.Fprintf(os.Stderr, "%s: %+v\n", m.Dir(), m.Stats())
			_, _ = m.kill()
		}
	})
	s.t.Cleanup(func() {
		stop()
		if s.hung.Load() {
			s.t.Error("it hung")
		}
	})
}

// hammerTime is how long two-sided tests go on: WARREN_HAMMER, or 3 s.
func hammerTime(t *testing.T) time.Duration {
	if v := os.Getenv("WARREN_HAMMER"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return 3 * time.Second
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
