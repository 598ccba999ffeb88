package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

func newCompletionCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "Print a shell's completion script",
		Args: usageArgs(cobra.ExactArgs(1)), ValidArgs: []string{"bash", "zsh", "fish"}, DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error { return runCompletion(a, c.Root(), args[0]) },
	}
	c.Long = `Print a shell's completion script. For bash:

    source <(warren completion bash)

It needs the package bash-completion (its functions, loaded in that shell). Keys of
agents are completed by asking the daemon, if it runs.`
	return c
}

func runCompletion(a *app, root *cobra.Command, shell string) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(a.stdout, true)
	case "zsh":
		return root.GenZshCompletion(a.stdout)
	case "fish":
		return root.GenFishCompletion(a.stdout, true)
	}
	return usagef("no completion for %q; there is bash, zsh and fish", shell)
}

type manOptions struct{ Dir string }

// AddFlags adds the flags of man.
func (o *manOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Dir, "dir", "", "write all pages into `DIR`, one a command")
}

func newManCommand(a *app) *cobra.Command {
	o := &manOptions{}
	c := &cobra.Command{
		Use: "man [COMMAND…] [--dir DIR]", Short: "Print a manual page, or write all of them",
		Args: usageArgs(cobra.ArbitraryArgs), DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			return runMan(c.Context(), a, o, c.Root(), args)
		},
	}
	o.AddFlags(c.Flags())
	return c
}

// manEpoch dates the pages, so that they change only when their text does.
func manEpoch() time.Time { return time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC) }

func runMan(_ context.Context, a *app, o *manOptions, root *cobra.Command, args []string) error {
	date := manEpoch()
	head := func() *doc.GenManHeader {
		return &doc.GenManHeader{Section: "1", Source: "warren", Manual: "warren", Date: &date}
	}
	root.DisableAutoGenTag = true
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o755); err != nil {
			return localError(err)
		}
		return writePages(root, o.Dir, head)
	}
	c, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return usagef("no command `%s`; see `warren --help`", strings.Join(args, " "))
	}
	page, err := manPage(c, head())
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(page)
	return err
}

// writePages writes the page of c and of all below it.
func writePages(c *cobra.Command, dir string, head func() *doc.GenManHeader) error {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := writePages(sub, dir, head); err != nil {
			return err
		}
	}
	page, err := manPage(c, head())
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	return localError(os.WriteFile(filepath.Join(dir, name), page, 0o644))
}

// manPage makes one page. It is plain ASCII where man(1) would say of a
// character that the locale C has none.
func manPage(c *cobra.Command, head *doc.GenManHeader) ([]byte, error) {
	var b bytes.Buffer
	if err := doc.GenMan(c, head, &b); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("…"), []byte("...")), nil
}
