package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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

// sandbox runs a shell script in a sandbox over a plain directory.
func sandbox(t *testing.T, r control.Run, o *runOptions, script string) (string, int) {
	t.Helper()
	if os.Geteuid() != 0 && os.Geteuid() != int(r.UID) {
		t.Skip("needs root to run as another user")
	}
	spec, err := newSandboxSpec(o, r, []string{"/bin/sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var out bytes.Buffer
	code, err := startSandbox(ctx, spec, nil, &out, &out)
	if err != nil {
		t.Fatalf("sandbox: %v (exit %d)\n%s", err, code, &out)
	}
	return out.String(), code
}

func TestSandboxShowsWhoAndWhere(t *testing.T) {
	uid := 1879050000
	if os.Geteuid() != 0 {
		uid = os.Geteuid()
	}
	r := plainView(t, uid)
	out, code := sandbox(t, r, &runOptions{}, `pwd; id -u; id -un; echo $HOME; echo $TMPDIR; touch /tmp/f f $HOME/h && ls /warren/agents/soul/scratch/tmp; ls -A /run; ls /proc | grep -c '^[0-9]'; cat /proc/self/status | grep -E 'Cap|NoNew'; cat /proc/self/mountinfo`)
	t.Log(out)
	if code != 0 || !strings.HasPrefix(out, "/warren/agents/soul/workspace\n"+strconv.Itoa(uid)+"\nsoul\n/warren/agents/soul/caches/home\n/tmp\nf\n") {
		t.Fatalf("exit %d\n%s", code, out)
	}
}
