package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
	"golang.org/x/sys/unix"
)

// storeFormat is the version of a store's layout and records (docs/format.md).
const storeFormat = 1

// The names in a store's directory.
const (
	formatFile = "format"
	lockFile   = "lock"
	badgerDir  = "badger"
	logDir     = "log"
	segmentDir = "segments"

	restoringFile = "restoring" // while restore-store writes, before there is a format
)

// The drivers of bulk content.
const (
	contentSegment = "segment"
	contentBadger  = "badger"
)

// contents are the drivers that a store may be made with, the default first.
var contents = []string{contentSegment, contentBadger}

// storeInfo is what the file `format` says.
type storeInfo struct {
	Format  int    `json:"format"`
	Content string `json:"content"` // driver of bulk content
}

// store is an open store, held under its lock.
type store struct {
	dir   string
	info  storeInfo
	lock  *os.File
	kv    backend.Logged
	tree  *tree.Tree
	feed  *feed.Feed
	clock *uptime.Clock

	content backend.Content  // bound to kv
	wb      *writeback.Store // in kv

	plan    diskPlan
	driver  *badger.Store
	pending func() int64 // bytes on the way into driver

	acceptLoss bool // open with what is left of a damaged log
	mending    bool // open with damaged counts, and remove nothing by them
}

// newStore says what openStore may make. The zero value: nothing.
type newStore struct {
	Make    bool
	Content string // driver of bulk content of a store that is made; empty: segment
	Feed    feed.Options
}

// openStore takes a store's lock and opens it. With create.Make, a directory that is
// missing or empty becomes a new store. Kinds: NotFound (no store there),
// Conflict (another process has it, or it was made with other content than is
// asked for), Invalid (another format).
func openStore(ctx context.Context, dir string, create newStore, log *slog.Logger) (*store, error) {
	if create.Make {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, localError(err)
		}
	}
	s := &store{dir: dir}
	if err := s.owned(); err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	if err := s.open(ctx, create, log); err != nil {
		_ = s.lock.Close()
		return nil, err
	}
	return s, nil
}

// owned refuses a store of another user: opening one writes to it, and what root
// wrote its own daemon could not open any more.
func (s *store) owned() error {
	var st unix.Stat_t
	if err := unix.Stat(s.dir, &st); err != nil {
		return nil // take says what is wrong
	}
	if me := os.Geteuid(); st.Uid != uint32(me) {
		return control.Errorf(control.KindDenied, "the store %s belongs to uid %d and this is uid %d; run warren as that user", s.dir, st.Uid, me)
	}
	return nil
}

// take locks the store for this process. The lock goes with the process; see
// lockFree for one that was killed.
func (s *store) take() error {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return noStore(s.dir)
	}
	if err != nil {
		return localError(err)
	}
	holder, err := lockFree(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = f.Close()
		return control.Errorf(control.KindConflict, "the store %s is open in another process (%s); a store has one daemon, so stop that one first", s.dir, holder)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(fmt.Sprintf("%-10d\n", os.Getpid())), 0)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("lock the store %s: %w", s.dir, err)
	}
	s.lock = f
	return nil
}

func noStore(dir string) error {
	return control.Errorf(control.KindNotFound, "no store at %s; make one with `warren init --store %s`", dir, dir)
}

func (s *store) open(ctx context.Context, create newStore, log *slog.Logger) error {
	if err := s.readFormat(create); err != nil {
		return err
	}
	if err := s.openKeys(ctx, log); err != nil {
		return err
	}
	s.clock = uptime.System()
	err := workspace.ResumeClock(ctx, s.kv, s.clock)
	if err != nil {
		log.Warn("what the daemon before knew of the time that has really passed is lost; the wall clock is believed", "err", err)
	}
	create.Feed.Clock = s.clock
	create.Feed.Log, create.Feed.Full = log.With("part", "feed"), func() bool {
		free, _ := s.disk()
		return free == 0
	}
	s.feed, err = feed.Open(ctx, s.kv, create.Feed)
	if err != nil {
		return errors.Join(fmt.Errorf("open the store %s: %w", s.dir, err), s.kv.Close())
	}
	s.tree, err = tree.Open(ctx, tree.Options{Store: s.kv, Content: s.content, Log: log.With("part", "tree"), Feed: s.feed,
		FreeBytes: s.disk, Failure: s.moved, ComingBytes: s.coming})
	if err != nil {
		return errors.Join(fmt.Errorf("open the store %s: %w", s.dir, err), s.feed.Close(), s.kv.Close())
	}
	if bound, ok := s.kv.(*segment.Store); ok {
		bound.SetRelocator(s.tree)
	}
	return nil
}

// openKeys opens what is below the tree: driver, log and content.
func (s *store) openKeys(ctx context.Context, log *slog.Logger) error {
	_, total := statDisk(s.dir)
	s.plan = planDisk(total).fitMemory(debug.SetMemoryLimit(-1))
	kv, err := badger.Open(ctx, badger.Options{Dir: filepath.Join(s.dir, badgerDir), Ballast: s.plan.ballast, Log: log.With("part", "badger")})
	if err != nil {
		return fmt.Errorf("open the store %s: %w", s.dir, err)
	}
	s.driver = kv
	kv.MakeRoom(s.plan.logFile)
	s.content, err = s.openContent(ctx, kv, log)
	if err != nil {
		return fmt.Errorf("open the store %s: %w", s.dir, err)
	}
	return nil
}

var _ segment.Relocator = (*tree.Tree)(nil)

