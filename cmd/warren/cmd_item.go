package main

import (
	"context"
	_ "embed" // the texts of skill.md and agents.md
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

// asOptions say for which agent it is done.
type asOptions struct{ Agent string }

// AddFlags adds --agent.
func (o *asOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent that does it (with a token: the token's)")
}

func newItemCommand(a *app) *cobra.Command {
	o := &asOptions{}
	list := command("list --agent KEY", "List items, newest first", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runItemList(ctx, a, o) })
	list.Aliases = []string{"ls"}
	read := command("read --agent KEY NAME", "Print an item's value", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runItemRead(ctx, a, o, args[0]) })
	write := command("write --agent KEY NAME [VALUE]", "Make an item or replace its value, by what comes in if VALUE is left out",
		cobra.RangeArgs(1, 2), func(ctx context.Context, args []string) error { return runItemWrite(ctx, a, o, args) })
	del := command("delete --agent KEY NAME", "Remove an item", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runItemDelete(ctx, a, o, args[0]) })
	del.Aliases = []string{"rm"}
	c := noun("item", "Keep values that a user's agents share", list, read, write, del)
	c.Long = `Keep values that a user's agents share: the files at the top of /users/<user>, or of the
workspace of an agent that is shared or has no user, with who made them and when.`
	o.AddFlags(c.PersistentFlags())
	return c
}

func runItemList(ctx context.Context, a *app, o *asOptions) error {
	items, err := a.client().Items(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(items, func(w io.Writer) {
		var rows [][]string
		for _, it := range items {
			shows := it.Type
			if it.Preview != nil {
				shows = strings.Join(strings.Fields(*it.Preview), " ")
			} else if it.Type != "dir" {
				shows += ", " + size(it.Size)
			}
			rows = append(rows, []string{shown(w, itemName(it)), dash(it.CreatedBy), stamp(it.UpdatedAt), shown(w, shows)})
		}
		table(w, []string{"KEY", "CREATED BY", "UPDATED", "PREVIEW"}, rows)
	})
}

func itemName(it control.ItemInfo) string {
	if it.KeyBytes != nil {
		return string(it.KeyBytes)
	}
	return it.Key
}

func runItemRead(ctx context.Context, a *app, o *asOptions, key string) error {
	it, err := a.client().ReadItem(ctx, o.Agent, key)
	if err != nil {
		return err
	}
	return a.answer(it, func(w io.Writer) { _, _ = io.WriteString(w, it.Value) })
}

func runItemWrite(ctx context.Context, a *app, o *asOptions, args []string) error {
	value := ""
	if len(args) == 2 {
		value = args[1]
	} else {
		b, err := io.ReadAll(io.LimitReader(a.stdin, control.MaxItem+1))
		if err != nil {
			return err
		}
		value = string(b)
	}
	got, err := a.client().WriteItem(ctx, o.Agent, args[0], value)
	if err != nil {
		return err
	}
	return a.done(got, "%s written in %s", shown(a.stdout, got.Key), got.WorkspaceID)
}

func runItemDelete(ctx context.Context, a *app, o *asOptions, key string) error {
	got, err := a.client().DeleteItem(ctx, o.Agent, key)
	if err != nil {
		return err
	}
	return a.done(got, "%s deleted", shown(a.stdout, got.Key))
}

type publishOptions struct {
	asOptions
	To, As string
}

// AddFlags adds the flags of publish.
func (o *publishOptions) AddFlags(f *pflag.FlagSet) {
	o.asOptions.AddFlags(f)
	f.StringVar(&o.To, "to", "", "`AGENT`, a shared one, that gets it")
	f.StringVar(&o.As, "as", "", "`NAME` there (default: the same)")
}

func newPublishCommand(a *app) *cobra.Command {
	o := &publishOptions{}
	c := command("publish --agent KEY ITEM|PATH --to AGENT [--as NAME]", "Copy an item or a file to a shared agent", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPublish(ctx, a, o, args[0]) })
	c.Long = `Copy an item, or with a path (it has a / in it) a file that the agent may read, into the workspace
of a shared agent. In a mount the same is: cp FILE /warren/.warren/publish/AGENT/NAME

It replaces what the same agent published under that name before, which stays there in
.published/NAME. Anything else that has the name is a conflict (exit code 11), unless
the shared agent allows it (` + "`warren agent set AGENT --publish any`" + `). What arrives is no
program: its mode is 0644.`
	o.AddFlags(c.Flags())
	return c
}

func runPublish(ctx context.Context, a *app, o *publishOptions, what string) error {
	if o.To == "" {
		return usagef("to which agent? give --to AGENT")
	}
	p := control.Publication{Agent: o.Agent, Target: o.To, TargetKey: o.As}
	if strings.Contains(what, "/") {
		p.Path = what
	} else {
		p.Key = what
	}
	got, err := a.client().Publish(ctx, p)
	if err != nil {
		return err
	}
	return a.done(got, "published to %s as %s", got.ToAgent, shown(a.stdout, got.ToKey))
}

type contextOptions struct {
	asOptions
	Skill, AgentsMD bool
}

// AddFlags adds the flags of context.
func (o *contextOptions) AddFlags(f *pflag.FlagSet) {
	o.asOptions.AddFlags(f)
	f.BoolVar(&o.Skill, "skill", false, "print a SKILL.md instead, which tells an agent how to work here")
	f.BoolVar(&o.AgentsMD, "agents-md", false, "print the same in short instead, for an AGENTS.md")
}

func newContextCommand(a *app) *cobra.Command {
	o := &contextOptions{}
	c := command("context --agent KEY", "Print the state that an agent's prompt includes", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runContext(ctx, a, o) })
	c.Long = `Print the state that an agent's prompt includes: who it is, where it may write, its projects, what
is open and new for it there, its fields, what it was denied of late. In a mount it is
/warren/.warren/context.md.`
	o.AddFlags(c.Flags())
	return c
}

// The texts that tell an agent how to work in a workspace; scripts/plugin has
// the same.
var (
	//go:embed skill.md
	skillText string
	//go:embed agents.md
	agentsText string
)

func runContext(ctx context.Context, a *app, o *contextOptions) error {
	for _, t := range []struct {
		wanted bool
		text   string
	}{{o.Skill, skillText}, {o.AgentsMD, agentsText}} {
		if t.wanted {
			return a.answer(map[string]string{"text": t.text}, func(w io.Writer) { _, _ = io.WriteString(w, t.text) })
		}
	}
	got, err := a.client().Context(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { _, _ = fmt.Fprint(w, shownText(w, got.Text)) })
}

// variables are the names of the environment's that override a setting.
func (a *app) variables() []string {
	var out []string
	for name := range control.ConfigVariables() {
		if a.getenv(name) != "" {
			out = append(out, name)
		}
	}
	return out
}
