package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type fieldOptions struct {
	asOptions
	Of string
}

// AddFlags adds the flags that all of field share.
func (o *fieldOptions) AddFlags(f *pflag.FlagSet) {
	o.asOptions.AddFlags(f)
	f.StringVar(&o.Of, "of", "", "`KEY` of another agent whose fields they are")
}

func newFieldCommand(a *app) *cobra.Command {
	o := &fieldOptions{}
	list := command("list [--agent KEY] [--of KEY]", "List fields with their values", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runFieldList(ctx, a, o) })
	list.Aliases = []string{"ls"}
	get := command("get [--agent KEY] [--of KEY] NAME", "Print a field's value", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runFieldGet(ctx, a, o, args[0]) })
	set := command("set [--agent KEY] [--of KEY] NAME [VALUE]", "Set a field, by what comes in if VALUE is left out", cobra.RangeArgs(1, 2),
		func(ctx context.Context, args []string) error { return runFieldSet(ctx, a, o, args) })
	clear := command("clear [--agent KEY] [--of KEY] NAME", "Clear a field", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return setField(ctx, a, control.FieldSetting{Agent: o.Agent, Of: o.Of, Name: args[0], Value: json.RawMessage("null")})
		})
	c := noun("field", "Read and set the fields that an agent's fields.json describes", list, get, set, clear)
	c.Long = `Read and set the fields that an agent's fields.json describes: a JSON Schema of an object, each
property a field. A string's value is bare text, any other type's is JSON. In a mount they are
the files in /warren/.warren/fields.`
	o.AddFlags(c.PersistentFlags())
	return c
}

func runFieldList(ctx context.Context, a *app, o *fieldOptions) error {
	fields, err := a.client().Fields(ctx, o.Agent, o.Of)
	if err != nil {
		return err
	}
	return a.answer(fields, func(w io.Writer) {
		var rows [][]string
		for _, f := range fields {
			how := "editable"
			if f.ReadOnly {
				how = "read-only"
			}
			rows = append(rows, []string{shown(w, f.Name), dash(f.Type), how, string(f.Value), shown(w, strings.Join(strings.Fields(f.Description), " "))})
		}
		table(w, []string{"FIELD", "TYPE", "", "VALUE", "DESCRIPTION"}, rows)
	})
}

// fieldText is a value as people write it: a string bare.
func fieldText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		return s
	}
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

func runFieldGet(ctx context.Context, a *app, o *fieldOptions, name string) error {
	f, err := a.client().Field(ctx, o.Agent, o.Of, name)
	if err != nil {
		return err
	}
	return a.answer(f, func(w io.Writer) {
		if text := fieldText(f.Value); text != "" {
			_, _ = io.WriteString(w, shownText(w, text)+"\n")
		}
	})
}

func runFieldSet(ctx context.Context, a *app, o *fieldOptions, args []string) error {
	text := ""
	if len(args) == 2 {
		text = args[1]
	} else {
		b, err := io.ReadAll(io.LimitReader(a.stdin, 1<<20))
		if err != nil {
			return err
		}
		text = string(b)
	}
	return setField(ctx, a, control.FieldSetting{Agent: o.Agent, Of: o.Of, Name: args[0], Text: &text})
}

func setField(ctx context.Context, a *app, s control.FieldSetting) error {
	c, err := a.client().SetField(ctx, s)
	if err != nil {
		return err
	}
	return a.done(c, "%s: %s, was %s", shown(a.stdout, c.Name), c.Value, c.Previous)
}
