package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type configOptions struct {
	asOptions
	Workspace string
	Origin    bool
}

// AddFlags adds the flags of config show.
func (o *configOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent whose configuration it is")
	f.StringVar(&o.Workspace, "workspace", "", "`UUID` of a device workspace, instead of the agent's home")
	f.BoolVar(&o.Origin, "origin", false, "with where each value comes from")
}

func newConfigCommand(a *app) *cobra.Command {
	o := &configOptions{}
	show := command("show [--agent KEY] [--workspace UUID] [--origin]", "Print the configuration that holds", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runConfigShow(ctx, a, o) })
	show.Long = `Print the configuration that holds: the store's config.toml, over it that of the workspace (or of the
agent's home), over it variables of this environment: ANTHROPIC_API_KEY, GOOGLE_API_KEY and
OPENAI_API_KEY. Secrets are masked.`
	o.AddFlags(show.Flags())
	return noun("config", "Show layered configuration", show)
}

func runConfigShow(ctx context.Context, a *app, o *configOptions) error {
	c, err := a.client().Config(ctx, o.Agent, o.Workspace, a.variables())
	if err != nil {
		return err
	}
	for _, text := range c.Warnings {
		if !a.json {
			_, _ = fmt.Fprintf(a.stderr, "warren: %s\n", shownText(a.stderr, text))
		}
	}
	if len(c.Settings) == 0 && !a.json && !a.quiet {
		_, _ = fmt.Fprintln(a.stderr, "nothing is configured: no config.toml has a setting, nor has this environment")
		return nil
	}
	return a.answer(c, func(w io.Writer) {
		if !o.Origin {
			for _, s := range c.Settings {
				_, _ = fmt.Fprintf(w, "%s = %s\n", shown(w, s.Key), s.Value)
			}
			return
		}
		var rows [][]string
		for _, s := range c.Settings {
			rows = append(rows, []string{shown(w, s.Key), string(s.Value), s.Origin, s.Source})
		}
		table(w, []string{"KEY", "VALUE", "ORIGIN", "SOURCE"}, rows)
	})
}
