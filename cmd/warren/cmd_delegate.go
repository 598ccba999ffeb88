package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/warrenfs/warren/control"
)

type delegateOptions struct {
	asOptions
	To, Project string
	All         bool
}

func newDelegateCommand(a *app) *cobra.Command {
	o := &delegateOptions{}
	begin := command("begin [--agent KEY] --to KEY [--project NAME]", "Make a delegate's project ready, and print an id to ask for its changes with (--quiet: the id alone)", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runDelegateBegin(ctx, a, o) })
	begin.Flags().StringVar(&o.To, "to", "", "`KEY` of the agent that is to work")
	begin.Flags().StringVar(&o.Project, "project", "", "`NAME` of a directory of its workspace, gone on with or made, or /projects/NAME (default: a fresh one)")
	diff := command("diff [--agent KEY] ID [--all]", "List the files that the delegate added, changed, renamed and removed since", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runDelegateDiff(ctx, a, o, args[0]) })
	diff.Flags().BoolVar(&o.All, "all", false, "what anybody changed there")
	c := noun("delegate", "Set an agent to work in a project, and see what it changed", begin, diff)
	c.Long = `Set an agent to work in a project, and see what it changed, for hosts that run agents themselves.
` + "`warren run --report FILE`" + ` does both around a command. Without --agent it is the administrator
who delegates.`
	c.PersistentFlags().StringVar(&o.Agent, "agent", "", "`KEY` of the agent that delegates (with a token: the token's)")
	return c
}

func runDelegateBegin(ctx context.Context, a *app, o *delegateOptions) error {
	if o.To == "" {
		return usagef("to which agent? give --to KEY")
	}
	d, err := a.client().Delegate(ctx, control.DelegationSpec{Agent: o.Agent, Delegate: o.To, Project: o.Project})
	if err != nil {
		return err
	}
	return a.answer(d, func(w io.Writer) {
		if a.quiet {
			_, _ = fmt.Fprintln(w, d.ID)
			return
		}
		facts(w, "delegate", d.Delegate, "project", shown(w, d.Project), "workspace", shown(w, d.Workspace), "id", d.ID)
	})
}

func runDelegateDiff(ctx context.Context, a *app, o *delegateOptions, id string) error {
	got, err := a.client().DelegationChanges(ctx, control.DelegationQuery{Agent: o.Agent, ID: id, All: o.All})
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { showChanges(w, &got.Changes, o.All) })
}

// showChanges prints a line for each file; by: who did it, too.
func showChanges(w io.Writer, c *control.Changes, by bool) {
	for _, l := range c.Lists() {
		for _, x := range *l.List {
			line := fmt.Sprintf("%-12s %s", strings.ReplaceAll(l.Name, "_", " "), shown(w, x.Path))
			if x.From != "" {
				line += " (from " + shown(w, x.From) + ")"
			}
			if by {
				line += "  by " + strings.Join(authors(x.By), ", ")
			}
			_, _ = fmt.Fprintln(w, line)
		}
	}
}

// authors names who did something.
func authors(keys []string) []string {
	var out []string
	for _, k := range keys {
		if k == "" {
			k = "administrator"
		}
		out = append(out, k)
	}
	return out
}