// openContent opens the log over kv and the content that goes with it, and sets
// s.kv. After an error kv is closed.
func (s *store) openContent(ctx context.Context, kv backend.Store, log *slog.Logger) (backend.Content, error) {
	o := writeback.Options{Driver: kv, Dir: filepath.Join(s.dir, logDir), Log: log.With("part", "log"),
		MaxPending: s.plan.pending, LogFileSize: s.plan.logFile, AcceptLoss: s.acceptLoss}
	if s.info.Content == contentBadger {
		wb, err := writeback.Open(ctx, o)
		if err != nil {
			return nil, errors.Join(s.logFailed(err), kv.Close())
		}
		s.kv, s.wb, s.pending = wb, wb, pendingOf(wb)
		return badger.Content{}, nil
	}
	total := s.driver.Space().Total
	c, err := segment.Open(segment.Options{Dir: filepath.Join(s.dir, segmentDir), Log: log.With("part", "segments"), Logged: true, Mending: s.mending,
		Reserve: min(maxReserve, total/16), Ballast: segmentBallast})
	if err != nil {
		return nil, errors.Join(err, kv.Close())
	}
	o.Bulk = c
	wb, err := writeback.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(s.logFailed(err), c.Close(), kv.Close())
	}
	bound, err := c.Bind(ctx, wb)
	if err != nil {
		return nil, errors.Join(err, wb.Close(), c.Close())
	}
	s.kv, s.wb, s.pending = bound, wb, pendingOf(wb)
	return c, nil
}

// Bytes that stay free of bulk content, whatever the tree lets through, less on
// a small disk; and that are kept for what a recovery on a full disk writes anew.
const (
	maxReserve     = 256 << 20
	segmentBallast = 4 << 20
)

// readFormat checks what the directory is, or makes it a store.
func (s *store) readFormat(create newStore) error {
	path := filepath.Join(s.dir, formatFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := restoring(s.dir); err != nil {
			return err
		}
		if !create.Make {
			return errors.Join(noStore(s.dir), os.Remove(filepath.Join(s.dir, lockFile)))
		}
		return s.writeFormat(path, create)
	}
	if err != nil {
		return localError(err)
	}
	var any struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &any); err != nil {
		return control.Errorf(control.KindInvalid, "%s is damaged: %v", path, err)
	}
	if any.Format != storeFormat {
		return control.Errorf(control.KindInvalid, "the store %s has format %d and this warren reads format %d; use the version that wrote it",
			s.dir, any.Format, storeFormat)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s.info); err != nil {
		return control.Errorf(control.KindInvalid, "%s is damaged: %v", path, err)
	}
	switch {
	case !slices.Contains(contents, s.info.Content):
		return control.Errorf(control.KindInvalid, "the store %s keeps content by %q, which this warren does not know", s.dir, s.info.Content)
	case create.Content != "" && create.Content != s.info.Content:
		return control.Errorf(control.KindConflict, "the store %s was made with %s content, and that stays", s.dir, s.info.Content)
	}
	return nil
}

// errRestoring is in the error of a command on a store that was never whole.
var errRestoring = errors.New("a restore into it was interrupted")

// restoring returns an error if restore-store was killed while it wrote dir.
func restoring(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, restoringFile)); err != nil {
		return nil
	}
	return fmt.Errorf("%s is no store: %w, and what is there is not whole; remove the directory and run `warren restore-store` again", dir, errRestoring)
}

// writeFormat makes an empty directory a store. It is the first thing written.
func (s *store) writeFormat(path string, create newStore) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return localError(err)
	}
	for _, e := range entries {
		if e.Name() != lockFile && e.Name() != formatFile+".tmp" {
			return control.Errorf(control.KindConflict, "%s is not empty and not a store; choose another directory", s.dir)
		}
	}
	s.info = storeInfo{Format: storeFormat, Content: create.Content}
	if s.info.Content == "" {
		s.info.Content = contents[0]
	}
	b, err := json.Marshal(s.info)
	if err != nil {
		return err
	}
	return writeSynced(path, append(b, '\n'))
}

// writeSynced writes a small file whole or not at all, and to the disk.
func writeSynced(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return localError(err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// check is fsck of an open store.
func (s *store) check(ctx context.Context, progress func(done, total uint64), report func(control.Problem)) error {
	if err := s.checkLog(report); err != nil {
		return err
	}
	return s.tree.Check(ctx, tree.CheckOptions{Content: true, Progress: progress}, func(p tree.Problem) {
		report(problem(p))
	})
}

// checkLog reports the files of the log that were set aside.
func (s *store) checkLog(report func(control.Problem)) error {
	aside, err := s.wb.SetAside()
	if err != nil {
		return err
	}
	for _, name := range aside {
		report(control.Problem{Path: name, Text: "a log file that was set aside: it is damaged, or has changes behind one that is missing; " +
			"compare with a backup, then move it out of the store"})
	}
	return nil
}

// problem is p as the API has it.
func problem(p tree.Problem) control.Problem {
	out := control.Problem{Path: p.Path, Text: p.Text, Inode: uint64(p.Ino)}
	if p.Volume != 0 {
		out.Volume = fmt.Sprintf("%x", uint32(p.Volume))
	}
	return out
}

// Close makes everything durable and lets go of the store.
func (s *store) Close() error {
	return errors.Join(s.tree.Close(), s.feed.Close(), s.kv.Close(), s.lock.Close())
}

// logFailed adds the way out to the error of a log that does not open.
func (s *store) logFailed(err error) error {
	if backend.KindOf(err) != backend.IO || s.acceptLoss {
		return err
	}
	return fmt.Errorf("%w\nRestore a backup, or go on with what is left (changes after the damage are lost): warren fsck --store %s --repair --accept-loss", err, s.dir)
}
