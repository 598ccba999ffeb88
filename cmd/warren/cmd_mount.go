package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type mountOptions struct {
	Agent      string
	Root       string
	Access     string
	UID        int64
	GID        int64
	AllowOther bool
	ACL        bool
	Owner      string
}

// AddFlags adds the flags of mount.
func (o *mountOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent whose view is mounted")
	f.StringVar(&o.Root, "root", "", "tree `PATH` of the directory to mount (default /)")
	f.StringVar(&o.Access, "access", "", "`rw|ro` for this mount (default rw)")
	f.Int64Var(&o.UID, "uid", -1, "`UID` the mount is for (default the caller's)")
	f.Int64Var(&o.GID, "gid", -1, "`GID` the mount is for (default the caller's)")
	f.BoolVar(&o.AllowOther, "allow-other", false, "let other users of the host in too; mode bits then decide")
	f.BoolVar(&o.ACL, "acl", false, "keep and enforce POSIX ACLs; costs a request for each new node")
	f.StringVar(&o.Owner, "owner", "", "`agent|mount`: other agents' files are shown as theirs (default), or as the mount's user's; with mount, git and ssh take what any agent wrote for the user's own, and run what it says")
}

func newMountCommand(a *app) *cobra.Command {
	o := &mountOptions{}
	c := command("mount --agent KEY DIR", "Mount an agent's view at DIR", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runMount(ctx, a, o, args[0]) })
	c.Long = `Mount an agent's view at DIR, an empty directory. The daemon does the mounting and
remembers it: the mount comes back when the daemon is started again, until umount.
The convention is to mount at /warren, so that mounted paths and tree paths agree.

With a token, as in a container that has only agent.sock, this command mounts by itself,
in its own namespaces, and the daemon serves the mount: --device /dev/fuse and the right to
mount are needed there. Such a mount goes with the container, and is not remembered.`
	o.AddFlags(c.Flags())
	return c
}

func runMount(ctx context.Context, a *app, o *mountOptions, dir string) error {
	if err := a.needAgent(o.Agent); err != nil {
		return err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return usagef("%s: %v", dir, err)
	}
	spec := control.MountSpec{Agent: o.Agent, Dir: abs, Root: o.Root, Access: o.Access, AllowOther: o.AllowOther, ACL: o.ACL, Owner: o.Owner}
	if spec.UID, err = idFlag("uid", o.UID); err != nil {
		return err
	}
	if spec.GID, err = idFlag("gid", o.GID); err != nil {
		return err
	}
	var m control.Mount
	if a.showToken() != "" {
		m, err = mountInside(ctx, a, spec)
	} else {
		m, err = a.client().Mount(ctx, spec)
	}
	if err != nil {
		return err
	}
	return a.done(m, "%s mounted at %s", m.Agent, m.Dir)
}

// idFlag reads a --uid or --gid; -1 is "not given".
func idFlag(name string, v int64) (*uint32, error) {
	if v == -1 {
		return nil, nil
	}
	if v < 0 || v >= 1<<32-1 {
		return nil, usagef("--%s %d is no id", name, v)
	}
	id := uint32(v)
	return &id, nil
}

type umountOptions struct{ Force bool }

// AddFlags adds the flags of umount.
func (o *umountOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Force, "force", false, "also when processes use it; they get errors from then on")
}

func newUmountCommand(a *app) *cobra.Command {
	o := &umountOptions{}
	c := command("umount DIR", "Unmount DIR and forget the mount", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runUmount(ctx, a, o, args[0]) })
	o.AddFlags(c.Flags())
	return c
}

func runUmount(ctx context.Context, a *app, o *umountOptions, dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return usagef("%s: %v", dir, err)
	}
	// As the daemon records it: free of symlinks above the mountpoint, which
	// itself is not looked into.
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	var got control.Unmounted
	if a.showToken() != "" {
		err = umountInside(abs, o.Force)
	} else {
		got, err = a.client().Unmount(ctx, abs, o.Force)
	}
	if control.KindOf(err) == control.KindUnavailable {
		err = control.Errorf(control.KindUnavailable, "%v; a mount whose daemon is gone is taken away by `umount %s` as well", err, abs)
	}
	if err != nil {
		return err
	}
	said := abs + " unmounted"
	if got.Note != "" {
		said += "; note: " + got.Note
	}
	return a.done(struct {
		Unmounted string `json:"unmounted"`
		Note      string `json:"note,omitempty"`
	}{abs, got.Note}, "%s", said)
}

func newMountsCommand(a *app) *cobra.Command {
	return command("mounts", "List mounts", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runMounts(ctx, a) })
}

func runMounts(ctx context.Context, a *app) error {
	ms, err := a.client().Mounts(ctx)
	if err != nil {
		return err
	}
	return a.answer(ms, func(w io.Writer) {
		var rows [][]string
		for _, m := range ms {
			rows = append(rows, []string{m.Dir, m.Agent, m.Root, m.Access,
				fmt.Sprintf("%d:%d", m.UID, m.GID), m.State})
		}
		table(w, []string{"DIR", "AGENT", "ROOT", "ACCESS", "FOR", "STATE"}, rows)
	})
}
