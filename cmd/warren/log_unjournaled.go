package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/mcp"
)

// A commit is in the journal if its author wrote an entry in the day before it or
// in the hour after it.
const (
	entryBefore = 24 * time.Hour
	entryAfter  = time.Hour
)

// maxUnjournaled bounds the commits that are looked at.
const maxUnjournaled = 1000

// runUnjournaled lists the commits of an agent's project that the journal has no
// entry for.
func runUnjournaled(ctx context.Context, a *app, o *logOptions) error {
	q, err := o.query(time.Now())
	if err != nil {
		return err
	}
	if err := a.needAgent(o.Agent); err != nil {
		return err
	}
	c := a.client()
	opts := mcp.Options{Client: c, Agent: o.Agent}
	if a.showToken() == "" {
		opts.Git = a.gitRunner(nil)
	}
	commits, err := mcp.Commits(ctx, opts, o.Project, maxUnjournaled)
	if err != nil {
		return err
	}
	journal, err := c.Journal(ctx, o.Agent, o.Project, 10_000)
	if err != nil {
		return err
	}
	left := []control.Commit{}
	for _, x := range commits {
		if !x.At.Before(q.Since) && !journaled(x, journal.Entries) {
			left = append(left, x)
		}
	}
	return a.answer(left, func(w io.Writer) { showCommits(w, left) })
}

// committer is the agent of a message that git_commit wrote.
var committer = regexp.MustCompile(`^\[([a-z0-9][a-z0-9_-]{0,62})\] `)

func journaled(x control.Commit, entries []control.JournalEntry) bool {
	who, _, _ := strings.Cut(x.Email, "@")
	if m := committer.FindStringSubmatch(x.Message); m != nil {
		who = m[1]
	}
	for _, e := range entries {
		// An entry's time has no seconds.
		if e.Agent == who && e.At.After(x.At.Add(-entryBefore)) && e.At.Before(x.At.Add(entryAfter)) {
			return true
		}
	}
	return false
}

func showCommits(w io.Writer, commits []control.Commit) {
	for _, c := range commits {
		first, _, _ := strings.Cut(c.Message, "\n")
		_, _ = fmt.Fprintf(w, "%.12s %s %s: %s\n", c.SHA, stamp(c.At), shown(w, c.Author), shown(w, first))
	}
}
