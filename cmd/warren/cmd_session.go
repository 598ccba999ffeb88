package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type sessionOptions struct {
	asOptions
	Workspace       string
	Device          string
	Provider, Model string
	Role            string
}

// AddFlags adds the flags that all of session share.
func (o *sessionOptions) AddFlags(f *pflag.FlagSet) {
	o.asOptions.AddFlags(f)
	f.StringVar(&o.Workspace, "workspace", "", "`UUID` of a device workspace whose session it is (default: the agent's own)")
}

func newSessionCommand(a *app) *cobra.Command {
	o := &sessionOptions{}
	begin := command("new [--agent KEY] [--workspace UUID|--device ID]", "Open a session, and begin it where there is none", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runSessionNew(ctx, a, o) })
	begin.Flags().StringVar(&o.Device, "device", "", "`ID` of a device whose workspace's session it is")
	begin.Flags().StringVar(&o.Provider, "provider", "", "`NAME` of who runs the model (default: as configured)")
	begin.Flags().StringVar(&o.Model, "model", "", "`NAME` of the model (default: as configured)")
	show := command("show [--agent KEY] [--workspace UUID]", "Show whose session it is and how long", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runSessionShow(ctx, a, o) })
	read := command("read [--agent KEY] [--workspace UUID]", "Print the messages", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runSessionRead(ctx, a, o) })
	add := command("append [--agent KEY] [--workspace UUID] --role user|assistant|system [TEXT]", "Add a message, what comes in if TEXT is left out",
		cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error { return runSessionAppend(ctx, a, o, args) })
	add.Flags().StringVar(&o.Role, "role", "user", "whose it is: `user|assistant|system`")
	clear := command("clear [--agent KEY] [--workspace UUID]", "Remove all messages", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runSessionClear(ctx, a, o) })
	c := noun("session", "Keep the conversation in an agent's or a device workspace's session.md", begin, show, read, add, clear)
	o.AddFlags(c.PersistentFlags())
	return c
}

// warn tells of a session that is not understood.
func (a *app) warn(s control.Session) {
	if s.Warning != "" && !a.json {
		_, _ = fmt.Fprintf(a.stderr, "warren: %s: %s\n", s.Path, shownText(a.stderr, s.Warning))
	}
}

func showSession(w io.Writer, s control.Session) {
	created := ""
	if s.CreatedAt != nil {
		created = stamp(*s.CreatedAt)
	}
	facts(w, "name", shown(w, s.Name), "uuid", s.UUID, "provider", shown(w, s.Provider), "model", shown(w, s.Model),
		"messages", fmt.Sprint(s.Count), "created", created, "path", s.Path)
}

func runSessionNew(ctx context.Context, a *app, o *sessionOptions) error {
	s, err := a.client().NewSession(ctx, control.SessionStart{Agent: o.Agent, Workspace: o.Workspace, Device: o.Device,
		Provider: o.Provider, Model: o.Model})
	if err != nil {
		return err
	}
	a.warn(s)
	return a.answer(s, func(w io.Writer) { showSession(w, s) })
}

func runSessionShow(ctx context.Context, a *app, o *sessionOptions) error {
	s, err := a.client().ReadSession(ctx, o.Agent, o.Workspace)
	if err != nil {
		return err
	}
	a.warn(s)
	s.Messages = nil
	return a.answer(s, func(w io.Writer) { showSession(w, s) })
}

func runSessionRead(ctx context.Context, a *app, o *sessionOptions) error {
	s, err := a.client().ReadSession(ctx, o.Agent, o.Workspace)
	if err != nil {
		return err
	}
	a.warn(s)
	return a.answer(s, func(w io.Writer) {
		for i, m := range s.Messages {
			if i > 0 {
				_, _ = fmt.Fprintln(w)
			}
			_, _ = fmt.Fprintf(w, "%s:\n%s\n", m.Role, shownText(w, m.Text))
		}
	})
}

func runSessionAppend(ctx context.Context, a *app, o *sessionOptions, args []string) error {
	text := ""
	if len(args) == 1 {
		text = args[0]
	} else {
		b, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20+1))
		if err != nil {
			return err
		}
		text = string(b)
	}
	got, err := a.client().AppendSession(ctx, control.SessionMessage{Agent: o.Agent, Workspace: o.Workspace, Role: o.Role, Text: text})
	if err != nil {
		return err
	}
	return a.done(got, "added to %s", got.Path)
}

func runSessionClear(ctx context.Context, a *app, o *sessionOptions) error {
	s, err := a.client().ClearSession(ctx, o.Agent, o.Workspace)
	if err != nil {
		return err
	}
	return a.done(s, "%s has no messages now", s.Path)
}
