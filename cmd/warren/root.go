package main

import (
	"fmt"
	"strings"

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
	showVersion := false
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		if showVersion {
			return runVersion(a)
		}
		return c.Help()
	}
	root.Args = cobra.ArbitraryArgs
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.readToken() }
	root.SuggestionsMinimumDistance = 2
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
	add(groupAgents, newUserCommand(a), newAgentCommand(a), newTokenCommand(a), newPolicyCommand(a), newGrantCommand(a), newRevokeCommand(a), newGrantsCommand(a), newQuotaCommand(a), newRetentionCommand(a))
	add(groupShare, newFSCommand(a), newMCPCommand(a), newGitCommand(a), newPathCommand(a), newProjectCommand(a), newJournalCommand(a), newInboxCommand(a), newDecisionCommand(a), newWhatsNewCommand(a), newDelegateCommand(a), newLogCommand(a),
		newItemCommand(a), newPublishCommand(a), newFieldCommand(a), newContextCommand(a), newSessionCommand(a),
		newDeviceCommand(a), newWorkspaceCommand(a), newConfigCommand(a))
	add(groupOperate, newImportCommand(a), newExportCommand(a), newBackupCommand(a), newRestoreStoreCommand(a), newFsckCommand(a), newVersionCommand(a), newCompletionCommand(a), newManCommand(a))
	root.SetUsageFunc(usage)
	root.SetHelpCommandGroupID(groupOperate)
	root.SetHelpCommand(newHelpCommand())
	completeAgents(a, root)
	return root
}

// newHelpCommand makes `warren help`, which for a command that is not there is
// an error of usage.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND…]", Short: "Show help for a command", DisableFlagsInUseLine: true, GroupID: groupOperate,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			at, _, err := c.Root().Find(args)
			var out []cobra.Completion
			for _, sub := range at.Commands() {
				if err == nil && sub.IsAvailableCommand() {
					out = append(out, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at := c.Root()
			for _, name := range args {
				next, _, err := at.Find([]string{name})
				if err != nil || next == at {
					return unknownCommand(at, name)
				}
				at = next
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// unknownCommand is the error of usage for a name that is no command of c, with
// those that it may have been meant for.
func unknownCommand(c *cobra.Command, name string) error {
	meant := ""
	if like := c.SuggestionsFor(name); len(like) > 0 {
		meant = fmt.Sprintf("; did you mean %s?", strings.Join(like, " or "))
	}
	return usagef("unknown command %q for %q%s (`%s --help` lists them)", name, c.CommandPath(), meant, c.CommandPath())
}
