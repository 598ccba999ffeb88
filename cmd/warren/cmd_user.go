package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type userOptions struct {
	Name  string
	Email string
	Yes   bool
}

// AddFlags adds the flags of user add.
func (o *userOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Name, "name", "", "the person's `NAME`")
	f.StringVar(&o.Email, "email", "", "the person's `ADDRESS`")
}

func newUserCommand(a *app) *cobra.Command {
	o := &userOptions{}
	add := command("add ID [--name NAME] [--email ADDRESS]", "Add a user and the tree /users/ID", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runUserAdd(ctx, a, o, args[0]) })
	o.AddFlags(add.Flags())
	list := command("list", "List users", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runUserList(ctx, a) })
	list.Aliases = []string{"ls"}
	show := command("show ID", "Show one user", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runUserShow(ctx, a, args[0]) })
	rm := command("rm ID --yes", "Remove a user and /users/ID with all in it", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runUserRemove(ctx, a, o, args[0]) })
	rm.Aliases = []string{"remove"}
	rm.Flags().BoolVar(&o.Yes, "yes", false, "yes, remove the files too")
	return noun("user", "Add, list, show and remove users", add, list, show, rm)
}

func runUserAdd(ctx context.Context, a *app, o *userOptions, id string) error {
	u, err := a.client().AddUser(ctx, control.UserSpec{ID: id, Name: o.Name, Email: o.Email})
	if err != nil {
		return err
	}
	return a.done(u, "user %s added; their agents share /users/%s", u.ID, u.ID)
}

func runUserList(ctx context.Context, a *app) error {
	us, err := a.client().Users(ctx)
	if err != nil {
		return err
	}
	return a.answer(us, func(w io.Writer) {
		var rows [][]string
		for _, u := range us {
			rows = append(rows, []string{u.ID, dash(u.Name), dash(u.Email), dash(strings.Join(u.Agents, ","))})
		}
		table(w, []string{"USER", "NAME", "EMAIL", "AGENTS"}, rows)
	})
}

func runUserShow(ctx context.Context, a *app, id string) error {
	u, err := a.client().User(ctx, id)
	if err != nil {
		return err
	}
	return a.answer(u, func(w io.Writer) {
		facts(w, "user", u.ID, "name", u.Name, "email", u.Email, "tree", "/users/"+u.ID,
			"agents", strings.Join(u.Agents, ", "), "created", stamp(u.Created))
	})
}

func runUserRemove(ctx context.Context, a *app, o *userOptions, id string) error {
	if !o.Yes {
		return usagef("this removes /users/%s and every file in it; say --yes if that is meant", id)
	}
	if err := a.client().RemoveUser(ctx, id); err != nil {
		return err
	}
	return a.done(struct {
		Removed string `json:"removed"`
	}{id}, "user %s removed", id)
}
