package main

import (
	"github.com/spf13/cobra"
)

// The groups of the help text.
const (
	groupRun     = "run"
	groupAgents  = "agents"
	groupShare   = "share"
	groupOperate = "operate"
)

// newRootCommand makes the whole command tree.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "warren",
		Short: "A filesystem of workspaces for AI agents",
		Long: `warren is a filesystem of workspaces for AI agents. One daemon owns one store;
every agent gets a mount that shows its own view of one tree.

Start with ` + "`warren init`, `warren serve` and `warren mount --agent KEY DIR`" + `.`,
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unknown command %q; see `warren --help`", args[0])
		}
		return c.Help()
	}
	root.Args = cobra.ArbitraryArgs
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v; see `%s --help`", err, c.CommandPath())
	})
	a.AddFlags(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupAgents, Title: "Agents:"},
		&cobra.Group{ID: groupShare, Title: "Share:"},
		&cobra.Group{ID: groupOperate, Title: "Operate:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupRun, newInitCommand(a), newServeCommand(a), newStatusCommand(a), newSyncCommand(a),
		newMountCommand(a), newUmountCommand(a), newMountsCommand(a), newRunCommand(a), newDemoCommand(a))
	add(groupAgents, newUserCommand(a), newAgentCommand(a), newPolicyCommand(a))
	add(groupShare, newFSCommand(a), newPathCommand(a), newProjectCommand(a))
	add(groupOperate, newFsckCommand(a), newVersionCommand(a), newCompletionCommand(a), newManCommand(a))
	root.SetHelpCommandGroupID(groupOperate)
	return root
}
