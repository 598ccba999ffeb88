package fusefs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

// everyWay runs a test as root mounts and as others do, by fusermount3.
func everyWay(t *testing.T, test func(t *testing.T, s *stack)) {
	for _, helper := range []bool{false, true} {
		name := map[bool]string{false: "mount", true: "fusermount3"}[helper]
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("fusermount3"); err != nil && helper {
				t.Skip("no fusermount3")
			}
			if os.Geteuid() != 0 && !helper {
				t.Skip("needs root")
			}
			s := anyStack(t, memDriver)
			s.watch(2 * time.Minute)
			s.hub.tests.helper = helper
			test(t, s)
		})
	}
}

// quick fails the test when what began at start took too long to be bounded by
// the times of unmount.go, which promise it: the 2 s are for the machine.
func (s *stack) quick(what string, start time.Time) {
	s.t.Helper()
	took := time.Since(start)
	s.t.Logf("%s took %v", what, took)
	if took > closeTime+2*time.Second && took > closeTime+waits.Limit(2*time.Second) {
		s.t.Errorf("%s took %v", what, took)
	}
}

// absent checks that nothing of m is left where others could see it.
func (s *stack) absent(m *Mount) {
	s.t.Helper()
	for _, o := range s.hub.Mounts() {
		if o == m {
			s.t.Errorf("%s is still listed", m.Dir())
		}
	}
	if stillMounted(m.Dir(), m.minor) {
		s.t.Errorf("%s is still mounted", m.Dir())
	}
	if n := m.fs.handles.size(); n > 0 {
		s.t.Errorf("%d handles are still open", n)
	}
	select {
	case <-m.Done():
	default:
		s.t.Error("it is not done")
	}
}

// users are programs that stay in a mount whose path they get. After "go" each
// tries to work there and prints the numbers of the errors, 0 for none.
var users = map[string]string{
	"working directory": `
os.chdir(sys.argv[1] + "/d")
ready()
attempt(lambda: os.listdir("."))
attempt(lambda: os.open("new", os.O_CREAT | os.O_WRONLY))
attempt(lambda: os.open("f", os.O_RDONLY))`,
	"open file": `
f = os.open(sys.argv[1] + "/d/f", os.O_RDWR)
fcntl.flock(f, fcntl.LOCK_EX)
os.read(f, 10)
ready()
attempt(lambda: os.write(f, b"y"))
attempt(lambda: os.fsync(f))`,
	"map": `
f = os.open(sys.argv[1] + "/d/mapped", os.O_RDWR)
m = mmap.mmap(f, 4096)
m[0] = 65
ready()
attempt(lambda: os.write(f, b"y"))`,
	"waiter": `
f = os.open(sys.argv[1] + "/d/locked", os.O_RDWR)
print("ready", flush=True)
attempt(lambda: fcntl.lockf(f, fcntl.LOCK_EX))
sys.stdin.readline()
attempt(lambda: os.write(f, b"y"))`,
}

// user is one of those programs, running.
type user struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func (s *stack) user(name, dir string) *user {
	t := s.t
	t.Helper()
	u := &user{cmd: exec.Command("python3", "-c", `
import fcntl, mmap, os, sys
def ready():
	print("ready", flush=True)
	sys.stdin.readline()
def attempt(what):
	try:
		what()
		print(0, flush=True)
	except OSError as e:
		print(e.errno, flush=True)
`+users[name]+`
print("end", flush=True)
os._exit(0)`, dir)}
	var err error
	u.in, err = u.cmd.StdinPipe()
	must(t, err)
	out, err := u.cmd.StdoutPipe()
	must(t, err)
	u.out = bufio.NewScanner(out)
	u.cmd.Stderr = os.Stderr
	must(t, u.cmd.Start())
	t.Cleanup(func() { _ = u.cmd.Process.Kill() })
	if !u.out.Scan() || u.out.Text() != "ready" {
		t.Fatalf("%s: %q", name, u.out.Text())
	}
	return u
}

// leave lets it try, and gives what it printed, when it has ended.
func (u *user) leave(t testing.TB) (errnos []string) {
	t.Helper()
	_, err := u.in.Write([]byte("go\n"))
	must(t, err)
	for u.out.Scan() && u.out.Text() != "end" {
		errnos = append(errnos, u.out.Text())
	}
	_ = u.cmd.Wait()
	return errnos
}

