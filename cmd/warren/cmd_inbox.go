package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/mcp"
)

type inboxOptions struct {
	inProjectOptions
	Body, For  string
	JournalRef string
	All        bool
}

func newInboxCommand(a *app) *cobra.Command {
	o := &inboxOptions{}
	add := command("add [--agent KEY] [--project NAME] TITLE [--body TEXT] [--for KEY]", "Add an item and print its id", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runInboxAdd(ctx, a, o, args[0]) })
	add.Flags().StringVar(&o.Body, "body", "", "`TEXT` below the title")
	add.Flags().StringVar(&o.For, "for", "", "`KEY` of the agent who is to look at it (default: anyone)")
	shut := command("close [--agent KEY] [--project NAME] ID RESOLUTION", "Close an item", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runInboxClose(ctx, a, o, args[0], args[1]) })
	shut.Flags().StringVar(&o.JournalRef, "journal-ref", "", "`TIME` of the journal's entry about it, as the journal has it")
	list := command("list [--agent KEY] [--project NAME] [--for KEY] [--all]", "List the open items", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runInboxList(ctx, a, o) })
	list.Aliases = []string{"ls"}
	list.Flags().StringVar(&o.For, "for", "", "only those for `KEY` or for anyone")
	list.Flags().BoolVar(&o.All, "all", false, "the closed ones too")
	c := noun("inbox", "Ask others for something in a project, and close what is done", add, shut, list)
	c.Long = `Ask others for something in a project, and close what is done: the project's inbox.md. Ids are
unique, whoever adds items at once, also by hand or by a pull.`
	o.AddFlags(c.PersistentFlags())
	return c
}

func runInboxAdd(ctx context.Context, a *app, o *inboxOptions, title string) error {
	got, err := a.client().AddInbox(ctx, control.InboxNote{Agent: o.Agent, Project: o.Project, Title: title, Body: o.Body, For: o.For})
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { _, _ = fmt.Fprintln(w, got.ID) })
}

func runInboxClose(ctx context.Context, a *app, o *inboxOptions, id, resolution string) error {
	got, err := a.client().CloseInbox(ctx, control.InboxClosing{Agent: o.Agent, Project: o.Project, ID: id, Resolution: resolution, JournalRef: o.JournalRef})
	if err != nil {
		return err
	}
	return a.done(got, "%s closed", got.ID)
}

func runInboxList(ctx context.Context, a *app, o *inboxOptions) error {
	got, err := a.client().Inbox(ctx, control.InboxQuery{Agent: o.Agent, Project: o.Project, For: o.For, Closed: o.All})
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { showItems(w, got.Items) })
}

func showItems(w io.Writer, items []control.InboxItem) {
	var rows [][]string
	for _, it := range items {
		state, by, at := "open", it.AddedBy, it.AddedAt
		if it.Closed {
			state, by, at = "closed", it.ClosedBy, it.ClosedAt
		}
		when := ""
		if at != nil {
			when = at.Format("2006-01-02 15:04")
		}
		title := it.Title
		if it.Resolution != "" {
			title += " → " + it.Resolution
		}
		rows = append(rows, []string{it.ID, state, dash(shown(w, it.For)), dash(shown(w, by)), dash(when), shown(w, title)})
	}
	table(w, []string{"ID", "STATE", "FOR", "BY", "AT", "TITLE"}, rows)
}

type decisionOptions struct {
	inProjectOptions
	Note control.DecisionNote
}

// AddFlags adds the flags of decision add.
func (o *decisionOptions) AddFlags(f *pflag.FlagSet) {
	o.inProjectOptions.AddFlags(f)
	f.StringVar(&o.Note.Context, "context", "", "`TEXT`: what the question was")
	f.StringVar(&o.Note.Decision, "decision", "", "`TEXT`: what was decided")
	f.StringVar(&o.Note.Consequences, "consequences", "", "`TEXT`: what follows")
	f.StringVar(&o.Note.DecidedBy, "decided-by", "", "`KEY, …` of who decided (default: the agent)")
}

func newDecisionCommand(a *app) *cobra.Command {
	o := &decisionOptions{}
	add := command("add [--agent KEY] [--project NAME] TITLE --decision TEXT [--context TEXT] [--consequences TEXT]",
		"Write a decision into a file of its own", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runDecisionAdd(ctx, a, o, args[0]) })
	o.AddFlags(add.Flags())
	return noun("decision", "Write down what was decided in a project", add)
}

func runDecisionAdd(ctx context.Context, a *app, o *decisionOptions, title string) error {
	o.Note.Agent, o.Note.Project, o.Note.Title = o.Agent, o.Project, title
	got, err := a.client().AddDecision(ctx, o.Note)
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { _, _ = fmt.Fprintln(w, shown(w, got.Path)) })
}

func newWhatsNewCommand(a *app) *cobra.Command {
	o := &inProjectOptions{}
	c := command("whatsnew [--agent KEY] [--project NAME]", "Tell what happened in a project since the agent asked last", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runWhatsNew(ctx, a, o) })
	c.Long = `Tell what happened in a project since the agent asked last: files, journal and inbox. The agent's
pointer, .pointers/KEY.json in the project, then stands at now.`
	o.AddFlags(c.Flags())
	return c
}

func runWhatsNew(ctx context.Context, a *app, o *inProjectOptions) error {
	got, err := a.client().WhatsNew(ctx, control.NewsQuery{Agent: o.Agent, Project: o.Project})
	if err != nil {
		return err
	}
	if a.showToken() == "" {
		mcp.AddCommits(ctx, mcp.Options{Client: a.client(), Agent: o.Agent, Git: a.gitRunner(nil)}, &got)
	}
	if got.Warning != "" && !a.json {
		_, _ = fmt.Fprintf(a.stderr, "warren: %s\n", shownText(a.stderr, got.Warning))
	}
	return a.answer(got, func(w io.Writer) { showNews(w, &got) })
}

func showNews(w io.Writer, n *control.News) {
	since := "for the first time"
	if n.Since != nil {
		since = "since " + stamp(*n.Since)
	}
	_, _ = fmt.Fprintf(w, "%s, %s\n", shown(w, n.Project.Path), since)
	if n.Project.Head != "" && n.Project.Head != n.OldHead {
		_, _ = fmt.Fprintf(w, "HEAD is %s, was %s\n", n.Project.Head, dash(shown(w, n.OldHead)))
	}
	showChanges(w, &n.Changes, true)
	part := func(title string, there bool, show func()) {
		if there {
			_, _ = fmt.Fprintf(w, "\n%s:\n", title)
			show()
		}
	}
	part("commits", len(n.Commits) > 0, func() { showCommits(w, n.Commits) })
	part("journal", len(n.Journal) > 0, func() { showEntries(w, n.Journal) })
	part("opened", len(n.Opened) > 0, func() { showItems(w, n.Opened) })
	part("closed", len(n.Closed) > 0, func() { showItems(w, n.Closed) })
	part("open, for you or anyone", len(n.Mine) > 0, func() { showItems(w, n.Mine) })
	if n.More {
		_, _ = fmt.Fprintln(w, "\nthere is more; ask again")
	}
}
