package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

func TestMain(m *testing.M) {
	if runStage() {
		return
	}
	if args := os.Getenv(stuckEnv); args != "" {
		fmt.Fprintln(os.Stderr, runStuck(args))
		os.Exit(1)
	}
	testscript.Main(m, map[string]func(){
		"warren":       func() { os.Exit(newApp().main(os.Args[1:])) },
		"mount.warren": func() { os.Exit(newApp().mountHelper(os.Args[1:])) },
	})
}

// TestScripts runs the command lines of testdata/script, each with a store,
// daemon and mounts of its own.
func TestScripts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting by mount(2) needs root")
	}
	modcache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(55 * time.Minute),
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "go":
				_, err := exec.LookPath("go")
				return err == nil, nil
			case "root":
				return os.Geteuid() == 0, nil
			case "race":
				return raceDetector, nil
			}
			return false, errors.New("unknown condition")
		},
		Setup: func(e *testscript.Env) error {
			// Commands run as other users look for their mounts below it.
			for d := e.WorkDir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
				if err := os.Chmod(d, 0o755); err != nil {
					return err
				}
			}
			e.Setenv("WARREN_STORE", filepath.Join(e.WorkDir, "store"))
			e.Setenv("WARREN_SOCKET", filepath.Join(e.WorkDir, "run", "admin", "admin.sock"))
			e.Setenv("GOMODCACHE", strings.TrimSpace(string(modcache)))
			e.Values[hostsKey{}] = scriptHosts{}
			e.Defer(func() { unmountBelow(t, e.WorkDir) })
			// A socket's path is short, and WorkDir may not be.
			short, err := os.MkdirTemp("/tmp", "w")
			if err != nil {
				return err
			}
			e.Setenv("SHORT", short)
			e.Defer(func() {
				unmountBelow(t, short)
				if err := os.RemoveAll(short); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "serve": serve, "halt": halt, "unmounted": unmounted, "until": until,
			"host": host, "call": call, "keep": keep,
		},
	})
}

// unmountBelow detaches what a failed script left mounted, and says so.
func unmountBelow(t *testing.T, dir string) {
	left, err := mountsUnder(dir)
	if err != nil {
		t.Error(err)
	}
	for i := len(left) - 1; i >= 0; i-- {
		if err := unix.Unmount(left[i].Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			t.Errorf("%s stays mounted: %v", left[i].Dir, err)
		}
	}
	if len(left) > 0 && !t.Failed() {
		t.Errorf("left mounted: %v", left)
	}
}

// exits CODE COMMAND ARG… runs a command that must end with an exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var x *exec.ExitError
	switch {
	case errors.As(err, &x):
		got = x.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// daemonPID is where serve keeps the daemon's process id.
func daemonPID(ts *testscript.TestScript) string { return ts.MkAbs("daemon.pid") }

// serve [ARG…] starts `warren serve` in a process of its own and waits until it
// is ready.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	defer r.Close()
	logFile, err := os.OpenFile(ts.MkAbs("daemon.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer logFile.Close()
	bin, err := exec.LookPath("warren")
	ts.Check(err)
	c := exec.Command(bin, append([]string{"serve", "--ready-fd", "3"}, args...)...)
	c.Dir = ts.MkAbs(".")
	c.Env = append(os.Environ(), "WARREN_STORE="+ts.Getenv("WARREN_STORE"), "WARREN_SOCKET="+ts.Getenv("WARREN_SOCKET"))
	c.ExtraFiles = []*os.File{w}
	c.Stdout, c.Stderr = logFile, logFile
	ts.Check(c.Start())
	_ = w.Close()
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	ts.Check(os.WriteFile(daemonPID(ts), []byte(strconv.Itoa(c.Process.Pid)), 0o644))
	ts.Defer(func() {
		select {
		case <-ended:
		default:
			_ = c.Process.Signal(os.Interrupt)
			if !waits.Received(time.Minute, ended) {
				_ = c.Process.Kill()
				<-ended
			}
		}
	})
	defer waits.AfterFunc(time.Minute, func() { _ = r.SetReadDeadline(time.Now()) })()
	if n, err := r.Read(make([]byte, 16)); n == 0 || neg {
		text, _ := os.ReadFile(ts.MkAbs("daemon.log"))
		ts.Fatalf("the daemon is not ready: %v\n%s", err, text)
	}
}

// halt SIGNAL ends the daemon by a signal and waits until it is gone.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]unix.Signal{"TERM": unix.SIGTERM, "INT": unix.SIGINT, "KILL": unix.SIGKILL}
	if neg || len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: halt TERM|INT|KILL")
	}
	b, err := os.ReadFile(daemonPID(ts))
	ts.Check(err)
	pid, err := strconv.Atoi(string(b))
	ts.Check(err)
	ts.Check(unix.Kill(pid, signals[args[0]]))
	for end := waits.In(time.Minute); unix.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if end.Passed() {
			ts.Fatalf("the daemon does not end after SIG%s", args[0])
		}
	}
}

// unmounted DIR fails if something is mounted at DIR or below.
func unmounted(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ms, err := mountsUnder(filepath.Dir(dir))
	ts.Check(err)
	found := false
	for _, m := range ms {
		found = found || m.Dir == dir || strings.HasPrefix(m.Dir, dir+"/")
	}
	if found != neg {
		ts.Fatalf("mounted at %s: %t", dir, found)
	}
}

// until COMMAND ARG… repeats a command until it succeeds, for a minute on an idle machine.
func until(ts *testscript.TestScript, neg bool, args []string) {
	for end := waits.In(time.Minute); ; {
		err := ts.Exec(args[0], args[1:]...)
		if (err == nil) != neg {
			return
		}
		if end.Passed() {
			ts.Fatalf("still: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
