package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/warrenfs/warren/control"
)

// maxPolicyFile bounds a policy file that is read; the daemon takes less.
const maxPolicyFile = 1 << 20

// newPolicyFileCommands are the experts' commands of policy.
func newPolicyFileCommands(a *app) []*cobra.Command {
	load := command("load FILE", "Check a file of Cedar policies and put it in force, in the place of one of the same name", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyLoad(ctx, a, args[0]) })
	check := command("check FILE", "Tell whether a file of Cedar policies, or one of settings (.toml), could take effect", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyCheck(ctx, a, args[0]) })
	store := ""
	list := command("list [--store DIR]", "List the loaded files of Cedar policies", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runPolicyList(ctx, a, store) })
	list.Aliases = []string{"ls"}
	rm := command("rm NAME [--store DIR]", "Take a file of Cedar policies out of force", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runPolicyRemove(ctx, a, args[0], store) })
	rm.Aliases = []string{"remove"}
	for _, c := range []*cobra.Command{list, rm} {
		c.Flags().StringVar(&store, "store", "", "`DIR` of a store that no daemon serves, as where one refuses to start because of a file")
	}
	return []*cobra.Command{load, check, list, rm}
}

// readPolicy reads a policy file; its name there is its name here.
func readPolicy(file string) (control.PolicyText, error) {
	f, err := os.Open(file)
	if err != nil {
		return control.PolicyText{}, localError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPolicyFile))
	if err != nil {
		return control.PolicyText{}, localError(err)
	}
	return control.PolicyText{Name: filepath.Base(file), Text: string(b)}, nil
}

func runPolicyLoad(ctx context.Context, a *app, file string) error {
	if filepath.Ext(file) == ".toml" {
		return usagef("%s is a settings file; set it by `warren policy set --file %s`", file, file)
	}
	p, err := readPolicy(file)
	if err != nil {
		return err
	}
	f, err := a.client().LoadPolicy(ctx, p)
	if err != nil {
		return err
	}
	return a.done(f, "policy file %s in force; `warren policy rm %s` takes it out again", f.Name, f.Name)
}

func runPolicyCheck(ctx context.Context, a *app, file string) error {
	p, err := readPolicy(file)
	if err == nil {
		err = a.client().CheckPolicy(ctx, p)
	}
	if err != nil {
		return err
	}
	return a.done(struct {
		OK string `json:"ok"`
	}{p.Name}, "%s is right", p.Name)
}

func runPolicyList(ctx context.Context, a *app, store string) error {
	var fs []control.PolicyFile
	var err error
	if store == "" {
		fs, err = a.client().PolicyFiles(ctx)
	} else {
		fs, err = storedPolicies(ctx, a, store)
	}
	if err != nil {
		return err
	}
	return a.answer(fs, func(w io.Writer) {
		var rows [][]string
		for _, f := range fs {
			rows = append(rows, []string{f.Name, stamp(f.Loaded)})
		}
		table(w, []string{"FILE", "LOADED"}, rows)
	})
}

func runPolicyRemove(ctx context.Context, a *app, name, store string) error {
	remove := a.client().RemovePolicy
	if store != "" {
		remove = func(ctx context.Context, name string) error { return dropPolicy(ctx, a, store, name) }
	}
	if err := remove(ctx, name); err != nil {
		return err
	}
	return a.done(struct {
		Removed string `json:"removed"`
	}{name}, "policy file %s is out of force", name)
}
