package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type grantOptions struct {
	TTL   string
	Agent string
}

// AddFlags adds the flags of grant.
func (o *grantOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.TTL, "ttl", "", "how long it lasts, such as `2h` or 30m; needed")
}

func newGrantCommand(a *app) *cobra.Command {
	o := &grantOptions{}
	c := command("grant KEY PATH read|write --ttl 2h", "Let an agent read, or write, what is at a tree path and below it, for a time", cobra.ExactArgs(3),
		func(ctx context.Context, args []string) error { return runGrant(ctx, a, o, args[0], args[1], args[2]) })
	o.AddFlags(c.Flags())
	return c
}

func newGrantsCommand(a *app) *cobra.Command {
	o := &grantOptions{}
	c := command("grants [--agent KEY]", "List the grants that have not expired", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runGrants(ctx, a, o) })
	c.Flags().StringVar(&o.Agent, "agent", "", "only those to the agent `KEY`")
	return c
}

func newRevokeCommand(a *app) *cobra.Command {
	return command("revoke ID", "End a grant, in every mount at once", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runRevoke(ctx, a, args[0]) })
}

func runGrant(ctx context.Context, a *app, o *grantOptions, key, path, right string) error {
	if o.TTL == "" {
		return usagef("a grant ends by itself: say when with --ttl, such as --ttl 2h")
	}
	g, err := a.client().Grant(ctx, control.GrantSpec{Agent: key, Path: path, Right: right, TTL: o.TTL})
	if err != nil {
		return err
	}
	return a.done(g, "grant %s: agent %s may %s %s until %s; `warren revoke %s` ends it", g.ID, g.Agent, g.Right, g.Path, stamp(g.Expires), g.ID)
}

func runGrants(ctx context.Context, a *app, o *grantOptions) error {
	gs, err := a.client().Grants(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(gs, func(w io.Writer) {
		var rows [][]string
		for _, g := range gs {
			until := stamp(g.Expires)
			if g.Suspended {
				until += " (suspended)"
			}
			rows = append(rows, []string{g.ID, g.Agent, g.Right, g.Path, dash(g.By), until})
		}
		table(w, []string{"ID", "AGENT", "RIGHT", "PATH", "BY", "UNTIL"}, rows)
	})
}

func runRevoke(ctx context.Context, a *app, id string) error {
	if err := a.client().RevokeGrant(ctx, id); err != nil {
		return err
	}
	return a.done(struct {
		Revoked string `json:"revoked"`
	}{id}, "grant %s revoked", id)
}
