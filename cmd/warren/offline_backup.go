package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/warrenfs/warren/backend/backup"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

// backup writes a backup of an open store.
func (s *store) backup(ctx context.Context, w io.Writer, index io.Reader) error {
	_, err := backup.Write(ctx, w, backup.Source{Store: s.kv, Content: s.content, Format: s.info.Format, Driver: s.info.Content}, index)
	return err
}

// backupOffline opens a store that no daemon has open, to be backed up.
func backupOffline(ctx context.Context, dir string, warnings io.Writer) (backupFrom, func() error, error) {
	s, err := openStore(ctx, dir, newStore{}, offlineLog(warnings))
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, index io.Reader, w io.Writer) error { return kinded(s.backup(ctx, w, index)) }, s.Close, nil
}

// backupIndex makes the index of earlier backups, in a file without a name; nil
// for none.
func backupIndex(ctx context.Context, files []string) (*os.File, error) {
	if len(files) == 0 {
		return nil, nil
	}
	in, closeAll, err := openFiles(files)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	c, err := backup.NewChain(cancelled(ctx, in), true)
	if err != nil {
		return nil, kinded(err)
	}
	f, err := os.CreateTemp("", "warren-index")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = backup.Index(f, c)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(kinded(err), f.Close())
	}
	return f, nil
}

// openFiles opens backups, in their order.
func openFiles(names []string) ([]io.ReadSeeker, func(), error) {
	var files []io.ReadSeeker
	var opened []*os.File
	closeAll := func() {
		for _, f := range opened {
			_ = f.Close() // only read
		}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, localError(err)
		}
		opened = append(opened, f)
		files = append(files, f)
	}
	return files, closeAll, nil
}

// cancelled gives readers of files that fail when ctx ends.
func cancelled(ctx context.Context, files []io.ReadSeeker) []io.Reader {
	var out []io.Reader
	for _, f := range files {
		out = append(out, &cancelledFile{f, ctx})
	}
	return out
}

type cancelledFile struct {
	io.ReadSeeker
	ctx context.Context
}

// Read reads unless ctx has ended.
func (c *cancelledFile) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.ReadSeeker.Read(p)
}

// checkedBackup writes a backup and checks it as it goes.
func checkedBackup(ctx context.Context, from backupFrom, index *os.File, w io.Writer) (control.Backup, error) {
	var in io.Reader
	if index != nil {
		in = bufio.NewReader(index)
	}
	r, tee := io.Pipe()
	type checked struct {
		b   control.Backup
		err error
	}
	got := make(chan checked, 1)
	go func() {
		var c checked
		c.b, c.err = readBackup(r)
		_, _ = io.Copy(io.Discard, r) // from must not wait for who has given up
		got <- c
	}()
	err := from(ctx, in, io.MultiWriter(w, tee))
	_ = tee.CloseWithError(err)
	c := <-got
	if err != nil {
		return c.b, err
	}
	return c.b, kinded(c.err)
}

// readBackup reads a backup to its end.
func readBackup(r io.Reader) (control.Backup, error) {
	b, err := backup.NewReader(r, false)
	for err == nil {
		_, err = b.Next()
	}
	if err != io.EOF {
		return control.Backup{}, err
	}
	h, s := b.Header(), b.Summary()
	out := control.Backup{ID: hex.EncodeToString(h.ID[:]), LSN: s.LSN, Created: h.Created, Records: s.Records, Contents: s.Contents,
		Bytes: s.Bytes, SHA256: s.SHA256}
	if h.Since != nil {
		out.Since = hex.EncodeToString(h.Since[:])
	}
	return out, nil
}

// restoreStore makes a store of backups. What it began it takes away again if it
// fails: the file `format`, which makes a directory a store, is written last.
// forget: without the mounts that were recorded.
func (a *app) restoreStore(ctx context.Context, dir string, names []string, forget bool) (r control.Restored, err error) {
	start := time.Now()
	files, closeAll, err := openFiles(names)
	if err != nil {
		return r, err
	}
	defer closeAll()
	plan, err := backup.Examine(ctx, cancelled(ctx, files))
	if err != nil {
		return r, kinded(err)
	}
	for _, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return r, err
		}
	}
	s, err := emptyStore(dir, storeInfo{Format: plan.Header.Format, Content: plan.Header.Content})
	if err != nil {
		return r, err
	}
	bar := a.newProgress("restore", int64(plan.Keys), false)
	r = control.Restored{Store: dir, LSN: plan.Header.LSN, Keys: plan.Keys}
	err = s.fill(ctx, a, plan, cancelled(ctx, files), bar, forget, &r)
	bar.done()
	if err != nil {
		for _, name := range []string{formatFile, badgerDir, logDir, segmentDir, restoringFile, lockFile} {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
		if ctx.Err() != nil {
			err = control.Errorf(control.KindInterrupted, "interrupted; nothing is left of what was begun")
		}
		return r, errors.Join(kinded(err), s.lock.Close())
	}
	r.Millis = time.Since(start).Milliseconds()
	return r, s.lock.Close()
}

// emptyStore takes the lock of a directory that is empty, or is made.
func emptyStore(dir string, info storeInfo) (*store, error) {
	if info.Format != storeFormat {
		return nil, control.Errorf(control.KindInvalid, "the backup is of a store of format %d, and this warren reads format %d", info.Format, storeFormat)
	}
	known := false
	for _, c := range contents {
		known = known || c == info.Content
	}
	if !known {
		return nil, control.Errorf(control.KindInvalid, "the backup is of a store with %q content, which this warren does not know", info.Content)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, localError(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, localError(err)
	}
	if len(entries) > 0 {
		if err := restoring(dir); err != nil {
			s := &store{dir: dir}
			if terr := s.take(); terr != nil {
				return nil, terr // it is under way
			}
			return nil, errors.Join(err, s.lock.Close())
		}
		return nil, control.Errorf(control.KindConflict, "%s is not empty; a store is restored into an empty directory", dir)
	}
	s := &store{dir: dir, info: info}
	if err := s.owned(); err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	if err := writeSynced(filepath.Join(dir, restoringFile), nil); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// fill writes what the backups have, checks it, and makes the directory a store. r
// gets the number of mounts, and of problems: invariants that did not hold in the
// store when it was backed up.
func (s *store) fill(ctx context.Context, a *app, plan *backup.Plan, files []io.Reader, bar *progress, forget bool, r *control.Restored) error {
	log := offlineLog(a.stderr)
	if err := s.openKeys(ctx, log); err != nil {
		return err
	}
	err := backup.Restore(ctx, files, plan, backup.Target{Store: s.kv, Content: s.content}, func(n uint64) { bar.of(int64(n), 0) })
	if err == nil {
		r.Mounts, err = workspace.StoredMounts(ctx, s.kv, forget)
	}
	if forget {
		r.Mounts = 0
	}
	if err == nil {
		err = tree.Check(ctx, s.kv, s.content, tree.CheckOptions{}, func(tree.Problem) { r.Problems++ })
	}
	if err = errors.Join(err, s.kv.Close()); err != nil {
		return err
	}
	text := fmt.Appendf(nil, "{\"format\":%d,\"content\":%q}\n", s.info.Format, s.info.Content)
	if err := writeSynced(filepath.Join(s.dir, formatFile), text); err != nil {
		return err
	}
	return os.Remove(filepath.Join(s.dir, restoringFile)) // it means nothing beside a format
}
