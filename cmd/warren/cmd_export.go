package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
)

type exportOptions struct {
	Agent string
	Owner string
	Since string
	SetID bool
}

// AddFlags adds the flags of export.
func (o *exportOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent through whose view it is done (default: the administrator)")
	f.StringVar(&o.Owner, "owner", "", "`UID:GID` that the owner's files get (default: this user's)")
	f.BoolVar(&o.SetID, "set-id", false, "in a directory, also set set-id bits, capabilities and trusted attributes, which agents may have set")
	f.StringVar(&o.Since, "changed-since", "", "leave out what was not changed since `TIME`: 2026-01-31, 2026-01-31T15:04:05Z, or 2h ago as 2h")
}

func newExportCommand(a *app) *cobra.Command {
	o := &exportOptions{}
	c := command("export PATH DIR|FILE.tar[.gz|.zst]|-", "Take a part of the tree out, as a directory or tar archive", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runExport(ctx, a, o, args[0], args[1]) })
	c.Long = `Take a part of the tree out, as a directory or a tar archive (.tar, .tar.gz, .tgz, .tar.zst; -
is standard output). Modes, times, owners, extended attributes, hard links, symlinks and
holes are kept. Each file is as it was when it was read; for all files as of one moment
take a backup.

An archive is written whole or not at all. In a directory that is there, files are replaced, and
nothing is written through a symlink. What policy forbids to read, and what is damaged, is left
out and told, and the exit code is 3. --changed-since goes by the times of change of content,
attributes and names: what was removed is not told, and what stands in a directory that was moved is
as old as it was.`
	o.AddFlags(c.Flags())
	return c
}

// parseSince reads a time, a date (UTC) or how long ago; zero for "".
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("--changed-since %q: expected 2026-01-31, 2026-01-31T15:04:05Z, or a duration as 2h", text)
}

func runExport(ctx context.Context, a *app, o *exportOptions, path, dest string) error {
	x := control.Export{Agent: o.Agent, Path: path}
	var err error
	if x.ChangedSince, err = parseSince(o.Since, time.Now()); err != nil {
		return err
	}
	if x.Owner, err = parseOwner(o.Owner); err != nil {
		return err
	}
	if x.Owner == nil {
		x.Owner = &control.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	bar := a.newProgress("export", -1, true)
	defer bar.done()
	here := &control.Transfer{}
	var t control.Transfer
	switch kind := archiveKind(dest); {
	case dest == "-":
		t, err = a.client().Export(ctx, x, io.MultiWriter(a.stdout, bar))
		quiet := *a
		quiet.stdout, quiet.quiet, quiet.json = io.Discard, true, false // the archive is the answer
		a = &quiet
	case kind != "":
		err = writeWhole(dest, 0o600, func(w io.Writer) error {
			return packed(w, kind, func(w io.Writer) (err error) {
				t, err = a.client().Export(ctx, x, io.MultiWriter(w, bar))
				return err
			})
		})
	default:
		t, err = a.extract(ctx, x, dest, o.SetID, bar, here)
	}
	bar.done()
	if err != nil {
		return err
	}
	return a.transferred(t, here, "exported")
}

// archiveKind is how an archive of this name is packed: tar, gz, zst; "": the
// name is not an archive's.
func archiveKind(name string) string {
	for suffix, kind := range map[string]string{".tar": "tar", ".tar.gz": "gz", ".tgz": "gz", ".tar.zst": "zst", ".tzst": "zst"} {
		if strings.HasSuffix(name, suffix) {
			return kind
		}
	}
	return ""
}

// packed lets fn write to w through a compressor.
func packed(w io.Writer, kind string, fn func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 256<<10)
	var z io.WriteCloser
	switch kind {
	case "gz":
		z = gzip.NewWriter(b)
	case "zst":
		var err error
		if z, err = zstd.NewWriter(b); err != nil {
			return err
		}
	default:
		return errors.Join(fn(b), b.Flush())
	}
	return errors.Join(fn(z), z.Close(), b.Flush())
}

// extract makes a directory of an export.
func (a *app) extract(ctx context.Context, x control.Export, dest string, setID bool, bar io.Writer, here *control.Transfer) (control.Transfer, error) {
	r, w := io.Pipe()
	var t control.Transfer
	sent := make(chan error, 1)
	go func() {
		var err error
		t, err = a.client().Export(ctx, x, io.MultiWriter(w, bar))
		_ = w.CloseWithError(err)
		sent <- err
	}()
	err := archive.Extract(ctx, archive.NewReader(r, archive.Limits{}), dest, setID, here.Skip)
	if err == nil { // what follows the end mark
		_, err = io.Copy(io.Discard, r)
	}
	_ = r.CloseWithError(err)
	if serr := <-sent; serr != nil && !errors.Is(serr, err) && control.KindOf(serr) != control.KindFailed {
		return t, serr
	}
	if err != nil {
		return t, localError(err)
	}
	return t, nil
}
