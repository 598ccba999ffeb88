package main

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type denyOptions struct {
	Agent  string
	Under  string
	Remove bool
}

// AddFlags adds the flags of policy deny-name.
func (o *denyOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "only for the agent `KEY`")
	f.StringVar(&o.Under, "under", "", "only below the tree `PATH`")
	f.BoolVar(&o.Remove, "remove", false, "take it off the list")
}

// newPolicySettingsCommands are the commands of policy that set what needs no Cedar.
func newPolicySettingsCommands(a *app) []*cobra.Command {
	o := &denyOptions{}
	deny := command("deny-name GLOB [--agent KEY] [--under PATH] [--remove]",
		"Put a name on the deny-list, or take it off", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyDenyName(ctx, a, o, args[0]) })
	o.AddFlags(deny.Flags())
	file := ""
	set := command("set [--file FILE] [SETTING=VALUE …]", "Set what a settings file says, or single settings, all at once", cobra.ArbitraryArgs,
		func(ctx context.Context, args []string) error { return runPolicySet(ctx, a, file, args) })
	set.Long = `Set access modes, modes of souls, denied and allowed names, members of projects and
retention, by a settings file (TOML; - is stdin), or one by one:

    warren policy set agents.researcher.access=ro projects.site.members.researcher=read
    warren policy set 'deny_add=["*.pem"]' 'agents.researcher.deny=["*.key"]'

It is checked whole, and takes effect at once or not at all. What is not named stays.
` + "`warren policy settings`" + ` prints the settings in force in that form; ` + "`warren policy check FILE.toml`" + `
only checks.`
	set.Flags().StringVarP(&file, "file", "f", "", "settings `FILE`")
	settings := command("settings", "Print the settings in force as a settings file", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runPolicySettings(ctx, a) })
	return []*cobra.Command{deny, set, settings}
}

func runPolicyDenyName(ctx context.Context, a *app, o *denyOptions, glob string) error {
	change, done := a.client().DenyName, "%s is denied"
	if o.Remove {
		change, done = a.client().UndenyName, "%s is denied no more"
	}
	x := control.DeniedName{Name: glob, Agent: o.Agent, Under: o.Under}
	if err := change(ctx, x); err != nil {
		return err
	}
	return a.done(x, done, deniedText(x))
}

// deniedText words one entry of the deny-list.
func deniedText(x control.DeniedName) string {
	text := x.Name
	if x.Agent != "" {
		text += " to " + x.Agent
	}
	if x.Under != "" {
		text += " under " + x.Under
	}
	return text
}

func runPolicySet(ctx context.Context, a *app, file string, args []string) error {
	text := control.PolicyText{Name: "arguments"}
	var err error
	switch {
	case (file == "") == (len(args) == 0):
		return usagef("give either --file FILE or SETTING=VALUE; `warren policy settings` prints what there is")
	case file == "-":
		var b []byte
		b, err = io.ReadAll(io.LimitReader(os.Stdin, maxPolicyFile))
		text = control.PolicyText{Name: "stdin", Text: string(b)}
	case file != "":
		text, err = readPolicy(file)
	default:
		text.Text, err = settingLines(args)
	}
	if err == nil {
		err = a.client().SetSettings(ctx, text)
	}
	if err != nil {
		return err
	}
	return a.done(struct {
		Set string `json:"set"`
	}{text.Name}, "set; `warren policy settings` prints what is in force")
}

// settingLines makes a settings file of SETTING=VALUE arguments, a line each. What
// is no TOML value is text.
func settingLines(args []string) (string, error) {
	var b strings.Builder
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found || key == "" || strings.ContainsAny(arg, "\n\r") {
			return "", usagef("%q is not SETTING=VALUE, such as agents.KEY.access=ro", arg)
		}
		value = strings.TrimSpace(value)
		if value == "" || !strings.ContainsAny(value[:1], "[{\"'") {
			value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
		}
		b.WriteString(key + " = " + value + "\n")
	}
	return b.String(), nil
}

func runPolicySettings(ctx context.Context, a *app) error {
	t, err := a.client().SettingsText(ctx)
	if err != nil {
		return err
	}
	return a.answer(t, func(w io.Writer) { _, _ = io.WriteString(w, t.Text) })
}
