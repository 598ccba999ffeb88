package main

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type agentOptions struct {
	Role     string
	User     string
	Parent   string
	Access   string
	OnlyUser string
	Name     string
	Email    string
	Mode     string
	Publish  string
	Yes      bool
}

// AddFlags adds the flags of agent set, and most of agent add's.
func (o *agentOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.User, "user", "", "`ID` of the user it belongs to; an orchestrator is limited to that user's agents")
	f.StringVar(&o.Parent, "parent", "", "`KEY` of the agent above it, which sees its tree")
	f.StringVar(&o.Access, "access", "", "what it may do at most: `rw|ro|none` (default rw)")
	f.StringVar(&o.Name, "name", "", "display `NAME`")
	f.StringVar(&o.Email, "email", "", "`ADDRESS` for commits (default KEY@warren.local)")
}

func newAgentCommand(a *app) *cobra.Command {
	o := &agentOptions{}
	add := command("add KEY [--role ROLE] [--user ID] [--parent KEY] [--access MODE]",
		"Add an agent with its home, workspace and scratch", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runAgentAdd(ctx, a, o, args[0]) })
	o.AddFlags(add.Flags())
	add.Flags().StringVar(&o.Role, "role", "", "`orchestrator|soul|shared` (default soul)")
	list := command("list", "List agents", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runAgentList(ctx, a) })
	list.Aliases = []string{"ls"}
	show := command("show KEY", "Show one agent", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runAgentShow(ctx, a, args[0]) })
	set := command("set KEY [--access MODE] [--user ID] [--parent KEY] …",
		"Change an agent; it holds in its mounts at once", cobra.ExactArgs(1), nil)
	set.Flags().StringVar(&o.Mode, "mode", "", "how a soul works under its parent: `own|inherit|inherit-ro|home-only|mapped PATH:ro|rw …` (one word of the shell)")
	set.Flags().StringVar(&o.Publish, "publish", "", "what publications to a shared agent may replace: `own|any` (default own: what the same agent published under that name)")
	o.AddFlags(set.Flags())
	set.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := interruptible(c.Context())
		defer stop()
		return runAgentSet(ctx, a, o, args[0], c.Flags().Changed)
	}
	rm := command("rm KEY --yes", "Unmount and remove an agent with all its files", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runAgentRemove(ctx, a, o, args[0]) })
	rm.Aliases = []string{"remove"}
	rm.Flags().BoolVar(&o.Yes, "yes", false, "yes, remove the files too")
	return noun("agent", "Add, list, show, change and remove agents", add, list, show, set, rm)
}

func runAgentAdd(ctx context.Context, a *app, o *agentOptions, key string) error {
	spec := control.AgentSpec{Key: key, Role: o.Role, User: o.User, Parent: o.Parent, Access: o.Access,
		Name: o.Name, Email: o.Email}
	if o.Role == "orchestrator" {
		spec.User, spec.OnlyUser = "", o.User
	}
	ag, err := a.client().AddAgent(ctx, spec)
	if err != nil {
		return err
	}
	return a.done(ag, "agent %s added (%s); mount it with `warren mount --agent %s DIR`", ag.Key, ag.Role, ag.Key)
}

func runAgentList(ctx context.Context, a *app) error {
	as, err := a.client().Agents(ctx)
	if err != nil {
		return err
	}
	return a.answer(as, func(w io.Writer) {
		var rows [][]string
		for _, g := range as {
			user := g.User
			if g.OnlyUser != "" {
				user = "only " + g.OnlyUser
			}
			rows = append(rows, []string{g.Key, g.Role, dash(user), dash(g.Parent), g.Access, dash(g.Name)})
		}
		table(w, []string{"AGENT", "ROLE", "USER", "PARENT", "ACCESS", "NAME"}, rows)
	})
}

func runAgentShow(ctx context.Context, a *app, key string) error {
	g, err := a.client().Agent(ctx, key)
	if err != nil {
		return err
	}
	return a.answer(g, func(w io.Writer) { showAgent(w, g) })
}

func showAgent(w io.Writer, g control.Agent) {
	facts(w, "agent", g.Key, "role", g.Role, "user", g.User, "only user", g.OnlyUser, "parent", g.Parent,
		"access", g.Access, "mode", g.Mode, "publish", g.Publish, "name", g.Name, "email", g.Email, "home", g.Home, "workspace", g.Work,
		"scratch", g.Scratch, "run uid", strconv.FormatUint(uint64(g.RunUID), 10), "created", stamp(g.Created))
}

func runAgentSet(ctx context.Context, a *app, o *agentOptions, key string, given func(string) bool) error {
	var c control.AgentChange
	any := false
	pick := func(flag string, to **string, v *string) {
		if given(flag) {
			*to, any = v, true
		}
	}
	pick("parent", &c.Parent, &o.Parent)
	pick("access", &c.Access, &o.Access)
	pick("mode", &c.Mode, &o.Mode)
	pick("name", &c.Name, &o.Name)
	pick("email", &c.Email, &o.Email)
	pick("publish", &c.Publish, &o.Publish)
	if given("user") {
		g, err := a.client().Agent(ctx, key)
		if err != nil {
			return err
		}
		pick("user", &c.User, &o.User)
		if g.Role == "orchestrator" {
			c.User, c.OnlyUser = nil, &o.User
		}
	}
	if !any {
		return usagef("nothing to change; see `warren agent set --help`")
	}
	g, err := a.client().SetAgent(ctx, key, c)
	if err != nil {
		return err
	}
	if a.quiet {
		return nil
	}
	return a.answer(g, func(w io.Writer) { showAgent(w, g) })
}

func runAgentRemove(ctx context.Context, a *app, o *agentOptions, key string) error {
	if !o.Yes {
		return usagef("this removes /agents/%s and every file in it; say --yes if that is meant", key)
	}
	if err := a.client().RemoveAgent(ctx, key); err != nil {
		return err
	}
	return a.done(struct {
		Removed string `json:"removed"`
	}{key}, "agent %s removed", key)
}
