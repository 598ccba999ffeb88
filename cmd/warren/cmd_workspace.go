package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type workspaceOptions struct {
	asOptions
	Name, Provider string
	MaxAge         int
	DryRun         bool
}

// AddFlags adds the flags of workspace list and show.
func (o *workspaceOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent in whose view they are (default: all)")
}

func newWorkspaceCommand(a *app) *cobra.Command {
	o := &workspaceOptions{}
	list := command("list [--agent KEY]", "List workspaces", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runWorkspaceList(ctx, a, o) })
	list.Aliases = []string{"ls"}
	o.AddFlags(list.Flags())
	show := command("show [--agent KEY] UUID", "Show one workspace", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runWorkspaceShow(ctx, a, o, args[0]) })
	o.AddFlags(show.Flags())
	create := command("create [--name NAME] [--provider NAME]", "Make a device workspace", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runWorkspaceCreate(ctx, a, o) })
	set := command("set UUID [--name NAME] [--provider NAME]", "Change a workspace's name or provider", cobra.ExactArgs(1), nil)
	set.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := interruptible(c.Context())
		defer stop()
		return runWorkspaceSet(ctx, a, o, c.Flags(), args[0])
	}
	for _, c := range []*cobra.Command{create, set} {
		c.Flags().StringVar(&o.Name, "name", "", "`NAME` for people")
		c.Flags().StringVar(&o.Provider, "provider", "", "`NAME` of who runs the model there")
	}
	del := command("delete UUID", "Remove a device workspace with its bindings, session and files", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runWorkspaceDelete(ctx, a, args[0]) })
	del.Aliases = []string{"rm"}
	gc := command("gc [--max-age DAYS] [--dry-run]", "Remove device workspaces that nobody has used for long", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runWorkspaceGC(ctx, a, o) })
	gc.Flags().IntVar(&o.MaxAge, "max-age", 90, "`DAYS` without a mount, a session, a binding or a write")
	gc.Flags().BoolVar(&o.DryRun, "dry-run", false, "only tell which")
	return noun("workspace", "List workspaces; make, remove and collect those of devices", list, show, create, set, del, gc)
}

func workspaceTable(w io.Writer, ws []control.Workspace) {
	var rows [][]string
	for _, x := range ws {
		rows = append(rows, []string{x.UUID, x.Kind, shown(w, x.Name), x.Path, stamp(x.LastAccessed)})
	}
	table(w, []string{"UUID", "KIND", "NAME", "PATH", "LAST ACCESSED"}, rows)
}

func runWorkspaceList(ctx context.Context, a *app, o *workspaceOptions) error {
	ws, err := a.client().Workspaces(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(ws, func(w io.Writer) { workspaceTable(w, ws) })
}

func runWorkspaceShow(ctx context.Context, a *app, o *workspaceOptions, uuid string) error {
	x, err := a.client().Workspace(ctx, o.Agent, uuid)
	if err != nil {
		return err
	}
	return a.answer(x, func(w io.Writer) {
		facts(w, "name", shown(w, x.Name), "uuid", x.UUID, "kind", x.Kind, "owner", x.Owner, "path", x.Path, "provider", shown(w, x.Provider),
			"devices", shown(w, strings.Join(x.Devices, " ")), "created", stamp(x.CreatedAt), "last accessed", stamp(x.LastAccessed))
	})
}

func runWorkspaceCreate(ctx context.Context, a *app, o *workspaceOptions) error {
	x, err := a.client().CreateWorkspace(ctx, control.WorkspaceSpec{Name: o.Name, Provider: o.Provider})
	if err != nil {
		return err
	}
	return a.done(x, "workspace %s made at %s", x.UUID, x.Path)
}

func runWorkspaceSet(ctx context.Context, a *app, o *workspaceOptions, f *pflag.FlagSet, uuid string) error {
	var c control.WorkspaceChange
	if f.Changed("name") {
		c.Name = &o.Name
	}
	if f.Changed("provider") {
		c.Provider = &o.Provider
	}
	x, err := a.client().SetWorkspace(ctx, uuid, c)
	if err != nil {
		return err
	}
	return a.done(x, "workspace %s changed", x.UUID)
}

func runWorkspaceDelete(ctx context.Context, a *app, uuid string) error {
	if err := a.client().DeleteWorkspace(ctx, uuid); err != nil {
		return err
	}
	return a.done(map[string]string{"removed": uuid}, "workspace %s removed", uuid)
}

func runWorkspaceGC(ctx context.Context, a *app, o *workspaceOptions) error {
	if o.MaxAge < 1 {
		return usagef("--max-age %d: expected a number of days, 1 or more", o.MaxAge)
	}
	got, err := a.client().CollectWorkspaces(ctx, control.Collection{MaxAge: o.MaxAge, DryRun: o.DryRun})
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) {
		if len(got.Removed) > 0 && !a.quiet {
			workspaceTable(w, got.Removed)
		}
		verb := "removed"
		if got.DryRun {
			verb = "to be removed"
		}
		_, _ = fmt.Fprintf(w, "%d %s\n", len(got.Removed), verb)
	})
}
