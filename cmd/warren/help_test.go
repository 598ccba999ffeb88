package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestHelp: each command's help says how it is spelled, names all of its flags
// and commands, and shows nothing that stands for something else.
func TestHelp(t *testing.T) {
	for _, c := range everyCommand(newRootCommand(newApp())) {
		path := c.CommandPath()
		c.InitDefaultHelpFlag()
		text := c.UsageString()
		if !strings.Contains(text, "Usage:\n  "+path) {
			t.Errorf("%s: help does not say how it is spelled:\n%s", path, text)
		}
		for _, ugly := range []string{"true|false", "(default -1)", "[command]", "[flags]", "%!"} {
			if strings.Contains(text, ugly) {
				t.Errorf("%s: help says %q:\n%s", path, ugly, text)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(text, "--"+f.Name) {
				t.Errorf("%s: help does not have --%s", path, f.Name)
			}
			// pflag takes what is first in backquotes for the name of the value.
			if strings.Count(f.Usage, "`") > 2 {
				t.Errorf("%s --%s: more than one name of its value: %s", path, f.Name, f.Usage)
			}
		})
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && !strings.Contains(text, "\n  "+sub.Name()+" ") {
				t.Errorf("%s: help does not have %s", path, sub.Name())
			}
		}
	}
}
