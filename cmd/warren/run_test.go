package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
)

// plainView makes a directory laid out like a view, owned by uid, so that the
// sandbox can be tried without a daemon.
func plainView(t *testing.T, uid int) control.Run {
	t.Helper()
	dir := t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	view := filepath.Join(dir, "view")
	for _, d := range []string{"workspace", "caches/home", "scratch/tmp"} {
		if err := os.MkdirAll(filepath.Join(view, "agents/soul", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.Walk(view, func(p string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(p, uid, uid)
	})
	if err != nil {
		t.Fatal(err)
	}
	return control.Run{ID: "x", Dir: view, UID: uint32(uid), GID: uint32(uid), Agent: control.Agent{
		Key: "soul", Name: "A Soul", Email: "soul@warren.local",
		Home: "/agents/soul", Work: "/agents/soul/workspace", Scratch: "/agents/soul/scratch"}}
}

// someUID is whom a sandbox runs as in these tests.
func someUID() int {
	if os.Geteuid() == 0 {
		return 1879050000
	}
	return os.Geteuid()
}

// runSandbox runs a command in a sandbox over a plain directory.
func runSandbox(t *testing.T, spec *sandboxSpec) (string, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code, err := startSandbox(ctx, spec, [3]*os.File{nil, out, out}, func() {})
	text, rerr := os.ReadFile(out.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), code, err
}

func shellSpec(t *testing.T, r control.Run, script string) *sandboxSpec {
	t.Helper()
	spec, err := newSandboxSpec(&runOptions{}, r, []string{"/bin/sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestSandboxShowsWhoAndWhere(t *testing.T) {
	r := plainView(t, someUID())
	out, code, err := runSandbox(t, shellSpec(t, r, `pwd; id -u; id -un; echo $HOME; echo $TMPDIR
		touch /tmp/f f $HOME/h && ls /warren/agents/soul/scratch/tmp
		grep -E '^(Cap|NoNew)' /proc/self/status`))
	want := []string{"/warren/agents/soul/workspace", strconv.Itoa(someUID()), "soul", "/warren/agents/soul/caches/home", "/tmp", "f",
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", ""}
	if err != nil || code != 0 || !slices.Equal(strings.Split(out, "\n"), want) {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

// TestIsolationFailsClosed: whatever part cannot be set up, the command does
// not run, and the status is warren's own (hermes#97209).
func TestIsolationFailsClosed(t *testing.T) {
	for name, spoil := range map[string]func(*sandboxSpec){
		"no view":             func(s *sandboxSpec) { s.View += "/nosuch" },
		"no tmp":              func(s *sandboxSpec) { s.Tmp = "/agents/soul/nosuch" },
		"nothing to show":     func(s *sandboxSpec) { s.Show = []bind{{"/nosuch", "/run/x"}} },
		"no place to show":    func(s *sandboxSpec) { s.Show = []bind{{"/usr", "/usr/nosuch"}} },
		"shown over a link":   func(s *sandboxSpec) { s.Show = []bind{{"/usr", "/proc/self/root/x"}} },
		"no file to replace":  func(s *sandboxSpec) { s.Files = []file{{"/etc/nosuch", "x"}} },
		"hidden by a symlink": func(s *sandboxSpec) { s.Hide = append(s.Hide, "/etc/mtab") },
		"no working dir":      func(s *sandboxSpec) { s.Dir = "/warren/nosuch" },
	} {
		t.Run(name, func(t *testing.T) {
			spec := shellSpec(t, plainView(t, someUID()), "echo ran")
			if name == "hidden by a symlink" {
				if fi, err := os.Lstat("/etc/mtab"); err != nil || fi.Mode()&os.ModeSymlink == 0 {
					t.Skip("no symlink /etc/mtab here")
				}
			}
			spoil(spec)
			out, code, err := runSandbox(t, spec)
			if err == nil || code != exitRunFailed || strings.Contains(out, "ran") {
				t.Errorf("exit %d, %v\n%s", code, err, out)
			}
		})
	}
}

// TestSandboxDiesWithItsCaller: nothing of a run outlives the one that started it.
func TestSandboxDiesWithItsCaller(t *testing.T) {
	spec := shellSpec(t, plainView(t, someUID()), "trap '' HUP TERM INT; echo up > f; sleep 1005 & wait")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = startSandbox(ctx, spec, [3]*os.File{}, func() {})
	}()
	started := filepath.Join(spec.View, "agents/soul/workspace/f")
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(started); len(b) > 0 {
			break
		}
		if time.Since(start) > 30*time.Second {
			t.Fatal("it does not start")
		}
	}
	cancel()
	<-done
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		left := false
		procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range procs {
			b, _ := os.ReadFile(p)
			left = left || string(b) == "sleep\x001005\x00"
		}
		if !left {
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the command is still there")
		}
	}
}

func TestEnvironmentIsChosen(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("WARREN_TOKEN", "x")
	t.Setenv("TERM", "xterm")
	t.Setenv("PATH", "/opt/bin")
	r := control.Run{Agent: control.Agent{Key: "soul", Email: "soul@warren.local", Home: "/agents/soul"}}
	env, err := sandboxEnv(&runOptions{Env: []string{"A=b=c", "EMPTY="}}, r, "/h", "/cache")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TERM=xterm", "HOME=/h", "TMPDIR=/tmp", "GOMODCACHE=/cache", "A=b=c", "EMPTY=",
		"PATH=/opt/bin:/usr/local/bin:/usr/bin:/bin", "EMAIL=soul@warren.local", "USER=soul"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, e := range env {
		if strings.HasPrefix(e, "AWS_") || strings.HasPrefix(e, "WARREN_TOKEN") {
			t.Errorf("%s went in", e)
		}
	}
	for _, bad := range []string{"=x", "NOT_SET_ANYWHERE"} {
		if _, err := sandboxEnv(&runOptions{Env: []string{bad}}, r, "/h", ""); err == nil {
			t.Errorf("--env %s was taken", bad)
		}
	}
}

func TestShowIsNotPutOverTheAgentsOwn(t *testing.T) {
	dir := t.TempDir()
	for arg, ok := range map[string]bool{
		"/usr": true, "/usr:/run/usr": true, dir + ":/run/x": true, "/usr:/run/../run/x": true,
		"/usr:/tmp": false, "/usr:/tmp/x": false, "/usr:/warren": false, "/usr:/warren/x": false, "/usr:/proc/x": false,
		"/usr:/dev/x": false, "/usr:/": false, "/usr:relative": false, "/usr:/run/../tmp/x": false, "/nosuch": false,
		dir: !strings.HasPrefix(dir, "/tmp/"),
	} {
		if _, err := parseShow(arg); (err == nil) != ok {
			t.Errorf("--show %s: %v", arg, err)
		}
	}
}
