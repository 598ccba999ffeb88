package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"golang.org/x/term"
)

type backupOptions struct {
	Store string
	Since []string
}

// AddFlags adds the flags of backup.
func (o *backupOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "of the store at `DIR`, which no daemon has open, or which the daemon at --socket has")
	f.StringArrayVar(&o.Since, "since", nil, "only what changed since `BACKUP`; an incremental one needs those before it too, the full one first")
}

func newBackupCommand(a *app) *cobra.Command {
	o := &backupOptions{}
	c := command("backup [--since BACKUP]… FILE|-", "Write a backup of the whole store", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runBackup(ctx, a, o, args[0]) })
	c.Long = `Write a backup of the whole store: agents, policy, settings and all content, as of one moment,
while the store is in use. FILE gets mode 0600 and is there only when it is whole; - is standard
output. With --since only what changed is written:

    warren backup full.wbk
    warren backup --since full.wbk tue.wbk
    warren backup --since full.wbk --since tue.wbk wed.wbk
    warren restore-store full.wbk tue.wbk wed.wbk --store DIR

Content that is damaged makes the backup fail, and the text names it.`
	o.AddFlags(c.Flags())
	return c
}

func runBackup(ctx context.Context, a *app, o *backupOptions, dest string) error {
	if dest == "-" {
		if f, ok := a.stdout.(*errWriter).w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return usagef("a backup is not written to a terminal; name a file")
		}
	} else if _, err := os.Lstat(dest); err == nil {
		return control.Errorf(control.KindConflict, "%s is there already; a backup replaces nothing", dest)
	}
	index, err := backupIndex(ctx, o.Since)
	if err != nil {
		return err
	}
	if index != nil {
		defer index.Close()
	}
	from, done, err := a.backupSource(ctx, o)
	if err != nil {
		return err
	}
	bar := a.newProgress("backup", -1, true)
	var b control.Backup
	write := func(w io.Writer) (err error) {
		b, err = checkedBackup(ctx, from, index, io.MultiWriter(w, bar))
		return err
	}
	if dest == "-" {
		err = write(a.stdout)
	} else {
		err = writeWhole(dest, 0o600, write)
	}
	bar.done()
	if err = errors.Join(err, done()); err != nil || dest == "-" {
		return err
	}
	b.File = dest
	return a.done(b, "%s: backup %s, as of update %d: %s in %d records", dest, b.ID, b.LSN, size(b.Bytes), b.Records)
}

// backupFrom writes a backup, here or through the daemon.
type backupFrom func(ctx context.Context, index io.Reader, w io.Writer) error

// backupSource finds the daemon, or opens the store; the function lets go of it.
func (a *app) backupSource(ctx context.Context, o *backupOptions) (backupFrom, func() error, error) {
	c := a.client()
	nothing := func() error { return nil }
	if o.Store == "" {
		if _, err := c.Version(ctx); control.KindOf(err) == control.KindUnavailable && err != nil {
			return nil, nil, errors.Join(err, errors.New("or back up a store that no daemon has open with --store DIR"))
		}
		return c.Backup, nothing, nil
	}
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return nil, nil, err
	}
	if s, err := c.Status(ctx); err == nil && sameDir(s.Store, dir) {
		return c.Backup, nothing, nil
	}
	return backupOffline(ctx, dir, a.stderr)
}
