package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is how many columns the text beside flags may fill. It is the same
// everywhere, so that what is printed does not depend on a terminal.
const helpWidth = 100

// usage writes what `--help` tells below the description: how c is spelled, its
// commands by groups, its flags.
func usage(c *cobra.Command) error {
	var b strings.Builder
	line := c.UseLine()
	if c.HasAvailableSubCommands() {
		line = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", line)
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasAvailableSubCommands() {
		if len(c.Groups()) == 0 {
			usageGroup(&b, c, "Commands:", "")
		}
		for _, g := range c.Groups() {
			usageGroup(&b, c, g.Title, g.ID)
		}
	}
	usageFlags(&b, "Flags:", c.LocalFlags())
	usageFlags(&b, "Global Flags:", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n`%s COMMAND --help` tells more about a command.\n", c.CommandPath())
	}
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

// usageGroup lists the commands of a group; "": of those without one.
func usageGroup(b *strings.Builder, c *cobra.Command, title, id string) {
	fmt.Fprintf(b, "\n%s\n", title)
	for _, sub := range c.Commands() {
		if sub.GroupID == id && (sub.IsAvailableCommand() || sub.Name() == "help") {
			fmt.Fprintf(b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

func usageFlags(b *strings.Builder, title string, fs *pflag.FlagSet) {
	if fs.HasAvailableFlags() {
		fmt.Fprintf(b, "\n%s\n%s\n", title, strings.TrimRight(forHelp(fs).FlagUsagesWrapped(helpWidth), " \n"))
	}
}

// forHelp gives the flags of fs as help tells of them. Switches are without the
// "[=true|false]" that pflag puts behind each, and what says in words which
// default it has, or has none, without the number that stands for that.
func forHelp(fs *pflag.FlagSet) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	out.SortFlags = fs.SortFlags
	fs.VisitAll(func(f *pflag.Flag) {
		s := *f
		if f.Value.Type() == "bool" {
			s.Value, s.NoOptDefVal = untyped{f.Value}, ""
		}
		if strings.Contains(f.Usage, "default") || f.DefValue == "-1" {
			s.Value, s.DefValue = untyped{f.Value}, ""
		}
		out.AddFlag(&s)
	})
	return out
}

// untyped is a flag's value of which pflag tells no type.
type untyped struct{ pflag.Value }

// Type implements [pflag.Value].
func (untyped) Type() string { return "" }
