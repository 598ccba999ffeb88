package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

// inProjectOptions say for which agent, and in which project, it is done.
type inProjectOptions struct {
	asOptions
	Project string
}

// AddFlags adds --agent and --project.
func (o *inProjectOptions) AddFlags(f *pflag.FlagSet) {
	o.asOptions.AddFlags(f)
	f.StringVar(&o.Project, "project", "", "`NAME` of a directory of the agent's workspace or of a shared project, or a tree path (default: the active one)")
}

type journalOptions struct {
	inProjectOptions
	Details string
	Todos   []string
	N       int
	Before  string
}

func newJournalCommand(a *app) *cobra.Command {
	o := &journalOptions{}
	add := command("append [--agent KEY] [--project NAME] [SUMMARY]", "Add an entry, of what comes in if SUMMARY is left out", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error { return runJournalAppend(ctx, a, o, args) })
	add.Flags().StringVar(&o.Details, "details", "", "`TEXT` below the summary")
	add.Flags().StringArrayVar(&o.Todos, "todo", nil, "`[@KEY:]TEXT` of what somebody, or anyone, is to do; may be repeated")
	read := command("read [--agent KEY] [--project NAME] [-n N]", "Print the last entries", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runJournalRead(ctx, a, o) })
	read.Flags().IntVarP(&o.N, "entries", "n", 20, "the last `N` entries")
	archive := command("archive [--agent KEY] [--project NAME] [--before YYYY-MM]", "Move the entries of past months into journal-archive/YYYY-MM.md", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runJournalArchive(ctx, a, o) })
	archive.Flags().StringVar(&o.Before, "before", "", "the first `MONTH` that stays (default: this one)")
	c := noun("journal", "Tell what was done in a project, and read it", add, read, archive)
	c.Long = `Tell what was done in a project, and read it: the project's journal.md. An entry is added
as one step, beside whoever else writes; the file may be edited by hand as well.`
	o.AddFlags(c.PersistentFlags())
	return c
}

func runJournalAppend(ctx context.Context, a *app, o *journalOptions, args []string) error {
	text, err := a.textOrInput(args, 0)
	if err != nil {
		return err
	}
	n := control.JournalNote{Agent: o.Agent, Project: o.Project, Summary: text, Details: o.Details}
	for _, t := range o.Todos {
		todo := control.Todo{Text: t}
		if who, rest, ok := strings.Cut(t, ":"); ok && strings.HasPrefix(who, "@") {
			todo = control.Todo{For: who[1:], Text: strings.TrimSpace(rest)}
		}
		n.Todos = append(n.Todos, todo)
	}
	got, err := a.client().AppendJournal(ctx, n)
	if err != nil {
		return err
	}
	return a.done(got, "added to %s: %s", shown(a.stdout, got.Path), got.Entry)
}

// textOrInput gives an argument, or what comes in where it is left out.
func (a *app) textOrInput(args []string, i int) (string, error) {
	if len(args) > i {
		return args[i], nil
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20+1))
	return strings.TrimRight(string(b), "\n"), err
}

func runJournalRead(ctx context.Context, a *app, o *journalOptions) error {
	if o.N < 1 {
		return usagef("-n %d: expected 1 or more", o.N)
	}
	got, err := a.client().Journal(ctx, o.Agent, o.Project, o.N)
	if err != nil {
		return err
	}
	return a.answer(got, func(w io.Writer) { showEntries(w, got.Entries) })
}

func showEntries(w io.Writer, entries []control.JournalEntry) {
	for i, e := range entries {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		who := e.Agent
		if e.Name != "" {
			who += " (" + e.Name + ")"
		}
		_, _ = fmt.Fprintf(w, "%s  %s\n", e.At.Format("2006-01-02 15:04"), shown(w, who))
		for line := range strings.SplitSeq(e.Text, "\n") {
			_, _ = fmt.Fprintf(w, "  %s\n", shownText(w, line))
		}
		for _, t := range e.Todos {
			_, _ = fmt.Fprintf(w, "  to do @%s: %s\n", shown(w, t.For), shown(w, t.Text))
		}
	}
}

func runJournalArchive(ctx context.Context, a *app, o *journalOptions) error {
	got, err := a.client().ArchiveJournal(ctx, control.JournalArchiving{Agent: o.Agent, Project: o.Project, Before: o.Before})
	if err != nil {
		return err
	}
	return a.done(got, "%d entries moved%s", got.Entries, shown(a.stdout, strings.Join(append([]string{""}, got.Files...), " ")))
}
