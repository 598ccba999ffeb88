package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type projectOptions struct {
	Members []string
	Right   string
}

// AddFlags adds the flags of project create.
func (o *projectOptions) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Members, "member", nil, "`KEY[:read|write]` of a member (default write); may be repeated")
}

func newProjectCommand(a *app) *cobra.Command {
	o := &projectOptions{}
	create := command("create SLUG [--member KEY[:RIGHT]]…", "Make a project and the tree /projects/SLUG", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runProjectCreate(ctx, a, o, args[0]) })
	o.AddFlags(create.Flags())
	list := command("list", "List projects", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runProjectList(ctx, a) })
	list.Aliases = []string{"ls"}
	show := command("show SLUG", "Show one project", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runProjectShow(ctx, a, args[0]) })
	member := command("member SLUG KEY --right read|write|none", "Give an agent a right, or take it away", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runProjectMember(ctx, a, o, args[0], args[1]) })
	member.Flags().StringVar(&o.Right, "right", "write", "`read|write|none`")
	return noun("project", "Make projects and choose their members", create, list, show, member)
}

func runProjectCreate(ctx context.Context, a *app, o *projectOptions, slug string) error {
	members := map[string]string{}
	for _, m := range o.Members {
		key, right, set := strings.Cut(m, ":")
		if !set {
			right = "write"
		}
		members[key] = right
	}
	p, err := a.client().CreateProject(ctx, control.ProjectSpec{Slug: slug, Members: members})
	if err != nil {
		return err
	}
	return a.done(p, "project %s made at %s", p.Slug, p.Path)
}

func members(p control.Project) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(p.Members)) {
		out = append(out, k+":"+p.Members[k])
	}
	return strings.Join(out, " ")
}

func runProjectList(ctx context.Context, a *app) error {
	ps, err := a.client().Projects(ctx)
	if err != nil {
		return err
	}
	return a.answer(ps, func(w io.Writer) {
		var rows [][]string
		for _, p := range ps {
			rows = append(rows, []string{p.Slug, p.Path, dash(members(p))})
		}
		table(w, []string{"PROJECT", "PATH", "MEMBERS"}, rows)
	})
}

func runProjectShow(ctx context.Context, a *app, slug string) error {
	p, err := a.client().Project(ctx, slug)
	if err != nil {
		return err
	}
	return a.answer(p, func(w io.Writer) { showProject(w, p) })
}

func showProject(w io.Writer, p control.Project) {
	facts(w, "project", p.Slug, "path", p.Path, "members", members(p), "created", stamp(p.Created))
}

func runProjectMember(ctx context.Context, a *app, o *projectOptions, slug, key string) error {
	right := o.Right
	if right == "none" {
		right = ""
	}
	p, err := a.client().SetMember(ctx, slug, control.Member{Agent: key, Right: right})
	if err != nil {
		return err
	}
	return a.done(p, "members of %s: %s", p.Slug, dash(members(p)))
}
