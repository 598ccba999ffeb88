package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/warrenfs/warren/control"
)

// hinted adds to the text of an error what to do.
func hinted(err error, hint string) error {
	out := &control.Error{Kind: control.KindOf(err), Text: err.Error() + "; " + hint}
	var e *control.Error
	if errors.As(err, &e) {
		out.Details = e.Details
	}
	return out
}

// hostPath adds to an error about something that was not found, where an argument
// that it is about is a path of this machine in a mount, what the tree calls that.
func hostPath(err error, args []string) error {
	if control.KindOf(err) != control.KindNotFound {
		return err
	}
	for _, arg := range args {
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "--") {
			arg = value
		}
		if hint := inMount(arg); hint != "" && strings.Contains(err.Error(), filepath.Clean(arg)) {
			return hinted(err, hint)
		}
	}
	return err
}

// inMount tells what the tree calls what is at an absolute path of this machine, if
// that is in a mount and called otherwise there; "" if it is not.
func inMount(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	path = filepath.Clean(path)
	at, err := getPath(path)
	if err != nil { // it may be to be made, or a symlink
		dir, derr := getPath(filepath.Dir(path))
		if derr != nil {
			return ""
		}
		at = filepath.Join(dir, filepath.Base(path))
	}
	if at == path {
		return ""
	}
	return fmt.Sprintf("%s is a path of this machine; in the tree it is %s (`warren path` translates)", path, at)
}
