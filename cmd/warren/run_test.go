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
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
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
	return control.Run{ID: "x", Dir: view, UID: uint32(uid), GID: uint32(uid),
		Work: "/agents/soul/workspace", Home: "/agents/soul/caches/home", Agent: control.Agent{
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
	ctx, cancel := waits.Context(t.Context(), 60*time.Second)
	defer cancel()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	code, err := startSandbox(ctx, spec, [3]*os.File{nil, out, out}, func() error { return nil })
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
		_, _ = startSandbox(ctx, spec, [3]*os.File{}, func() error { return nil })
	}()
	started := filepath.Join(spec.View, "agents/soul/workspace/f")
	for end := waits.In(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if b, _ := os.ReadFile(started); len(b) > 0 {
			break
		}
		if end.Passed() {
			t.Fatal("it does not start")
		}
	}
	cancel()
	<-done
	for end := waits.In(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left := false
		procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, p := range procs {
			b, _ := os.ReadFile(p)
			left = left || string(b) == "sleep\x001005\x00"
		}
		if !left {
			return
		}
		if end.Passed() {
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

func TestLimits(t *testing.T) {
	const m = 1 << 20
	for arg, want := range map[string]limit{
		"memory=512M":  {unix.RLIMIT_DATA, 512 * m, 512 * m},
		"memory=1GiB":  {unix.RLIMIT_DATA, 1024 * m, 1024 * m},
		"filesize=100": {unix.RLIMIT_FSIZE, 100, 100},
		"core=0":       {unix.RLIMIT_CORE, 0, 0},
		"files=64":     {unix.RLIMIT_NOFILE, 64, 64},
		"procs=20":     {unix.RLIMIT_NPROC, 20, 20},
		"cpu=2m":       {unix.RLIMIT_CPU, 120, 121},
		"cpu=7":        {unix.RLIMIT_CPU, 7, 8},
	} {
		got, err := parseLimits([]string{arg})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, %v", arg, got, err)
		}
	}
	for _, bad := range []string{"", "memory", "memory=", "memory=-1", "memory=1Q", "memory=9999999999G", "files=0", "files=1M", "cpu=1ms",
		"cpu=x", "threads=1", "=1"} {
		if got, err := parseLimits([]string{bad}); err == nil {
			t.Errorf("--limit %q was taken: %v", bad, got)
		}
	}
}

func TestWorkdir(t *testing.T) {
	soul := control.Agent{Key: "soul", Role: "soul"}
	gaia := control.Agent{Key: "gaia", Role: "orchestrator"}
	for _, c := range []struct {
		agent           control.Agent
		work, dir, want string
	}{
		{soul, "/agents/soul/workspace", "", "/agents/soul/workspace"},
		{soul, "/agents/soul/workspace", "a/../b", "/agents/soul/workspace/b"},
		{soul, "/agents/soul/workspace/site", "src", "/agents/soul/workspace/site/src"},
		{soul, "/agents/soul/workspace", "/agents/soul/scratch", "/agents/soul/scratch"},
		{soul, "/agents/soul/workspace", "/projects/site", "/projects/site"},
		{soul, "/agents/soul/workspace", "/agents/other", ""},
		{soul, "/agents/soul/workspace", "../../other/workspace", ""},
		{soul, "/agents/parent/workspace", "", "/agents/parent/workspace"}, // inherit
		{soul, "/agents/parent/workspace", "src", "/agents/parent/workspace/src"},
		{soul, "/agents/parent/workspace", "../notes", ""},
		{gaia, "/agents/gaia/workspace", "/agents/other", "/agents/other"},
	} {
		got, err := workdir(control.Run{Agent: c.agent, Work: c.work}, c.dir)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %s, --workdir %q: %q, %v", c.agent.Key, c.work, c.dir, got, err)
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
