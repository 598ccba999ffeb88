package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

func newPathCommand(a *app) *cobra.Command {
	c := command("path FILE…", "Translate mounted paths to tree paths", cobra.MinimumNArgs(1),
		func(_ context.Context, args []string) error { return runPath(a, args) })
	c.Long = `Translate paths below a mount to tree paths. It asks the mount itself (the extended
attribute user.warren.path), so it works without a daemon's socket, inside a container too.`
	return c
}

// located is one translated path.
type located struct {
	File string `json:"file"`
	Path string `json:"path"`
}

func runPath(a *app, files []string) error {
	out := []located{}
	for _, f := range files {
		p, err := treePath(f)
		if err != nil {
			return err
		}
		out = append(out, located{f, p})
	}
	return a.answer(out, func(w io.Writer) {
		for _, l := range out {
			_, _ = fmt.Fprintln(w, shown(w, l.Path))
		}
	})
}

// treePath asks the mount that file is in. A symlink is translated itself, not
// what it leads to; Linux gives symlinks no user attributes, so its directory
// is asked.
func treePath(file string) (string, error) {
	p, err := getPath(file)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		dir, derr := getPath(filepath.Dir(filepath.Clean(file)))
		if derr == nil {
			var st unix.Stat_t
			if err := unix.Lstat(file, &st); err == nil {
				return filepath.Join(dir, filepath.Base(filepath.Clean(file))), nil
			}
		}
		return "", control.Errorf(control.KindInvalid, "%s: not in a warren mount", file)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "", control.Errorf(control.KindNotFound, "%s: no such file", file)
	case errors.Is(err, unix.EACCES):
		return "", control.Errorf(control.KindDenied, "%s: permission denied", file)
	case err != nil:
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func getPath(file string) (string, error) {
	buf := make([]byte, 1<<16)
	n, err := unix.Lgetxattr(file, "user.warren.path", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
