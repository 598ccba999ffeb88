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
	asOptions
	Members  []string
	Right    string
	Template string
	Path     string
	Off      bool
}

// AddFlags adds the flags of project create.
func (o *projectOptions) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.Members, "member", nil, "`KEY[:read|write]` of a member (default write); may be repeated")
	f.StringVar(&o.Template, "template", "", "`NAME` of what it begins with: shared, the files by which agents that share a project tell each other what they do")
}

func newProjectCommand(a *app) *cobra.Command {
	o := &projectOptions{}
	create := command("create SLUG [--member KEY[:RIGHT]]… [--template shared]", "Make a project and the tree /projects/SLUG", cobra.ExactArgs(1),
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
	trust := command("trust SLUG [--agent KEY] [--off]", "Let members of a project trust each other's files", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runProjectTrust(ctx, a, o, args[0]) })
	trust.Long = projectTrustHelp
	o.asOptions.AddFlags(trust.Flags())
	trust.Flags().BoolVar(&o.Off, "off", false, "end it")
	begin := command("init --agent KEY NAME [--path PATH]", "Make a project of an agent's workspace, with the files of the template shared, and make it active", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runProjectInit(ctx, a, o, args[0]) })
	begin.Flags().StringVar(&o.Path, "path", "", "tree `PATH` where it is (default: NAME in the agent's workspace)")
	change := command("switch --agent KEY NAME", "Make a project the active one, where an agent's commands and tools work", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runProjectSwitch(ctx, a, o, args[0]) })
	info := command("info --agent KEY [NAME]", "Show a project as an agent works in it (default: the active one)", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error { return runProjectInfo(ctx, a, o, args) })
	places := command("places --agent KEY", "List the projects that an agent works in", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runProjectPlaces(ctx, a, o) })
	for _, c := range []*cobra.Command{begin, change, info, places} {
		o.asOptions.AddFlags(c.Flags())
	}
	return noun("project", "Make projects, choose their members and where an agent works", create, list, show, member, trust, begin, change, info, places)
}

func runProjectInit(ctx context.Context, a *app, o *projectOptions, name string) error {
	p, err := a.client().InitProject(ctx, control.ProjectInit{Agent: o.Agent, Name: name, Path: o.Path})
	if err != nil {
		return err
	}
	return a.done(p, "%s is ready and active", shown(a.stdout, p.Path))
}

func runProjectSwitch(ctx context.Context, a *app, o *projectOptions, name string) error {
	p, err := a.client().SwitchProject(ctx, control.ProjectSwitch{Agent: o.Agent, Project: name})
	if err != nil {
		return err
	}
	return a.done(p, "%s is active", shown(a.stdout, p.Path))
}

func runProjectInfo(ctx context.Context, a *app, o *projectOptions, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	p, err := a.client().ProjectPlace(ctx, o.Agent, name)
	if err != nil {
		return err
	}
	return a.answer(p, func(w io.Writer) {
		facts(w, "name", shown(w, p.Name), "path", shown(w, p.Path), "active", yesNo(p.Active), "shared", yesNo(p.Shared),
			"remote", shown(w, p.Remote), "branch", shown(w, p.Branch), "head", p.Head)
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func runProjectPlaces(ctx context.Context, a *app, o *projectOptions) error {
	ps, err := a.client().ProjectPlaces(ctx, o.Agent)
	if err != nil {
		return err
	}
	return a.answer(ps, func(w io.Writer) {
		var rows [][]string
		for _, p := range ps {
			active := ""
			if p.Active {
				active = "active"
			}
			rows = append(rows, []string{shown(w, p.Name), shown(w, p.Path), dash(active), dash(shown(w, p.Remote))})
		}
		table(w, []string{"PROJECT", "PATH", "ACTIVE", "REMOTE"}, rows)
	})
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
	p, err := a.client().CreateProject(ctx, control.ProjectSpec{Slug: slug, Members: members, Template: o.Template})
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
	facts(w, "project", p.Slug, "path", p.Path, "members", members(p), "trust", dash(trusting(p)), "created", stamp(p.Created))
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

const projectTrustHelp = `Show the files that members of a project make there as the user's own, in the mounts of
every member, or with --agent of that agent only. By default they are shown as those members'
own, or as nobody's, so that git, ssh and the like refuse to act on them.

Whoever is trusted can make the others run what it likes: the hooks and the settings of a
git repository are programs. A member may say it for itself (--agent), an orchestrator or the
administrator for all.

    warren project trust site                  # all members of site
    warren project trust site --agent gaia     # gaia, in her own mounts
    warren project trust site --off`

// trusting returns the text that names who trusts a project's members.
func trusting(p control.Project) string {
	out := slices.Clone(p.Trust)
	if i := slices.Index(out, "*"); i >= 0 {
		out[i] = "members"
	}
	return strings.Join(out, " ")
}

func runProjectTrust(ctx context.Context, a *app, o *projectOptions, slug string) error {
	p, err := a.client().SetTrust(ctx, slug, control.Trust{Agent: o.Agent, On: !o.Off})
	if err != nil {
		return err
	}
	return a.done(p, "%s is trusted by: %s", p.Slug, dash(trusting(p)))
}
