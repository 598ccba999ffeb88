package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type policyOptions struct {
	Agent  string
	Action string
	Under  string
	Remove bool
}

// AddFlags adds the flags that show and explain share.
func (o *policyOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent")
}

func newPolicyCommand(a *app) *cobra.Command {
	o := &policyOptions{}
	show := command("show [--agent KEY]", "Show the Cedar policies in force", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runPolicyShow(ctx, a, o) })
	o.AddFlags(show.Flags())
	explain := command("explain --agent KEY --action ACTION PATH", "Tell which rules decide, and how", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyExplain(ctx, a, o, args[0]) })
	o.AddFlags(explain.Flags())
	explain.Flags().StringVar(&o.Action, "action", "", "`see|read|write|create|remove|move|link`")
	allow := command("allow-name NAME --under PATH [--remove]",
		"Let a name of the deny-list be used under PATH", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyAllowName(ctx, a, o, args[0]) })
	allow.Flags().StringVar(&o.Under, "under", "", "tree `PATH` of the directory it holds under")
	allow.Flags().BoolVar(&o.Remove, "remove", false, "take the exception away again")
	return noun("policy", "Show, set, explain and load policies; deny and allow names",
		append(append(newPolicyFileCommands(a), show, explain, allow), newPolicySettingsCommands(a)...)...)
}

func runPolicyShow(ctx context.Context, a *app, o *policyOptions) error {
	p, err := a.client().Policy(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(p, func(w io.Writer) {
		if p.Cedar == "" { // an agent asks
			facts(w, "agent", p.Agent, "access", p.Access, "mode", p.Mode)
			for _, slug := range slices.Sorted(maps.Keys(p.Projects)) {
				facts(w, "project", slug+" ("+p.Projects[slug]+")")
			}
		}
		_, _ = io.WriteString(w, p.Cedar)
		writeNames(w, p)
	})
}

// writeNames writes the deny-list and its exceptions as Cedar comments, so that
// what is shown stays Cedar.
func writeNames(w io.Writer, p control.Policy) {
	_, _ = fmt.Fprintf(w, "\n// Names of the deny-list: %s\n", strings.Join(p.DenyNames, " "))
	for _, x := range p.Rules {
		_, _ = fmt.Fprintf(w, "//   %s\n", deniedText(x))
	}
	if len(p.Exceptions) == 0 {
		_, _ = fmt.Fprintln(w, "// No exceptions; `warren policy allow-name NAME --under PATH` makes one.")
		return
	}
	_, _ = fmt.Fprintln(w, "// Exceptions:")
	for _, x := range p.Exceptions {
		_, _ = fmt.Fprintf(w, "//   %s under %s\n", x.Name, x.Under)
	}
}

func runPolicyExplain(ctx context.Context, a *app, o *policyOptions, path string) error {
	if o.Agent == "" || o.Action == "" {
		return usagef("give --agent KEY and --action see|read|write|create|remove|move|link")
	}
	e, err := a.client().Explain(ctx, o.Agent, o.Action, path)
	if err != nil {
		return err
	}
	return a.answer(e, func(w io.Writer) {
		verdict := "deny"
		if e.Allow {
			verdict = "allow"
		}
		_, _ = fmt.Fprintf(w, "%s: %s %s %s\n", verdict, e.Agent, e.Action, shown(w, e.Path))
		for _, r := range e.Rules {
			_, _ = fmt.Fprintf(w, "  %s  %s:%d  %s\n", r.ID, r.File, r.Line, r.Reason)
		}
		for _, t := range e.Errors {
			_, _ = fmt.Fprintf(w, "  error (denies): %s\n", t)
		}
		if e.Note != "" {
			_, _ = fmt.Fprintf(w, "  %s\n", e.Note)
		}
		if hint := inMount(path); hint != "" && !e.Allow {
			_, _ = fmt.Fprintf(w, "  %s\n", hint)
		}
	})
}

func runPolicyAllowName(ctx context.Context, a *app, o *policyOptions, name string) error {
	if o.Under == "" {
		return usagef("where? give --under PATH, a tree path such as /agents/KEY/workspace")
	}
	x := control.NameException{Name: name, Under: o.Under}
	if o.Remove {
		if err := a.client().DisallowName(ctx, x); err != nil {
			return err
		}
		return a.done(x, "%s is denied under %s again", x.Name, x.Under)
	}
	if err := a.client().AllowName(ctx, x); err != nil {
		return err
	}
	return a.done(x, "%s is allowed under %s", x.Name, x.Under)
}
