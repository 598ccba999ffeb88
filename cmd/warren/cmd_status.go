package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type statusOptions struct{ Wait time.Duration }

// AddFlags adds the flags of status.
func (o *statusOptions) AddFlags(f *pflag.FlagSet) {
	f.DurationVar(&o.Wait, "wait", 0, "wait so long for the daemon to answer, such as `10s`")
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
	return a.answer(s, func(w io.Writer) {
		var requests uint64
		for _, n := range s.Requests {
			requests += n
		}
		facts(w,
			"daemon", fmt.Sprintf("%s, pid %d, up %s", s.Version, s.PID, time.Since(s.Started).Round(time.Second)),
			"store", fmt.Sprintf("%s (%s content, format %d)", s.Store, s.Content, s.Format),
			"disk", fmt.Sprintf("%s free of %s", size(s.Free), size(s.Total)),
			"socket", s.Socket,
			"agents", fmt.Sprintf("%d, of %d users", s.Agents, s.Users),
			"mounts", fmt.Sprint(s.Mounts),
			"volumes", fmt.Sprint(s.Volumes),
			"memory", fmt.Sprintf("%s heap, limit %s", size(s.HeapBytes), size(s.LimitBytes)),
			"requests", fmt.Sprint(requests),
			"kernel", s.Kernel)
		for _, n := range s.Notes {
			_, _ = fmt.Fprintln(w, "note:", n)
		}
	})
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
