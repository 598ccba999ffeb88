package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// sampleRepo is what a soul clones where there is no repository around.
var sampleRepo = map[string]string{
	"go.mod":        "module example.org/hello\n\ngo 1.21\n",
	"hello.go":      "// Package hello greets.\npackage hello\n\n// Hello greets name.\nfunc Hello(name string) string { return \"Hello, \" + name }\n",
	"hello_test.go": "package hello\n\nimport \"testing\"\n\nfunc TestHello(t *testing.T) {\n\tif got := Hello(\"Ada\"); got != \"Hello, Ada\" {\n\t\tt.Fatal(got)\n\t}\n}\n",
	"README.md":     "# hello\n\nA small repository for `warren demo`.\n",
}

// findSource finds the repository to clone: the one named, the one around the
// working directory, or a small one made for the purpose.
func (d *demo) findSource(ctx context.Context) error {
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("the demo needs git: %w", err)
	}
	dir := d.o.Source
	if dir == "" {
		dir = "."
	}
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err == nil {
		d.source = top
		return nil
	}
	if d.o.Source != "" {
		return usagef("--source %s: not a git repository", d.o.Source)
	}
	return d.makeSource(ctx)
}

// makeSource makes the sample repository. It is read by a uid of the soul's
// own, so it is kept outside of the show's private directory.
func (d *demo) makeSource(ctx context.Context) error {
	d.source = d.path("hello")
	if err := os.Chmod(d.dir, 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(d.source, 0o755); err != nil {
		return err
	}
	for name, text := range sampleRepo {
		if err := os.WriteFile(filepath.Join(d.source, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=demo", "-c", "user.email=demo@warren.local", "commit", "-q", "-m", "hello: greet"}} {
		if _, err := git(ctx, d.source, args...); err != nil {
			return err
		}
	}
	return nil
}

// showSource gives the flags that let the soul see the source. What lies in
// /tmp is shown elsewhere, since /tmp is the soul's own inside.
func (d *demo) showSource(ctx context.Context) []string {
	at, show := d.source, d.source
	if strings.HasPrefix(d.source, "/tmp/") || strings.HasPrefix(d.source, "/var/tmp/") {
		at = "/run/source"
		show += ":" + at
	}
	args := []string{"--show", show, "--env", "SOURCE=" + at}
	common, err := git(ctx, d.source, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err == nil && !strings.HasPrefix(common, d.source+"/") {
		args = append(args, "--show", common) // a worktree's repository
	}
	return args
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	c.Stderr = nil
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// ownSession parts a child from our terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
