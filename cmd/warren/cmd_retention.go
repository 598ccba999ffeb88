package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type retentionOptions struct{ DryRun bool }

// AddFlags adds the flags of retention collect.
func (o *retentionOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.DryRun, "dry-run", false, "tell what would go, and remove nothing")
}

func newRetentionCommand(a *app) *cobra.Command {
	o := &retentionOptions{}
	show := command("show", "Show how long what is kept", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runRetentionShow(ctx, a) })
	set := command("set scratch|caches|screenshots AGE|never", "Set how long a kind of file is kept, such as 7d or 36h", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runRetentionSet(ctx, a, args[0], args[1]) })
	collect := command("collect [--dry-run]", "Remove now what is older, as the daemon does every hour", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runRetentionCollect(ctx, a, o) })
	o.AddFlags(collect.Flags())
	return noun("retention", "Collect old files of scratch, caches and screenshots", show, set, collect)
}

func runRetentionShow(ctx context.Context, a *app) error {
	all, err := a.client().Retention(ctx)
	if err != nil {
		return err
	}
	return a.answer(all, func(w io.Writer) {
		var rows [][]string
		for _, r := range all {
			rows = append(rows, []string{r.Kind, ageText(r.Age)})
		}
		table(w, []string{"KIND", "COLLECTED AFTER"}, rows)
	})
}

func runRetentionSet(ctx context.Context, a *app, kind, age string) error {
	r := control.Retention{Kind: kind, Age: age}
	if err := a.client().SetRetention(ctx, r); err != nil {
		return err
	}
	if age == "never" {
		return a.done(r, "%s are never collected", kind)
	}
	return a.done(r, "%s are collected when nobody has changed them for %s", kind, age)
}

func runRetentionCollect(ctx context.Context, a *app, o *retentionOptions) error {
	got, err := a.client().CollectOld(ctx, o.DryRun)
	if err != nil {
		return err
	}
	does := "removed"
	if o.DryRun {
		does = "would remove"
	}
	left := ""
	if got.Failed > 0 {
		left = fmt.Sprintf("; %d could not be", got.Failed)
	}
	return a.done(got, "%s %d files and directories of %s%s", does, got.Removed, size(got.Bytes), left)
}

// ageText shows an age of whole days as such; any other, and never, as it is.
func ageText(age string) string {
	const day = 24 * time.Hour
	if d, err := time.ParseDuration(age); err == nil && d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return age
}
