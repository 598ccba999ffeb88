package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

// Stack is one store, the daemon that holds it, and mounts on it.
type Stack struct {
	Dir  string // a plain directory that has everything else
	Gaia string // mountpoint of the orchestrator's view
	Soul string // mountpoint of the view of web_designer, a soul of user ada

	bin    string // the program, under a name that tells its daemon from others on this machine
	log    *os.File
	env    []string
	serve  []string // arguments of serve
	daemon *exec.Cmd
	exited chan struct{} // closed when daemon has ended
}

// New builds the program, makes a store (whose driver of content STACK_CONTENT
// names, if that is set) and starts the daemon with its two mounts. A Stack that comes with an error is to be stopped like any.
func New() (*Stack, error) { return NewWith(Options{}) }

// Options are how a Stack differs from the usual one.
type Options struct {
	Store string   // directory of the store, in an existing one; by default in Dir. Stop does not remove it
	Serve []string // more arguments of warren serve
}

// ForTest is NewWith for one test, which it is stopped with.
func ForTest(t *testing.T, o Options) *Stack {
	t.Helper()
	s, err := NewWith(o)
	if s != nil {
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Errorf("taking the daemon down: %v", err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// NewWith is New with options.
func NewWith(o Options) (*Stack, error) {
	dir, err := os.MkdirTemp("", "stack")
	if err != nil {
		return nil, err
	}
	if o.Store == "" {
		o.Store = filepath.Join(dir, "store")
	}
	s := &Stack{Dir: dir, serve: o.Serve, Gaia: filepath.Join(dir, "gaia"), Soul: filepath.Join(dir, "soul"), bin: filepath.Join(dir, "bin", "under-test")}
	s.env = append(os.Environ(),
		"WARREN_STORE="+o.Store,
		"WARREN_SOCKET="+filepath.Join(dir, "run", "admin", "admin.sock"),
		"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"),
		"LC_ALL=C.UTF-8")
	if s.log, err = os.Create(filepath.Join(dir, "daemon.log")); err != nil {
		return s, err
	}
	if err := s.build(); err != nil {
		return s, err
	}
	if _, err := s.Try("init", "--user", "ada", "--soul", "web_designer", "--content", os.Getenv("STACK_CONTENT")); err != nil {
		return s, err
	}
	if err := s.Start(); err != nil {
		return s, err
	}
	for _, m := range []struct{ agent, dir string }{{"gaia", s.Gaia}, {"web_designer", s.Soul}} {
		if err := os.Mkdir(m.dir, 0o755); err != nil {
			return s, err
		}
		if _, err := s.Try("mount", "--agent", m.agent, m.dir); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Start runs the daemon and returns when it answers.
func (s *Stack) Start() error {
	cmd := exec.Command(s.bin, append([]string{"serve"}, s.serve...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its status is in ProcessState
		close(exited)
	}()
	s.daemon, s.exited = cmd, exited
	var last error
	for end := waits.In(time.Minute); !end.Passed() && s.Alive(); time.Sleep(50 * time.Millisecond) {
		if _, last = s.Try("status"); last == nil {
			return nil
		}
	}
	return fmt.Errorf("the daemon does not answer: %w; its log says:\n%s", last, s.Log())
}

// Alive tells whether the daemon runs.
func (s *Stack) Alive() bool {
	if s.daemon == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// Signal sends sig to the daemon and returns when it has ended. One that was killed
// while it told a kernel of a change may need the next to end (docs/coherence.md).
func (s *Stack) Signal(sig syscall.Signal) error {
	if err := s.daemon.Process.Signal(sig); err != nil {
		return err
	}
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	var killed <-chan time.Time
	if sig == syscall.SIGKILL {
		killed = time.After(10 * time.Second)
	}
	select {
	case <-s.exited:
		return nil
	case <-killed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the daemon outlives %v", sig)
	}
}

// Pause stops the daemon where it is, and returns when all of it stands; only a signal
// that ends it goes on.
func (s *Stack) Pause() error {
	if err := s.daemon.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, s.daemon.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Resume ends Pause.
func (s *Stack) Resume() error { return s.daemon.Process.Signal(syscall.SIGCONT) }

// Kill kills the daemon as kill -9 does, starts it again and returns when all
// the given directories answer.
func (s *Stack) Kill(dirs ...string) error {
	if err := s.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return s.Restart(dirs...)
}

// Restart starts the daemon, which must have ended, and returns when all the
// given directories answer.
func (s *Stack) Restart(dirs ...string) error {
	if err := s.Start(); err != nil {
		return err
	}
	var err error
	for end := waits.In(time.Minute); !end.Passed(); time.Sleep(100 * time.Millisecond) {
		err = nil
		for _, d := range dirs {
			_, e := os.Stat(d)
			err = errors.Join(err, e)
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("mounts are not back after a restart: %w; the daemon's log says:\n%s", err, s.Log())
}

// Stop ends the daemon as an administrator would, checks that it went in good
// order and took its mounts with it, and removes everything.
func (s *Stack) Stop() error {
	var errs []error
	if s.Alive() {
		if err := s.Signal(syscall.SIGTERM); err != nil {
			errs = append(errs, err, s.daemon.Process.Kill())
		} else if code := s.daemon.ProcessState.ExitCode(); code != 0 {
			errs = append(errs, fmt.Errorf("the daemon ended with status %d; its log says:\n%s", code, s.Log()))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	errs = append(errs, err)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], s.Dir+"/") {
			errs = append(errs, fmt.Errorf("still mounted: %s", strings.TrimSpace(line)), syscall.Unmount(f[1], syscall.MNT_DETACH))
		}
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if errors.Join(errs...) == nil { // never through a mount
		errs = append(errs, os.RemoveAll(s.Dir))
	}
	return errors.Join(errs...)
}

// Log is the end of what the daemon has said, and how it ended if it has.
func (s *Stack) Log() string {
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	if len(b) > 20_000 {
		b = b[len(b)-20_000:]
	}
	if s.daemon != nil && !s.Alive() {
		return string(b) + s.daemon.ProcessState.String() + "\n"
	}
	return string(b)
}

// Try runs warren with args and gives its output. The error has all it said.
func (s *Stack) Try(args ...string) (string, error) {
	ctx, cancel := waits.Context(context.Background(), 2*time.Minute)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.env, &out, &errOut, 5*time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("warren %s: %w: %s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String(), nil
}

// Command makes a run of warren with args, which talks to the daemon.
func (s *Stack) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, args...)
	cmd.Env = s.env
	return cmd
}

// Warren runs warren with args, which must succeed, and gives its output.
func (s *Stack) Warren(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Refused runs warren with args, which must end with the given exit status,
// and gives all that it said.
func (s *Stack) Refused(t *testing.T, status int, args ...string) string {
	t.Helper()
	out, err := s.Try(args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != status {
		t.Errorf("warren %s: want exit status %d, got %v (%s)", strings.Join(args, " "), status, err, out)
		return out
	}
	return err.Error()
}

// Mount makes a mount that lasts as long as the test. args are those of warren
// mount but for the directory.
func (s *Stack) Mount(t *testing.T, args ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp(s.Dir, "mount")
	if err != nil {
		t.Fatal(err)
	}
	s.Warren(t, append(append([]string{"mount"}, args...), dir)...)
	t.Cleanup(func() {
		if _, err := s.Try("umount", dir); err != nil {
			t.Error(err)
			return
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Fsck fails the test if the store is not as it should be.
func (s *Stack) Fsck(t *testing.T) {
	t.Helper()
	if _, err := s.Try("fsck"); err != nil {
		t.Error(err)
	}
}
