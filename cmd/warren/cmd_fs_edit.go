package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/warrenfs/warren/control"
)

// newFSEditCommand makes `fs edit`.
func newFSEditCommand(a *app, o *fsOptions) *cobra.Command {
	var e control.Edit
	var one control.Replacement
	c := command("edit --agent KEY --old TEXT --new TEXT PATH", "Replace text in a file, as one step, and show the difference", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			if o.Agent == "" {
				return usagef("which agent? give --agent KEY (`warren agent list` lists them)")
			}
			e.Agent, e.Path, e.Edits = o.Agent, args[0], []control.Replacement{one}
			got, err := a.client().Edit(ctx, e)
			if err != nil {
				return err
			}
			return a.answer(got, func(w io.Writer) {
				if !a.quiet {
					_, _ = fmt.Fprint(w, shownText(w, got.Diff))
				}
			})
		})
	c.Flags().StringVar(&one.Old, "old", "", "`TEXT` that is there exactly once")
	c.Flags().StringVar(&one.New, "new", "", "`TEXT` that comes in its place")
	c.Flags().BoolVar(&one.All, "all", false, "every place where the old text is")
	c.Flags().BoolVar(&e.DryRun, "dry-run", false, "only show the difference")
	c.Flags().StringVar(&e.IfMatch, "if-match", "", "fail unless the file has this `ETAG`")
	return c
}

// newFSSearchCommand makes `fs search`.
func newFSSearchCommand(a *app, o *fsOptions) *cobra.Command {
	var s control.Search
	c := command("search --agent KEY PATTERN [PATH…]", "Find lines that match a regular expression", cobra.MinimumNArgs(1),
		func(ctx context.Context, args []string) error {
			if o.Agent == "" {
				return usagef("which agent? give --agent KEY (`warren agent list` lists them)")
			}
			s.Agent, s.Pattern, s.Paths = o.Agent, args[0], args[1:]
			return runFSSearch(ctx, a, s)
		})
	c.Flags().StringSliceVarP(&s.Globs, "glob", "g", nil, "only files that match `GLOB`; with ! in front, not those")
	c.Flags().BoolVarP(&s.Literal, "fixed", "F", false, "the pattern is plain text")
	c.Flags().BoolVarP(&s.IgnoreCase, "ignore-case", "i", false, "letters of either case")
	c.Flags().BoolVar(&s.Hidden, "hidden", false, "also names that start with a dot")
	c.Flags().IntVarP(&s.Context, "context", "C", 0, "`N` lines before and after, at most 20")
	c.Flags().IntVar(&s.Limit, "limit", 0, "at most `N` matching lines (default 1000, at most 10000)")
	return c
}

// runFSSearch prints matches as they come, as grep(1) does; with --json one object
// in the end.
func runFSSearch(ctx context.Context, a *app, s control.Search) error {
	out := struct {
		Matches []control.Match `json:"matches"`
		control.Searched
	}{Matches: []control.Match{}}
	var err error
	out.Searched, err = a.client().Search(ctx, s, func(m control.Match) error {
		if a.json {
			m.SetBytes()
			out.Matches = append(out.Matches, m)
		} else {
			printMatch(a.stdout, &m)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case a.json:
		err = a.answer(out, nil)
	case out.Partial:
	case out.Truncated && !a.quiet:
		_, _ = fmt.Fprintln(a.stderr, "there may be more: give --limit")
	}
	if err == nil && out.Partial {
		if !a.quiet {
			_, _ = fmt.Fprintln(a.stderr, out.Stopped())
		}
		return &statusError{code: exitPartial}
	}
	return err
}

func printMatch(w io.Writer, m *control.Match) {
	line := func(n int, mark, text string) {
		_, _ = fmt.Fprintf(w, "%s%s%d%s%s\n", shown(w, m.Path), mark, n, mark, shownText(w, text))
	}
	for i, l := range m.Before {
		line(m.Line-len(m.Before)+i, "-", l)
	}
	line(m.Line, ":", m.Text)
	for i, l := range m.After {
		line(m.Line+1+i, "-", l)
	}
}
