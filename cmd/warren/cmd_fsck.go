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

type fsckOptions struct {
	Store      string
	Repair     bool
	AcceptLoss bool
}

// AddFlags adds the flags of fsck.
func (o *fsckOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "check the store at `DIR`, which no daemon has open, or which the daemon at --socket has")
	f.BoolVar(&o.Repair, "repair", false, "mend what is broken; no daemon may have the store open")
	f.BoolVar(&o.AcceptLoss, "accept-loss", false, "with --repair, open a store whose log is damaged: changes after the damage are lost")
}

func newFsckCommand(a *app) *cobra.Command {
	o := &fsckOptions{}
	c := command("fsck [--store DIR] [--repair [--accept-loss]]", "Check every invariant of a store, and mend it", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runFsck(ctx, a, o) })
	c.Long = `Check every invariant of a store, content bytes too, and report what is broken. Nothing
is changed. The running daemon is asked; with --store, a store that no daemon has open
is opened. The exit code is 0 if all is well and 1 if something is broken.

With --repair what is broken is mended, and each step is told. No file's bytes are thrown away:
what has lost its name is put into lost+found at the top of its volume, and records that cannot
be read are set aside. Damaged content stays: reading it is an error until the file is removed or
written anew. Take a backup of the directory first. The exit code is 0 if all is well afterwards.

A store whose log is damaged does not open, since changes that were acknowledged would be lost.
With --accept-loss it does: what precedes the damage is kept, and the damaged file too, under a
name that ends in .damaged.`
	o.AddFlags(c.Flags())
	return c
}

func runFsck(ctx context.Context, a *app, o *fsckOptions) error {
	r, err := check(ctx, a, o)
	if err != nil {
		return err
	}
	if err := a.answer(r, func(w io.Writer) {
		for _, p := range r.Repaired {
			_, _ = fmt.Fprintf(w, "repaired: %s\n", problemText(p))
		}
		for _, p := range r.Problems {
			_, _ = fmt.Fprintln(w, shownText(w, problemText(p)))
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

// problemText is "where: what".
func problemText(p control.Problem) string {
	switch {
	case p.Path != "":
		return p.Path + ": " + p.Text
	case p.Volume != "":
		return fmt.Sprintf("%s:%x: %s", p.Volume, p.Inode, p.Text)
	}
	return p.Text
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
	bar := a.newProgress("fsck", -1, false)
	defer bar.done()
	told := func(p control.Progress) { bar.of(int64(p.Done), int64(p.Total)) }
	if o.Store == "" && !o.Repair && !o.AcceptLoss {
		r, err := c.FsckProgress(ctx, told)
		if control.KindOf(err) == control.KindUnavailable {
			err = errors.Join(err, errors.New("or check a store that no daemon has open with `warren fsck --store DIR`"))
		}
		return r, err
	}
	if o.AcceptLoss && !o.Repair {
		return control.Check{}, usagef("--accept-loss goes with --repair")
	}
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return control.Check{}, err
	}
	if s, err := c.Status(ctx); err == nil && sameDir(s.Store, dir) {
		if o.Repair {
			return control.Check{}, control.Errorf(control.KindConflict, "the daemon (pid %d) has the store %s open; stop it to repair the store", s.PID, dir)
		}
		return c.FsckProgress(ctx, told)
	}
	return checkOffline(ctx, dir, o.Repair, o.AcceptLoss, func(done, total uint64) { told(control.Progress{Done: done, Total: total}) }, a.stderr)
}
