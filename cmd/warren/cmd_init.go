package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

type initOptions struct {
	Store string
	User  string
	Soul  string
	Gaia  string
}

// AddFlags adds the flags of init.
func (o *initOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "`DIR` of the store (WARREN_STORE; default $XDG_STATE_HOME/warren, for root /var/lib/warren)")
	f.StringVar(&o.User, "user", "", "also add a user with this `ID`")
	f.StringVar(&o.Soul, "soul", "", "also add a soul with this `KEY`, the user's if there is one")
	f.StringVar(&o.Gaia, "gaia", "gaia", "`KEY` of the orchestrator to add; empty adds none")
}

func newInitCommand(a *app) *cobra.Command {
	o := &initOptions{}
	c := command("init [--store DIR] [--user ID] [--soul KEY]", "Make a store, a user, an orchestrator and a first soul", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runInitStore(ctx, a, o) })
	c.Long = `Make a store, and in it a user, an orchestrator (gaia) and a first soul. What is there
already stays as it is, so it may be run again to add what is missing. When a daemon
has the store open, the daemon is asked to add them.`
	o.AddFlags(c.Flags())
	return c
}

// initDone is what init answers.
type initDone struct {
	Store string   `json:"store"`
	Added []string `json:"added"`
}

// adder adds users and agents, here or through a daemon.
type adder interface {
	AddUser(ctx context.Context, s control.UserSpec) (control.User, error)
	AddAgent(ctx context.Context, s control.AgentSpec) (control.Agent, error)
}

func runInitStore(ctx context.Context, a *app, o *initOptions) error {
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return err
	}
	add, done, err := initAdder(ctx, a, dir)
	if err != nil {
		return err
	}
	added, err := addFirst(ctx, add, o)
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	return a.answer(initDone{dir, added}, func(w io.Writer) {
		if a.quiet {
			return
		}
		a.say("store: %s", dir)
		for _, name := range added {
			a.say("added: %s", name)
		}
		a.say("next: `warren serve`, then `warren mount --agent %s DIR`", o.Gaia)
	})
}

// initAdder opens the store, or finds the daemon that has it open.
func initAdder(ctx context.Context, a *app, dir string) (adder, func() error, error) {
	c := a.client()
	if s, err := c.Status(ctx); err == nil && sameDir(s.Store, dir) {
		return c, func() error { return nil }, nil
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := openStore(ctx, dir, true, log)
	if err != nil {
		return nil, nil, err
	}
	_, r, err := openSpace(ctx, s, log, func(*view.Space) {})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return offline{r}, s.Close, nil
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || err == nil && err2 == nil && os.SameFile(x, y)
}

// addFirst adds what is asked for and not there.
func addFirst(ctx context.Context, add adder, o *initOptions) ([]string, error) {
	added := []string{}
	note := func(what string, err error) error {
		if err == nil {
			added = append(added, what)
		}
		if errors.Is(err, backend.Exist) || control.KindOf(err) == control.KindConflict {
			return nil
		}
		return err
	}
	if o.User != "" {
		_, err := add.AddUser(ctx, control.UserSpec{ID: o.User})
		if err := note("user "+o.User, err); err != nil {
			return added, err
		}
	}
	if o.Gaia != "" {
		_, err := add.AddAgent(ctx, control.AgentSpec{Key: o.Gaia, Role: string(policy.Orchestrator)})
		if err := note("orchestrator "+o.Gaia, err); err != nil {
			return added, err
		}
	}
	if o.Soul != "" {
		_, err := add.AddAgent(ctx, control.AgentSpec{Key: o.Soul, Role: string(policy.Soul), User: o.User})
		if err := note("soul "+o.Soul, err); err != nil {
			return added, err
		}
	}
	return added, nil
}

// offline is an adder on a store that no daemon holds.
type offline struct{ r *workspace.Registry }

func (o offline) AddUser(ctx context.Context, s control.UserSpec) (control.User, error) {
	u, err := o.r.AddUser(ctx, s.ID, s.Name, s.Email)
	return control.User{ID: u.ID}, kinded(err)
}

func (o offline) AddAgent(ctx context.Context, s control.AgentSpec) (control.Agent, error) {
	g, err := o.r.AddAgent(ctx, workspace.AgentSpec{Key: s.Key, Role: policy.Role(s.Role), User: s.User})
	return control.Agent{Key: g.Key}, kinded(err)
}

// kinded gives an error of the registry the kind that the API would.
func kinded(err error) error {
	if err == nil {
		return nil
	}
	kinds := map[backend.Kind]control.Kind{backend.NotFound: control.KindNotFound, backend.Exist: control.KindConflict,
		backend.Invalid: control.KindInvalid, backend.NoSpace: control.KindQuota}
	kind, ok := kinds[backend.KindOf(err)]
	if !ok {
		return err
	}
	text := err.Error()
	var e *backend.Error
	if errors.As(err, &e) && e.Op == "" && e.Err != nil {
		text = e.Err.Error()
	}
	return control.Errorf(kind, "%s", text)
}
