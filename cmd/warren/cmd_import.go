package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
)

type importOptions struct {
	Agent string
	Owner string
	Force bool
}

// AddFlags adds the flags of import.
func (o *importOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent through whose view it is done (default: the administrator)")
	f.StringVar(&o.Owner, "owner", "", "`UID:GID` whose files become the owner's (default: SRC's own, or what the archive says)")
	f.BoolVarP(&o.Force, "force", "f", false, "replace files that are there")
}

func newImportCommand(a *app) *cobra.Command {
	o := &importOptions{}
	c := command("import SRC PATH", "Bring a directory or tar archive into the tree", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runImport(ctx, a, o, args[0], args[1]) })
	c.Long = `Bring a directory, or a tar archive (also .gz and .zst; - is standard input), into the
tree: PATH becomes what SRC or the archive's top is. Modes, times, owners, extended
attributes, hard links, symlinks and holes are kept. Files of SRC's owner become the
owner's: they are shown as each mount's own user.

An archive with names or links that lead out, devices, two entries of one name or sizes
out of all reason is refused whole, and so is one with something in its way; --force
writes over files, which keep their inode and hard links. What policy forbids, such as a
name on the deny-list, is left out and told, and the exit code is 3.`
	o.AddFlags(c.Flags())
	return c
}

// parseOwner reads UID:GID; nil for "".
func parseOwner(text string) (*control.Owner, error) {
	if text == "" {
		return nil, nil
	}
	var o control.Owner
	var rest string
	if n, err := fmt.Sscanf(text+" .", "%d:%d %s", &o.UID, &o.GID, &rest); n != 3 || err != nil {
		return nil, usagef("--owner %q: expected UID:GID, two numbers", text)
	}
	return &o, nil
}

func runImport(ctx context.Context, a *app, o *importOptions, src, path string) error {
	owner, err := parseOwner(o.Owner)
	if err != nil {
		return err
	}
	t := &control.Transfer{} // of this side
	body, total, err := a.source(ctx, src, owner, t)
	if err != nil {
		return err
	}
	bar := a.newProgress("import", total, true)
	got, err := a.client().Import(ctx, control.Import{Agent: o.Agent, Path: path, Owner: owner, Force: o.Force},
		io.TeeReader(body, bar))
	bar.done()
	if err = errors.Join(err, body.Close()); err != nil {
		if fi, serr := os.Stat(src); serr == nil && fi.Mode().IsRegular() && control.KindOf(err) == control.KindInvalid {
			err = hinted(err, "what is imported is a directory or a tar archive (`warren fs put --agent KEY FILE PATH` brings in a file)")
		}
		return err
	}
	return a.transferred(got, t, "imported to")
}

// source opens what is imported as a tar stream, and tells its size if that is
// known. What a directory has that does not travel is noted in t.
func (a *app) source(ctx context.Context, src string, owner *control.Owner, t *control.Transfer) (io.ReadCloser, int64, error) {
	if src == "-" {
		return unpacked(io.NopCloser(a.stdin), -1)
	}
	fi, err := os.Stat(src)
	if err != nil {
		return nil, 0, localError(err)
	}
	if !fi.IsDir() {
		f, err := os.Open(src)
		if err != nil {
			return nil, 0, localError(err)
		}
		return unpacked(f, fi.Size())
	}
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := archive.Walk(ctx, src, w, (*archive.ID)(owner), t.Skip)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			err = localError(err)
		}
		_ = w.CloseWithError(err)
	}()
	return &walked{r, ended}, -1, nil
}

// walked is the stream of a directory. Close returns when nothing is read of the
// directory any more.
type walked struct {
	*io.PipeReader
	ended chan struct{}
}

// Close ends the walk.
func (w *walked) Close() error {
	err := w.PipeReader.Close()
	<-w.ended
	return err
}

// unpacked decompresses f if it is compressed; its own first bytes tell.
func unpacked(f io.ReadCloser, size int64) (io.ReadCloser, int64, error) {
	b := bufio.NewReaderSize(f, 256<<10)
	head, _ := b.Peek(4) // a short one is the archive's fault
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, 0, errors.Join(usagef("the archive is no gzip file: %v", err), f.Close())
		}
		return &stacked{z, f}, -1, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, 0, errors.Join(usagef("the archive is no zstd file: %v", err), f.Close())
		}
		return &stacked{z.IOReadCloser(), f}, -1, nil
	}
	return &stacked{io.NopCloser(b), f}, size, nil
}

// stacked is a reader over a file; both are closed.
type stacked struct {
	io.ReadCloser
	below io.Closer
}

// Close closes the reader and then the file.
func (s *stacked) Close() error { return errors.Join(s.ReadCloser.Close(), s.below.Close()) }

// transferred answers an import or export; here is what this side left out. What
// was left out makes it partial.
func (a *app) transferred(t control.Transfer, here *control.Transfer, did string) error {
	for _, s := range here.Skipped {
		t.Skip(s.Path, s.Reason)
	}
	t.SkippedCount += here.SkippedCount - int64(len(here.Skipped))
	for _, s := range t.Skipped {
		if !a.json {
			_, _ = fmt.Fprintf(a.stderr, "warren: left out: %s: %s\n", shown(a.stderr, s.Path), s.Reason)
		}
	}
	if err := a.done(t, "%s %s: %s, %s in %s", did, shown(a.stdout, t.Path),
		many(t.Entries, "entry", "entries"), size(uint64(t.Bytes)), many(t.Files, "file", "files")); err != nil {
		return err
	}
	if t.SkippedCount == 0 {
		return nil
	}
	if a.json {
		return &statusError{code: exitPartial}
	}
	what := "entries were"
	if t.SkippedCount == 1 {
		what = "entry was"
	}
	return control.Errorf(control.KindPartial, "%d %s left out", t.SkippedCount, what)
}
