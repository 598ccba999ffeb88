package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/warrenfs/warren/control"
)

// The exit codes, documented in docs/scripting.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3
	exitNotFound    = 10
	exitConflict    = 11
	exitDenied      = 12
	exitQuota       = 13
	exitNoDaemon    = 14
	exitInterrupted = 130
)

// kindExit is the one table from kinds to exit codes.
var kindExit = map[control.Kind]int{
	control.KindFailed:      exitFailed,
	control.KindInvalid:     exitUsage,
	control.KindPartial:     exitPartial,
	control.KindNotFound:    exitNotFound,
	control.KindConflict:    exitConflict,
	control.KindDenied:      exitDenied,
	control.KindQuota:       exitQuota,
	control.KindUnavailable: exitNoDaemon,
	control.KindInterrupted: exitInterrupted,
}

// statusError is a command's own exit status, which says it all: nothing is
// printed, unless there is text.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("exit status %d", e.code)
}

func (e *statusError) Unwrap() error { return e.err }

// usagef makes an error of usage or invalid input.
func usagef(format string, args ...any) error {
	return control.Errorf(control.KindInvalid, format, args...)
}

// someFailed is the error of a command that did what it could of n things: of
// kind partial, or where nothing was done of the kind that all failures have.
// nil without errs.
func someFailed(errs []error, n int) error {
	if len(errs) == 0 {
		return nil
	}
	kind := control.KindPartial
	if len(errs) == n {
		kind = control.KindOf(errs[0])
		for _, err := range errs {
			if control.KindOf(err) != kind {
				kind = control.KindFailed
			}
		}
	}
	return control.Errorf(kind, "%d of %d failed: %v", len(errs), n, errors.Join(errs...))
}

// exitCode gives the exit code of err.
func exitCode(err error) int {
	var s *statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &s):
		return s.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	if code, ok := kindExit[control.KindOf(err)]; ok {
		return code
	}
	return exitFailed
}

// report prints err for people or, with --json, for programs.
func (a *app) report(err error) {
	var s *statusError
	if errors.As(err, &s) && s.err == nil {
		return
	}
	if a.json {
		kind := control.KindOf(err)
		if errors.Is(err, context.Canceled) {
			kind = control.KindInterrupted
		}
		told := &control.Error{Text: err.Error(), Kind: kind}
		var e *control.Error
		if errors.As(err, &e) {
			told.Details = e.Details
		}
		a.writeJSON(a.stderr, told)
		return
	}
	_, _ = fmt.Fprintf(a.stderr, "warren: %s\n", shownText(a.stderr, err.Error()))
}

// errWriter remembers the first failure of a writer, so that a full disk or a
// closed pipe is not lost on the way to the exit code.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}
