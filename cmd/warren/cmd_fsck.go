package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type fsckOptions struct{ Store string }

// AddFlags adds the flags of fsck.
func (o *fsckOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "check the store at `DIR`, which no daemon has open, or which the daemon at --socket has")
}

func newFsckCommand(a *app) *cobra.Command {
	o := &fsckOptions{}
	c := command("fsck [--store DIR]", "Check every invariant of a store", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runFsck(ctx, a, o) })
	c.Long = `Check every invariant of a store, content bytes too, and report what is broken. Nothing
is changed. The running daemon is asked; with --store, a store that no daemon has open
is opened. The exit code is 0 if all is well and 1 if something is broken.`
	o.AddFlags(c.Flags())
	return c
}

func runFsck(ctx context.Context, a *app, o *fsckOptions) error {
	r, err := check(ctx, a, o)
	if err != nil {
		return err
	}
	if err := a.answer(r, func(w io.Writer) {
		for _, p := range r.Problems {
			where := p.Path
			if where == "" && p.Volume != "" {
				where = fmt.Sprintf("%s:%x", p.Volume, p.Inode)
			}
			if where != "" {
				where += ": "
			}
			_, _ = fmt.Fprintf(w, "%s%s\n", where, p.Text)
		}
		if r.Clean {
			a.say("clean (%d ms)", r.Millis)
		}
	}); err != nil {
		return err
	}
	if !r.Clean {
		return &statusError{code: exitFailed, err: summary(a, r)}
	}
	return nil
}

// summary is what is said last of a broken store; the JSON says it already.
func summary(a *app, r control.Check) error {
	if a.json {
		return nil
	}
	return fmt.Errorf("%d problems found", r.Count)
}

// check asks the daemon, or opens the store.
func check(ctx context.Context, a *app, o *fsckOptions) (control.Check, error) {
	c := a.client()
	if o.Store == "" {
		r, err := c.Fsck(ctx)
		if control.KindOf(err) == control.KindUnavailable {
			err = errors.Join(err, errors.New("or check a store that no daemon has open with `warren fsck --store DIR`"))
		}
		return r, err
	}
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return control.Check{}, err
	}
	if s, err := c.Status(ctx); err == nil && sameDir(s.Store, dir) {
		return c.Fsck(ctx)
	}
	return checkOffline(ctx, dir, a.stderr)
}
