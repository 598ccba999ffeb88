package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type restoreStoreOptions struct {
	Store  string
	Forget bool
}

// AddFlags adds the flags of restore-store.
func (o *restoreStoreOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "`DIR` of the new store (WARREN_STORE; default $XDG_STATE_HOME/warren, for root /var/lib/warren); empty or not there")
	f.BoolVar(&o.Forget, "forget-mounts", false, "leave out the mounts that were recorded: for a store beside the one that was backed up")
}

func newRestoreStoreCommand(a *app) *cobra.Command {
	o := &restoreStoreOptions{}
	c := command("restore-store FILE… [--store DIR]", "Make a store of a backup", cobra.MinimumNArgs(1),
		func(ctx context.Context, args []string) error { return runRestoreStore(ctx, a, o, args) })
	c.Long = `Make a store of a backup in an empty directory: a full one, and the incremental ones after it in
their order. All files are read and checked to the end before anything is written: damaged, cut or
unfitting ones are refused. The new store is checked like by fsck before it counts as one. It has
the mounts that were recorded, too: the next ` + "`warren serve`" + ` makes them, at the mountpoints of the store
that was backed up, unless --forget-mounts is said.`
	o.AddFlags(c.Flags())
	return c
}

func runRestoreStore(ctx context.Context, a *app, o *restoreStoreOptions, files []string) error {
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return err
	}
	r, err := a.restoreStore(ctx, dir, files, o.Forget)
	if err != nil {
		return err
	}
	what := ""
	if r.Mounts > 0 {
		what = fmt.Sprintf(", which mounts at the %d mountpoints of the store that was backed up (--forget-mounts leaves them out)", r.Mounts)
	}
	if err := a.done(r, "%s: restored as of update %d; next: `warren serve --store %s`%s", dir, r.LSN, dir, what); err != nil || r.Problems == 0 {
		return err
	}
	if a.json {
		return &statusError{code: exitPartial}
	}
	return control.Errorf(control.KindPartial, "%d problems were in the store when it was backed up; see `warren fsck --store %s`", r.Problems, dir)
}
