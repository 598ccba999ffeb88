package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type statusOptions struct {
	Wait     time.Duration
	Requests bool
}

// AddFlags adds the flags of status.
func (o *statusOptions) AddFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.Wait, "wait", 0, "wait so long for the daemon to answer, such as `10s`")
	f.BoolVar(&o.Requests, "requests", false, "also how many requests of each kind there were, and how long they took")
}

func newStatusCommand(a *app) *cobra.Command {
	o := &statusOptions{}
	c := command("status", "Show how the daemon fares", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runStatus(ctx, a, o) })
	o.AddFlags(c.Flags())
	return c
}

func runStatus(ctx context.Context, a *app, o *statusOptions) error {
	c := a.client()
	if o.Wait > 0 {
		wait, cancel := context.WithTimeout(ctx, o.Wait)
		defer cancel()
		if err := c.Wait(wait); err != nil {
			return err
		}
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	return a.answer(s, func(w io.Writer) { writeStatus(w, &s, o.Requests) })
}

// writeStatus shows s to people.
func writeStatus(w io.Writer, s *control.Status, requests bool) {
	var asked uint64
	for _, n := range s.Requests {
		asked += n
	}
	pairs := []string{
		"daemon", fmt.Sprintf("%s, pid %d, up %s", s.Version, s.PID, time.Since(s.Started).Round(time.Second)),
		"store", fmt.Sprintf("%s (%s content, format %d)", s.Store, s.Content, s.Format),
		"disk", fmt.Sprintf("%s free of %s", size(s.Free), size(s.Total)),
		"socket", s.Socket,
		"agents", fmt.Sprintf("%d, of %s", s.Agents, many(s.Users, "user", "users")),
		"mounts", fmt.Sprintf("%d; kernels hold %d nodes and %d open files", s.Mounts, s.Nodes, s.Handles),
		"volumes", fmt.Sprint(s.Volumes),
		"memory", fmt.Sprintf("%s heap, limit %s", size(s.HeapBytes), size(s.LimitBytes)),
		"requests", fmt.Sprint(asked)}
	var caches []string
	for _, name := range slices.Sorted(maps.Keys(s.Caches)) {
		c := s.Caches[name]
		caches = append(caches, fmt.Sprintf("%s %s of %d", name, share(c.Hits, c.Hits+c.Misses), c.Hits+c.Misses))
	}
	pairs = append(pairs,
		"cached", strings.Join(caches, ", "),
		"denials", fmt.Sprintf("%d, and %d of what is hidden", s.Denials.Refused, s.Denials.Hidden),
		"notices", many(s.NoticeWait.Count, "change was", "changes were")+" told to other mounts"+most(s.NoticeWait),
		"log", fmt.Sprintf("%s in %s; %s for the database, the oldest for %s", size(uint64(s.Log.Bytes)),
			many(s.Log.Files, "file", "files"), many(s.Log.Pending, "update waits", "updates wait"), seconds(s.Log.OldestSeconds)),
		"commits", fmt.Sprintf("%d, of %s and %s%s", s.Commits.Count, many(s.Commits.Updates, "update", "updates"), size(s.Commits.Bytes), most(s.Commits.Time)))
	if g := s.Segments; g != nil {
		pairs = append(pairs, "segments", fmt.Sprintf("%s; %s live, %s dead; %s on the disk",
			many(g.Files, "file", "files"), size(uint64(g.Live)), size(uint64(g.Dead)), size(s.Disk["segments"])))
	}
	facts(w, append(pairs, "kernel", s.Kernel)...)
	for _, n := range s.Notes {
		_, _ = fmt.Fprintln(w, "note:", n)
	}
	if requests {
		_, _ = fmt.Fprintln(w)
		writeRequests(w, s)
	}
}

// writeRequests shows how long each kind of request took.
func writeRequests(w io.Writer, s *control.Status) {
	var rows [][]string
	for _, op := range slices.Sorted(maps.Keys(s.Requests)) {
		l, row := s.Latency[op], []string{op, fmt.Sprint(s.Requests[op]), "", "", ""}
		if l.Count > 0 {
			row = append(row[:2], seconds(l.Seconds/float64(l.Count)), seconds(l.P50), seconds(l.P99))
		}
		rows = append(rows, row)
	}
	table(w, []string{"REQUEST", "COUNT", "MEAN", "HALF WITHIN", "99% WITHIN"}, rows)
}

// most tells how long nearly all of what l counts took; nothing if nothing did.
func most(l control.Latency) string {
	if l.Count == 0 {
		return ""
	}
	return ", 99% within " + seconds(l.P99)
}

// seconds shows a time for people.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// share shows part of all in percent.
func share(part, all uint64) string {
	if all == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}

func newSyncCommand(a *app) *cobra.Command {
	return command("sync", "Wait until everything written so far is on disk", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runSync(ctx, a) })
}

func runSync(ctx context.Context, a *app) error {
	if err := a.client().Sync(ctx); err != nil {
		return err
	}
	return a.done(struct {
		Synced bool `json:"synced"`
	}{true}, "all that was written is on disk")
}
