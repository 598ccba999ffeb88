package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type tokenOptions struct {
	TTL   time.Duration
	Agent string
}

// AddFlags adds the flags of token create.
func (o *tokenOptions) AddFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.TTL, "ttl", 0, "how long it is worth something, a `TIME` such as 24h (default: until it is revoked)")
}

func newTokenCommand(a *app) *cobra.Command {
	o := &tokenOptions{}
	create := command("create KEY [--ttl TIME]", "Make a token for an agent and print it, this once", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runTokenCreate(ctx, a, o, args[0]) })
	create.Long = `Make a token for an agent and print it. It is told this once: only a hash of it is
stored. Whoever shows it at agent.sock is that agent and nobody else (--token-file FILE,
WARREN_TOKEN, or --token, which others on the host can read in the list of processes).`
	o.AddFlags(create.Flags())
	list := command("list", "List tokens, without their secrets", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runTokenList(ctx, a, o) })
	list.Aliases = []string{"ls"}
	list.Flags().StringVar(&o.Agent, "agent", "", "only those of the agent `KEY`")
	revoke := command("revoke ID…", "End tokens, and all that goes on with them", cobra.MinimumNArgs(1),
		func(ctx context.Context, args []string) error { return runTokenRevoke(ctx, a, args) })
	revoke.Aliases = []string{"rm"}
	return noun("token", "Make, list and revoke the tokens that agents show at agent.sock", create, list, revoke)
}

func runTokenCreate(ctx context.Context, a *app, o *tokenOptions, agent string) error {
	spec := control.TokenSpec{Agent: agent}
	if o.TTL < 0 {
		return usagef("--ttl %s is over already", o.TTL)
	}
	if o.TTL > 0 {
		spec.TTL = o.TTL.String()
	}
	t, err := a.client().CreateToken(ctx, spec)
	if err != nil {
		return err
	}
	return a.answer(t, func(w io.Writer) { _, _ = fmt.Fprintln(w, t.Text) })
}

func runTokenList(ctx context.Context, a *app, o *tokenOptions) error {
	ts, err := a.client().Tokens(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(ts, func(w io.Writer) {
		var rows [][]string
		for _, t := range ts {
			until := "-"
			switch {
			case t.Expired:
				until = "expired"
			case t.Expires != nil:
				until = stamp(*t.Expires)
			}
			rows = append(rows, []string{t.ID, t.Agent, stamp(t.Created), until})
		}
		table(w, []string{"TOKEN", "AGENT", "CREATED", "UNTIL"}, rows)
	})
}

func runTokenRevoke(ctx context.Context, a *app, ids []string) error {
	c := a.client()
	var errs []error
	for _, id := range ids {
		if err := c.RevokeToken(ctx, id); err != nil {
			errs = append(errs, err)
			continue
		}
		a.say("token %s revoked", id)
	}
	if len(ids) == 1 && len(errs) == 1 {
		return errs[0]
	}
	if err := someFailed(errs, len(ids)); err != nil {
		return err
	}
	if a.json {
		a.writeJSON(a.stdout, struct {
			Revoked []string `json:"revoked"`
		}{ids})
	}
	return nil
}