// furnish makes what users need, and holds the lock that one of them waits for.
func (s *stack) furnish(m *Mount, locked string) (held *os.File) {
	s.t.Helper()
	must(s.t, os.Mkdir(m.Dir()+"/d", 0o755))
	for _, name := range []string{"f", "mapped", "locked"} {
		must(s.t, os.WriteFile(m.Dir()+"/d/"+name, make([]byte, 8192), 0o644))
	}
	held, err := os.OpenFile(locked+"/d/locked", os.O_RDWR, 0)
	must(s.t, err)
	must(s.t, unix.FcntlFlock(held.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	return held
}

// forced unmounts a mount that is used, twice, and checks that the users get
// errors while it is mounted again.
func forced(t *testing.T, s *stack, name string) {
	m := s.mounted("m", Config{})
	held := s.furnish(m, s.mount("other", Config{}))
	defer held.Close()
	u := s.user(name, m.Dir())
	start := time.Now()
	if err := m.Unmount(context.Background(), false); backend.KindOf(err) != backend.Busy {
		t.Errorf("without force: %v", err)
	}
	must(t, m.Unmount(context.Background(), true))
	s.quick("unmount by force", start)
	s.absent(m)
	if !s.hub.flock.Empty() {
		t.Error("its lock stays")
	}
	must(t, m.Unmount(context.Background(), true))

	again := s.mounted("m", Config{})
	must(t, os.WriteFile(again.Dir()+"/d/again", []byte("x"), 0o644))
	errnos := u.leave(t)
	if len(errnos) == 0 {
		t.Error("the user did not try")
	}
	for i, e := range errnos {
		// ECONNABORTED: what was under way when the kernel ended it.
		if e != "107" && e != "103" {
			t.Errorf("attempt %d of the user: error %s", i, e)
		}
	}
	s.over(m)
	if b, err := os.ReadFile(again.Dir() + "/d/again"); string(b) != "x" {
		t.Errorf("in the new mount: %q %v", b, err)
	}
	s.unmount(again)
}

// unmount takes m away. A namespace that another package's tests have made may
// keep its connection for a while.
func (s *stack) unmount(m *Mount) {
	s.t.Helper()
	err := m.Unmount(context.Background(), false)
	if errors.Is(err, ErrElsewhere) && waits.Received(time.Minute, m.done) {
		err = nil
	}
	must(s.t, err)
}

// TestForcedUnmount: whoever uses the mount, it is gone within a few seconds,
// can be mounted again, and the users get errors.
func TestForcedUnmount(t *testing.T) {
	for name := range users {
		t.Run(strings.Fields(name)[0], func(t *testing.T) {
			everyWay(t, func(t *testing.T, s *stack) { forced(t, s, name) })
		})
	}
}

// TestForcedUnmountLeavesTheNext: the gentle attempt of an unmount by force may be slow,
// but takes nothing away once another mount is there.
func TestForcedUnmountLeavesTheNext(t *testing.T) {
	real, err := exec.LookPath("fusermount3")
	if err != nil {
		t.Skip("no fusermount3")
	}
	bin := t.TempDir()
	must(t, os.WriteFile(bin+"/fusermount3", []byte("#!/bin/sh\n[ \"$1\" != -u ] || sleep 0.5\nexec "+real+" \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	s.hub.tests.helper = true
	m := s.mounted("m", Config{})
	defer s.furnish(m, m.Dir()).Close()
	must(t, m.Unmount(context.Background(), true))
	again := s.mounted("m", Config{})
	time.Sleep(time.Second)
	if !stillMounted(again.Dir(), again.minor) {
		t.Error("the new mount was taken away")
	}
	s.unmount(again)
}

// TestForcedUnmountWithFusectl: with /sys/fs/fuse/connections, where a daemon
// that is not root can abort. This runs TestForcedUnmount again in a mount
// namespace that has it.
func TestForcedUnmountWithFusectl(t *testing.T) {
	if os.Getenv("WARREN_TEST_FUSECTL") != "" {
		t.Skip("inside")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const at = "/sys/fs/fuse/connections"
	if err := exec.Command("unshare", "-m", "mount", "-t", "fusectl", "none", at).Run(); err != nil {
		t.Skipf("no fusectl: %v", err)
	}
	ctx, cancel := waits.Context(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "-m", "sh", "-c", "mount -t fusectl none "+at+` && exec "$0" "$@"`,
		os.Args[0], "-test.run=^TestForcedUnmount$|^TestCloseWhileUsed$", "-test.v")
	cmd.Env = append(os.Environ(), "WARREN_TEST_FUSECTL=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "/fusermount3 ("); n != len(users)+1 || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%d subtests of fusermount3 passed, want %d\n%s", n, len(users)+1, out)
	}
}

// TestCloseWhileUsed: nobody can hold up the end of the daemon.
func TestCloseWhileUsed(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		first := s.mounted("m", Config{})
		held := s.furnish(first, first.Dir())
		defer held.Close()
		mounts := []*Mount{first}
		var in []*user
		for name := range users {
			m := s.mounted(strings.Fields(name)[0], Config{Agent: "web"})
			mounts = append(mounts, m)
			in = append(in, s.user(name, m.Dir()))
		}
		start := time.Now()
		must(t, s.hub.Close(context.Background()))
		s.quick("closing", start)
		for _, m := range mounts {
			s.absent(m)
		}
		_ = held.Close() // ENOTCONN
		for _, u := range in {
			// A lock may still have been given, when its holder's mount went first.
			errnos := u.leave(t)
			if n := len(errnos); n == 0 || errnos[n-1] != "107" && errnos[n-1] != "103" {
				t.Errorf("%s: errors %v", u.cmd.Args[len(u.cmd.Args)-1], errnos)
			}
		}
		for _, m := range mounts {
			s.over(m)
		}
	})
}

// TestDetachedBySomebody: as after umount -l.
func TestDetachedBySomebody(t *testing.T) {
	everyWay(t, func(t *testing.T, s *stack) {
		m := s.mounted("m", Config{})
		must(t, os.Mkdir(m.Dir()+"/d", 0o755))
		u := s.user("working directory", m.Dir())
		must(t, detach(m.Dir(), s.hub.helper()))
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if err := m.Unmount(ctx, false); backend.KindOf(err) != backend.Busy {
			t.Errorf("without force: %v", err)
		}
		start := time.Now()
		must(t, m.Unmount(context.Background(), true))
		s.quick("unmount by force", start)
		s.absent(m)
		again := s.mounted("m", Config{})
		for i, e := range u.leave(t) {
			if e != "107" {
				t.Errorf("attempt %d of the user: error %s", i, e)
			}
		}
		if !stillMounted(again.Dir(), again.minor) {
			t.Error("the new mount is gone")
		}
	})
}

// TestUnmountOfWhatIsBoundElsewhere takes it out of the tree and says so. What
// is mounted there next waits for the bind mount's end.
func TestUnmountOfWhatIsBoundElsewhere(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	if s.hub.helper() {
		t.Skip("only root can bind")
	}
	m := s.mounted("x", Config{})
	bind := filepath.Join(s.dir, "y")
	must(t, os.Mkdir(bind, 0o755))
	must(t, unix.Mount(m.Dir(), bind, "", unix.MS_BIND, ""))
	bound := true
	defer func() {
		if bound {
			_ = detach(bind, false)
		}
	}()
	err := m.Unmount(context.Background(), false)
	if !errors.Is(err, ErrElsewhere) || backend.KindOf(err) != backend.Busy {
		t.Errorf("unmount: %v", err)
	}
	if stillMounted(m.Dir(), m.minor) {
		t.Error("it is in the tree")
	}
	if _, err := s.hub.Mount(context.Background(), m.Config()); err == nil || !strings.Contains(err.Error(), "in use elsewhere") {
		t.Errorf("mounted anew: %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond) // the mount below waits for it
		ended <- unix.Unmount(bind, 0)
	}()
	again, err := s.hub.Mount(context.Background(), m.Config())
	for end := waits.In(time.Minute); err != nil && !end.Passed(); { // other processes' namespaces may hold it longer than a mount waits
		again, err = s.hub.Mount(context.Background(), m.Config())
	}
	must(t, <-ended)
	bound = false
	if err != nil {
		t.Errorf("mounted while the last ends: %v", err)
	} else {
		must(t, again.Unmount(context.Background(), false))
	}
	if !waits.Received(time.Minute, m.Done()) || !m.Taken() {
		t.Error("not gone with the bind mount")
	}
}

// TestGate: a shut gate lets nothing through to the file system, which is nil
// here, and is idle when what is inside has left.
func TestGate(t *testing.T) {
	g := newGate(nil, new(counters))
	if _, ok := g.enter(); !ok {
		t.Fatal("shut from the start")
	}
	g.shut()
	g.shut()
	select {
	case <-g.idle:
		t.Error("idle with a request inside")
	default:
	}
	pass := map[string]bool{"String": true, "SetDebug": true, "Init": true, "OnUnmount": true}
	all := reflect.TypeFor[fuse.RawFileSystem]()
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		if pass[name] {
			continue
		}
		fn := reflect.ValueOf(g).MethodByName(name)
		var args []reflect.Value
		for j := range fn.Type().NumIn() {
			args = append(args, reflect.Zero(fn.Type().In(j)))
		}
		out := fn.Call(args)
		if len(out) > 0 && out[len(out)-1].Interface() != enotconn {
			t.Errorf("%s: %v", name, out)
		}
	}
	g.out()
	select {
	case <-g.idle:
	default:
		t.Error("not idle")
	}
}
