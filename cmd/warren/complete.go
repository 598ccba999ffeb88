package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeTime is how long a shell may be kept waiting for the daemon.
const completeTime = time.Second

// completeAgents makes the shell's completion offer agents' keys wherever a
// command of c's takes one: for --agent and --parent, and for arguments whose
// spelling is KEY.
func completeAgents(a *app, c *cobra.Command) {
	keys := func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return a.agentKeys(c.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	for _, flag := range []string{"agent", "parent"} {
		if f := c.Flags().Lookup(flag); f != nil && strings.Contains(f.Usage, "`KEY`") {
			_ = c.RegisterFlagCompletionFunc(flag, keys)
		} else if f := c.PersistentFlags().Lookup(flag); f != nil && strings.Contains(f.Usage, "`KEY`") {
			_ = c.RegisterFlagCompletionFunc(flag, keys)
		}
	}
	if words := strings.Fields(c.Use); len(words) > 1 && strings.HasPrefix(words[1], "KEY") && c.Name() != "add" {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, at string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 && !strings.HasSuffix(words[1], "…") {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return keys(c, args, at)
		}
	}
	for _, sub := range c.Commands() {
		completeAgents(a, sub)
	}
}

// agentKeys asks the daemon. Without one there is nothing to offer, and nothing
// is said: the text would land in the command line that is being typed.
func (a *app) agentKeys(ctx context.Context) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	agents, err := a.client().Agents(ctx)
	if err != nil {
		return nil
	}
	out := make([]cobra.Completion, 0, len(agents))
	for _, g := range agents {
		out = append(out, cobra.CompletionWithDesc(g.Key, g.Role))
	}
	return out
}
