package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// inputs is what the groups read: on the native filesystem, made once.
type inputs struct {
	dir   string
	tree  string // directory: Go's own source, or part of it
	tar   string // of tree
	repo  string // bare git repository of tree
	files int    // how many regular files tree has
	n     int    // operations of the small-file groups
	big   int64  // bytes of the big file
	txs   int    // durable SQLite transactions; four times as many with the WAL
}

// prepare makes the inputs below dir. scale 1 is all of Go's source, 10,000
// files and 1 GiB.
func prepare(ctx context.Context, dir string, scale float64) (inputs, error) {
	in := inputs{
		dir: filepath.Join(dir, "inputs"), n: max(10, int(10_000*scale)),
		big: max(1<<20, int64(scale*float64(1<<30))), txs: max(10, int(500*scale)),
	}
	in.tree, in.tar, in.repo = filepath.Join(in.dir, "src"), filepath.Join(in.dir, "src.tar"), filepath.Join(in.dir, "repo.git")
	part := "."
	if scale < 0.5 {
		part = "net"
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return in, fmt.Errorf("go env GOROOT: %w", err)
	}
	if err := os.MkdirAll(in.dir, 0o755); err != nil {
		return in, err
	}
	err = shell(ctx, in.dir, `
mkdir src
cp -r --no-preserve=mode "$1/src/$2/." src
tar -cf src.tar src
cd src
git() { command git -c user.name=bench -c user.email=bench@example.org -c gc.auto=0 "$@"; }
git init -q -b main . && git add -A && git commit -qm one
git clone -q --bare . ../repo.git
rm -rf .git
`, strings.TrimSpace(string(root)), part)
	if err != nil {
		return in, err
	}
	err = filepath.WalkDir(in.tree, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			in.files++
		}
		return err
	})
	return in, err
}

// build makes a program of a package of this module, or of one it requires.
func build(ctx context.Context, out, pkg string) error {
	return shell(ctx, ".", `cd "$(go list -m -f '{{.Dir}}')"; go build -trimpath -o "$1" "$2"`, out, pkg)
}

// shell runs a script in dir; args are its $1, $2, ...
func shell(ctx context.Context, dir, script string, args ...string) error {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-euo", "pipefail", "-c", script, "bench"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(strings.TrimSpace(string(out[max(0, len(out)-2000):]))))
	}
	return nil
}
