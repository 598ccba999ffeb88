package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type initOptions struct {
	Store   string
	Content string
	User    string
	Soul    string
	Gaia    string
}

// AddFlags adds the flags of init.
func (o *initOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "`DIR` of the store (WARREN_STORE; default $XDG_STATE_HOME/warren, for root /var/lib/warren)")
	f.StringVar(&o.Content, "content", "", "driver of bulk content of a new store, `segment|badger`: append-only files (the default), or values in Badger")
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

// checkContent refuses a driver of content that there is not.
func checkContent(name string) error {
	if name != "" && !slices.Contains(contents, name) {
		return usagef("--content %q is not segment or badger", name)
	}
	return nil
}

// initDone is what init answers.
type initDone struct {
	Store string   `json:"store"`
	Added []string `json:"added"`
	Next  []string `json:"next"`              // three commands
	Notes []string `json:"missing,omitempty"` // what this host lacks
}

// adder adds users and agents, here or through a daemon.
type adder interface {
	AddUser(ctx context.Context, s control.UserSpec) (control.User, error)
	AddAgent(ctx context.Context, s control.AgentSpec) (control.Agent, error)
}

func runInitStore(ctx context.Context, a *app, o *initOptions) error {
	if err := checkContent(o.Content); err != nil {
		return err
	}
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return err
	}
	add, done, err := initAdder(ctx, a, dir, o.Content)
	if err != nil {
		return err
	}
	added, err := addFirst(ctx, add, o)
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	_, served := add.(*control.Client)
	d := initDone{dir, added, o.next(a, dir, served), missing()}
	return a.answer(d, func(io.Writer) {
		a.say("store: %s", d.Store)
		for _, name := range d.Added {
			a.say("added: %s", name)
		}
		for _, note := range d.Notes {
			a.say("missing here: %s", note)
		}
		a.say("next:")
		for _, line := range d.Next {
			a.say("  %s", line)
		}
	})
}

// next are the three commands that lead from a store to work in it.
func (o *initOptions) next(a *app, dir string, served bool) []string {
	serve := "warren serve &"
	if usual, err := a.storeDir(""); err != nil || usual != dir {
		serve = "warren serve --store " + dir + " &"
	} else if unit := hasUnit(); unit != "" && dir == "/var/lib/warren" {
		serve = unit
	}
	if served {
		serve = "warren status"
	}
	at := "~/warren"
	if os.Geteuid() == 0 {
		at = "/warren"
	}
	gaia := o.Gaia
	if gaia == "" {
		gaia = "KEY"
	}
	work := "warren agent add KEY --role soul"
	if o.Soul != "" {
		work = "warren run --agent " + o.Soul + " -- sh"
	}
	return []string{serve, "mkdir -p " + at + " && warren mount --agent " + gaia + " " + at, work}
}

// hasUnit is how root starts the daemon where systemd has warren.service.
func hasUnit() string {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() != 0 {
		return ""
	}
	for _, dir := range []string{"/etc", "/usr/local/lib", "/usr/lib", "/lib"} {
		if _, err := os.Stat(dir + "/systemd/system/warren.service"); err == nil {
			return "systemctl enable --now warren"
		}
	}
	return ""
}

// initAdder opens the store, or finds the daemon that has it open.
func initAdder(ctx context.Context, a *app, dir, content string) (adder, func() error, error) {
	c := a.client()
	if s, err := c.Status(ctx); err == nil && sameDir(s.Store, dir) {
		if content != "" && content != s.Content {
			return nil, nil, control.Errorf(control.KindConflict, "the store %s was made with %s content, and that stays", dir, s.Content)
		}
		return c, func() error { return nil }, nil
	}
	return openOffline(ctx, dir, content, a.stderr)
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
		if control.KindOf(err) == control.KindConflict {
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
		_, err := add.AddAgent(ctx, control.AgentSpec{Key: o.Gaia, Role: "orchestrator"})
		if err := note("orchestrator "+o.Gaia, err); err != nil {
			return added, err
		}
	}
	if o.Soul != "" {
		_, err := add.AddAgent(ctx, control.AgentSpec{Key: o.Soul, Role: "soul", User: o.User})
		if err := note("soul "+o.Soul, err); err != nil {
			return added, err
		}
	}
	return added, nil
}
