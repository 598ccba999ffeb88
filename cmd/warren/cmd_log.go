package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

const (
	// logWait is how long one request of a follower waits.
	logWait = 30 * time.Second
	// logRetry is for how long a follower waits for a daemon that went away, unless
	// told; it tries each logPause.
	logRetry = time.Minute
	logPause = 250 * time.Millisecond
)

type logOptions struct {
	Agent, Path, Kind, Since, After, Project string
	Denied, Follow, NoJournal                bool
	Retry                                    time.Duration
}

// AddFlags adds the flags of log.
func (o *logOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "only what the agent `KEY` did")
	f.StringVar(&o.Path, "path", "", "only at the tree `PATH` and below it")
	f.StringVar(&o.Kind, "kind", "", "only one `KIND`: create, mkdir, symlink, mknod, link, write, attr, xattr, rename, exchange, unlink, rmdir, …")
	f.StringVar(&o.Since, "since", "24h", "from when on: a `TIME` ago (2h), or a date and time (2026-01-02T15:04:05Z); all: from the beginning")
	f.StringVar(&o.After, "after", "", "go on after a `CURSOR` that --json told, in place of --since")
	f.BoolVar(&o.Denied, "denied", false, "only what was refused")
	f.BoolVar(&o.NoJournal, "no-journal", false, "instead, the commits of the agent's project whose author wrote no journal entry in the day before or the hour after")
	f.StringVar(&o.Project, "project", "", "for --no-journal: `NAME` of a project (default: the active one)")
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on with what comes, until interrupted; also when the daemon is started anew")
	f.DurationVar(&o.Retry, "retry", logRetry, "with --follow: for what `TIME` to wait for a daemon that went away; 0: end with it")
}

func newLogCommand(a *app) *cobra.Command {
	o := &logOptions{}
	c := command("log [--agent KEY] [--path PATH] [--since TIME] [--denied] [--kind KIND] [--follow]",
		"Show who changed what, and what was refused", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runLog(ctx, a, o) })
	o.AddFlags(c.Flags())
	v := command("verify", "Check that nothing was taken out of the log", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runLogVerify(ctx, a) })
	v.Long = `Follow the hash chain through the whole log, and fail where an entry does not follow from
those before it: because one was removed, changed or put between. Entries that went by
age or number leave the chain whole, and are counted. Only the administrator and an
orchestrator of all agents may ask.

It finds damage and removal, not the work of somebody who can write the store's files
and makes a whole new chain.`
	c.AddCommand(v)
	return c
}

func runLogVerify(ctx context.Context, a *app) error {
	v, err := a.client().VerifyLog(ctx)
	if err != nil {
		return err
	}
	err = a.answer(v, func(w io.Writer) {
		result := "ok"
		if !v.OK {
			result = fmt.Sprintf("broken at entry %d", v.Broken)
		}
		facts(w, "result", result, "entries", strconv.FormatUint(v.Entries, 10), "unchained", strconv.FormatUint(v.Unchained, 10),
			"aged out", fmt.Sprintf("%d in %d gaps", v.Aged, v.Gaps), "head", strconv.FormatUint(v.Head, 10), "chain", v.Chain)
	})
	if err == nil && !v.OK {
		err = &statusError{code: exitFailed}
	}
	return err
}

func (o *logOptions) query(now time.Time) (control.LogQuery, error) {
	q := control.LogQuery{After: o.After, Agent: o.Agent, Path: o.Path, Op: o.Kind, Denied: o.Denied}
	if o.After != "" || o.Since == "all" {
		return q, nil
	}
	if ago, err := time.ParseDuration(o.Since); err == nil {
		q.Since = now.Add(-ago)
		return q, nil
	}
	t, err := time.Parse(time.RFC3339, o.Since)
	if err != nil {
		return q, usagef("--since %s: give a time such as 2h, or a date and time such as 2026-01-02T15:04:05Z", o.Since)
	}
	q.Since = t
	return q, nil
}

func runLog(ctx context.Context, a *app, o *logOptions) error {
	if o.NoJournal {
		return runUnjournaled(ctx, a, o)
	}
	if o.Project != "" {
		return usagef("--project goes with --no-journal; --path names a tree")
	}
	q, err := o.query(time.Now())
	if err != nil {
		return err
	}
	lines := json.NewEncoder(a.stdout)
	lines.SetEscapeHTML(false)
	gone := outage{a: a, most: o.Retry}
	for {
		l, err := a.client().Log(ctx, q)
		if o.Follow && errors.Is(ctx.Err(), context.Canceled) {
			return nil
		}
		if o.Follow && gone.goesOn(ctx, err) {
			continue // from where it was
		}
		if err != nil {
			return err
		}
		for i := range l.Entries {
			if a.json {
				if err := lines.Encode(&l.Entries[i]); err != nil {
					return err
				}
			} else {
				fmt.Fprintln(a.stdout, logLine(&l.Entries[i]))
			}
		}
		q.After = l.Next
		if !l.More {
			if !o.Follow {
				return nil
			}
			q.Wait = logWait
		}
	}
}

// outage is a time without a daemon, of one who follows the feed.
type outage struct {
	a     *app
	most  time.Duration // it may last
	since time.Time     // zero: the daemon answers
	begun bool          // it has answered before
}

// goesOn waits a little where a request failed since no daemon answers, and tells
// whether to make it again. It says so once, and when there is a daemon again.
func (o *outage) goesOn(ctx context.Context, err error) bool {
	say := func(text string) {
		if !o.a.quiet && !o.a.json {
			_, _ = fmt.Fprintf(o.a.stderr, "warren: %s\n", text)
		}
	}
	switch {
	case err == nil:
		if !o.since.IsZero() {
			say("the daemon answers again")
		}
		o.since, o.begun = time.Time{}, true
		return false
	case !o.begun || control.KindOf(err) != control.KindUnavailable:
		return false
	case o.since.IsZero():
		if o.most <= 0 {
			return false
		}
		o.since = time.Now()
		say(fmt.Sprintf("%v; waiting for %v", err, o.most))
	case time.Since(o.since) > o.most:
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(logPause):
	}
	return true
}

// logLine is one entry in one line, whatever its paths are made of.
func logLine(e *control.LogEntry) string {
	agent := e.Agent
	if agent == "" {
		agent = "administrator"
	}
	what := e.Op
	if e.Denied {
		what = "denied " + e.Op
	}
	line := fmt.Sprintf("%s  %-16s %-10s %s", stamp(e.Time), agent, what, escape(e.Path, ""))
	if e.To != "" {
		line += " -> " + escape(e.To, "")
	}
	if e.Count > 1 {
		line += fmt.Sprintf(" (%d times)", e.Count)
	}
	if e.Rule != "" {
		line += " by " + e.Rule
	}
	return line
}
