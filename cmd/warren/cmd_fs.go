package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type fsOptions struct {
	Agent     string
	Long      bool
	Recursive bool
	Parents   bool
	Force     bool
	Follow    bool
	Mode      string
	IfMatch   string
	NoClobber bool
	Append    bool
}

// AddFlags adds the flags that all of fs share.
func (o *fsOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent through whose view it is done")
}

func newFSCommand(a *app) *cobra.Command {
	o := &fsOptions{}
	sub := func(use, short string, args cobra.PositionalArgs,
		run func(context.Context, *app, *fsOptions, []string) error) *cobra.Command {
		return command(use, short, args, func(ctx context.Context, args []string) error {
			if err := a.needAgent(o.Agent); err != nil {
				return err
			}
			return run(ctx, a, o, args)
		})
	}
	ls := sub("ls --agent KEY [PATH]", "List a directory", cobra.MaximumNArgs(1), runFSList)
	ls.Flags().BoolVarP(&o.Long, "long", "l", false, "with type, mode, size and time")
	cat := sub("cat --agent KEY PATH…", "Print files", cobra.MinimumNArgs(1), runFSCat)
	put := sub("put --agent KEY [FILE] PATH", "Write FILE, or what comes in, to PATH; whole or not at all",
		cobra.RangeArgs(1, 2), runFSPut)
	cat.Flags().StringVar(&o.IfMatch, "if-match", "", "fail unless the file has this `ETAG`")
	put.Flags().StringVar(&o.IfMatch, "if-match", "", "fail unless the file has this `ETAG`, which stat and ls show with --json")
	put.Flags().BoolVar(&o.NoClobber, "no-clobber", false, "fail if there is a file")
	put.Flags().BoolVar(&o.Append, "append", false, "add to the end, at most 8 MiB, as one step")
	put.Flags().StringVar(&o.Mode, "mode", "", "permission bits, `octal` (default: kept, 0644 for a new file)")
	rm := sub("rm --agent KEY PATH…", "Remove files and empty directories", cobra.MinimumNArgs(1), runFSRemove)
	rm.Flags().BoolVarP(&o.Recursive, "recursive", "r", false, "directories with all in them")
	mkdir := sub("mkdir --agent KEY PATH…", "Make directories", cobra.MinimumNArgs(1), runFSMkdir)
	mkdir.Flags().BoolVarP(&o.Parents, "parents", "p", false, "parents too; no error if it exists")
	mv := sub("mv --agent KEY FROM TO", "Rename inside one volume", cobra.ExactArgs(2), runFSMove)
	mv.Flags().BoolVarP(&o.Force, "force", "f", false, "replace what is at TO")
	stat := sub("stat --agent KEY PATH…", "Show what is known of a path", cobra.MinimumNArgs(1), runFSStat)
	stat.Flags().BoolVarP(&o.Follow, "follow", "L", false, "follow a symlink at the end")
	c := noun("fs", "Work with files through an agent's view, without a mount", ls, cat, put, newFSEditCommand(a, o), newFSSearchCommand(a, o), rm, mkdir, mv, stat)
	c.Long = `Work with files through an agent's view, without a mount, under the same policy.
Paths are tree paths; one that does not start with / starts in the agent's workspace.`
	o.AddFlags(c.PersistentFlags())
	return c
}

func runFSList(ctx context.Context, a *app, o *fsOptions, args []string) error {
	path := "."
	if len(args) > 0 {
		path = args[0]
	}
	ns, err := a.client().List(ctx, o.Agent, path)
	if err != nil {
		return err
	}
	return a.answer(ns, func(w io.Writer) {
		if !o.Long {
			for _, n := range ns {
				_, _ = fmt.Fprintln(w, shown(w, n.Name))
			}
			return
		}
		var rows [][]string
		for _, n := range ns {
			name := shown(w, n.Name)
			if n.Target != "" {
				name += " -> " + shown(w, n.Target)
			}
			rows = append(rows, []string{n.Type, n.Mode, strconv.FormatUint(n.Size, 10), stamp(n.Mtime), name})
		}
		table(w, []string{"TYPE", "MODE", "SIZE", "MODIFIED", "NAME"}, rows)
	})
}

func runFSCat(ctx context.Context, a *app, o *fsOptions, args []string) error {
	c := a.client()
	for _, path := range args {
		if err := c.ReadIf(ctx, o.Agent, path, o.IfMatch, a.stdout); err != nil {
			return err
		}
	}
	return nil
}

func runFSPut(ctx context.Context, a *app, o *fsOptions, args []string) error {
	var mode uint64
	if o.Mode != "" {
		var err error
		if mode, err = strconv.ParseUint(o.Mode, 8, 32); err != nil || mode > 0o7777 || mode == 0 {
			return usagef("--mode %s: expected octal permission bits such as 0644", o.Mode)
		}
	}
	in, path := a.stdin, args[0]
	if len(args) == 2 {
		path = args[1]
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return localError(err)
			}
			defer f.Close()
			in = f
		}
	}
	n, err := a.client().WriteIf(ctx, o.Agent, path, io.NopCloser(in),
		control.Writing{Mode: uint32(mode), IfMatch: o.IfMatch, NoClobber: o.NoClobber, Append: o.Append})
	if err != nil {
		return err
	}
	return a.done(n, "%s: %d bytes", shown(a.stdout, n.Path), n.Size)
}

// localError gives an error of the caller's own files its kind.
func localError(err error) error {
	switch {
	case os.IsNotExist(err):
		return control.Errorf(control.KindNotFound, "%v", err)
	case os.IsPermission(err):
		return control.Errorf(control.KindDenied, "%v", err)
	}
	return err
}

func runFSRemove(ctx context.Context, a *app, o *fsOptions, args []string) error {
	c := a.client()
	removed := []string{}
	var errs []error
	for _, path := range args {
		err := c.Remove(ctx, o.Agent, path, o.Recursive)
		if kind := control.KindOf(err); kind == control.KindUnavailable || kind == control.KindInterrupted {
			return err
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, path)
	}
	if len(errs) == len(args) && len(args) == 1 {
		return errs[0]
	}
	err := a.done(struct {
		Removed []string `json:"removed"`
	}{removed}, "%d removed", len(removed))
	return errors.Join(err, someFailed(errs, len(args)))
}

func runFSMkdir(ctx context.Context, a *app, o *fsOptions, args []string) error {
	c := a.client()
	made := []control.Node{}
	for _, path := range args {
		n, err := c.MakeDir(ctx, control.MakeDir{Agent: o.Agent, Path: path, Parents: o.Parents})
		if control.KindOf(err) == control.KindNotFound && !o.Parents {
			return hinted(err, "-p makes the directories above it too")
		}
		if err != nil {
			return err
		}
		made = append(made, n)
	}
	return a.done(made, "%d made", len(made))
}

func runFSMove(ctx context.Context, a *app, o *fsOptions, args []string) error {
	n, err := a.client().Move(ctx, control.Move{Agent: o.Agent, From: args[0], To: args[1], Force: o.Force})
	if err != nil {
		return err
	}
	return a.done(n, "now %s", shown(a.stdout, n.Path))
}

func runFSStat(ctx context.Context, a *app, o *fsOptions, args []string) error {
	c := a.client()
	ns := []control.Node{}
	for _, path := range args {
		n, err := c.Stat(ctx, o.Agent, path, o.Follow)
		if err != nil {
			return err
		}
		ns = append(ns, n)
	}
	return a.answer(ns, func(w io.Writer) {
		for i, n := range ns {
			if i > 0 {
				_, _ = fmt.Fprintln(w)
			}
			facts(w, "path", shown(w, n.Path), "type", n.Type, "mode", n.Mode, "owner", owner(n), "size", fmt.Sprint(n.Size),
				"links", fmt.Sprint(n.Links), "inode", fmt.Sprint(n.Inode), "target", shown(w, n.Target),
				"modified", stamp(n.Mtime), "changed", stamp(n.Ctime), "made", stamp(n.Btime),
				"created by", n.CreatedBy, "modified by", n.ModifiedBy, "etag", n.Etag)
		}
	})
}

func owner(n control.Node) string {
	show := func(id *uint32) string {
		if id == nil {
			return "owner"
		}
		return strconv.FormatUint(uint64(*id), 10)
	}
	return show(n.UID) + ":" + show(n.GID)
}
