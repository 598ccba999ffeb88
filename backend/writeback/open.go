package writeback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Open opens the store: it reads the log and makes what the driver lacks
// pending again. On an error the driver stays the caller's.
//
// Errors: IO for a log that is damaged, missing, or of another store (the text
// names the file and the way out, Options.AcceptLoss); Unsupported for another
// format version; NoSpace when no log file can be made; Invalid without a
// driver or directory; those of the driver.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if o.Driver == nil || o.Dir == "" && o.FS == nil {
		return nil, &backend.Error{Op: "open log", Kind: backend.Invalid, Err: errors.New("Options need a Driver and a Dir")}
	}
	if o.FS == nil {
		fs, err := dirfs.Open(o.Dir)
		if err != nil {
			return nil, err
		}
		o.FS = fs
	}
	s := &Store{
		driver: o.Driver, log: o.Log, opts: o, dir: logDir{fs: o.FS, path: o.Dir, run: o.FS.Run()},
		writer: make(chan struct{}, 1),
		work:   work{stop: make(chan struct{}), wakeSync: make(chan struct{}, 1), wakeCommit: make(chan struct{}, 1)},
		views:  views{driver: o.Driver},
	}
	s.calls.init()
	if err := s.start(ctx); err != nil {
		s.mu.Lock()
		s.views.shut()
		s.mu.Unlock()
		s.views.running.Wait()
		return nil, err
	}
	return s, nil
}

// start recovers the store and starts its goroutines.
func (s *Store) start(ctx context.Context) error {
	var st storeState
	err := s.driver.View(ctx, func(tx backend.Tx) (err error) {
		if st, err = loadState(tx); err == nil {
			st.generation, err = loadGeneration(tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	files, err := s.readLog(st)
	if err != nil {
		return err
	}
	synced, err := s.judgeParts(st, files)
	if err != nil {
		if !s.opts.AcceptLoss {
			return err
		}
		s.log.Error("the parts of the store are not of one copy", "err", err)
	}
	got, err := s.recover(st, files, synced)
	if err != nil {
		return err
	}
	if !st.found {
		_, _ = rand.Read(st.id[:]) // never fails
	}
	if err := s.verify(got); err != nil {
		return err
	}
	s.dir.id = st.id
	s.dir.parts.begin(st)
	s.adopt(st, files, got)
	if err := s.firstFile(ctx); err != nil {
		return err
	}
	err = s.markParts()
	if err == nil && !st.found {
		err = s.saveState(ctx, st)
	}
	if err == nil {
		err = s.setAside(files, got)
	}
	if err != nil {
		return errors.Join(err, s.redo.cur.f.Close(), s.dir.parts.close())
	}
	s.work.group.Go(s.syncer)
	s.work.group.Go(s.committer)
	return nil
}

// saveState makes a new store's identity durable, after its log is there.
func (s *Store) saveState(ctx context.Context, st storeState) error {
	lsn, err := s.driver.Update(ctx, st.save)
	if err != nil {
		return err
	}
	return s.driver.WaitDurable(ctx, lsn)
}

// readLog reads all files of the log, ascending by sequence number.
func (s *Store) readLog(st storeState) ([]*scannedFile, error) {
	names, err := s.dir.fs.List()
	if err != nil {
		return nil, dirfs.Error("read log directory", s.dir.path, err)
	}
	slices.Sort(names)
	s.redo.nextSeq = 1
	var files []*scannedFile
	for _, name := range names {
		if seq, ok := nameSeq(name); ok { // never a name that a file has or had
			s.redo.nextSeq = max(s.redo.nextSeq, seq+1)
		}
		switch {
		case isTmp(name): // never took effect
			if err := s.dir.fs.Remove(name); err != nil {
				return nil, dirfs.Error("remove unfinished log file", s.dir.in(name), err)
			}
		case isLog(name):
			f, err := s.readFile(name, st)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	slices.SortStableFunc(files, func(a, b *scannedFile) int {
		switch {
		case a.seq < b.seq:
			return -1
		case a.seq > b.seq:
			return 1
		}
		return 0
	})
	return files, nil
}

// readFile scans one file. A file that is not one of this store is an error, or
// with AcceptLoss an empty one.
func (s *Store) readFile(name string, st storeState) (*scannedFile, error) {
	file, err := s.dir.fs.Open(name)
	if err != nil {
		return nil, dirfs.Error("open log", s.dir.in(name), err)
	}
	defer file.Close()
	data, err := readWhole(file, s.opts.AcceptLoss)
	if err != nil && data == nil {
		return nil, dirfs.Error("open log", s.dir.in(name), fmt.Errorf("%w; AcceptLoss opens with what can be read", err))
	}
	unread := err
	f, err := scanFile(data, st.committed)
	if err == nil && !st.found && len(f.records) > 0 {
		err = &backend.Error{Kind: backend.IO, Err: fmt.Errorf("it has records of store %v, and the driver is new and empty", f.store)}
	}
	if err == nil && st.found && f.store != st.id {
		err = &backend.Error{Kind: backend.IO, Err: fmt.Errorf("it belongs to store %v, and the driver to store %v", f.store, st.id)}
	}
	if err == nil {
		if unread != nil {
			s.log.Error("a part of a log file cannot be read", "file", s.dir.in(name), "err", unread)
		}
		f.name, f.path, f.aside = name, s.dir.in(name), unread != nil
		return f, nil
	}
	if s.opts.AcceptLoss {
		s.log.Error("log file is set aside", "file", s.dir.in(name), "err", err)
		return &scannedFile{name: name, path: s.dir.in(name), aside: true}, nil
	}
	kind, cause := backend.KindOf(err), err
	if e, ok := err.(*backend.Error); ok {
		cause = e.Err
	}
	return nil, &backend.Error{Op: "open log", Path: s.dir.in(name), Kind: kind,
		Err: fmt.Errorf("%w; AcceptLoss opens without this file and keeps it as *%s", cause, damagedSuffix)}
}

// recover judges what the files hold.
func (s *Store) recover(st storeState, files []*scannedFile, synced backend.LSN) (*recovered, error) {
	got := assemble(files, st.committed, synced, s.dir.run)
	if got.damage == nil && st.found && len(files) == 0 {
		got.damage = &backend.Error{Op: "open log", Path: s.dir.path, Kind: backend.IO,
			Err: errors.New("there are no log files, and every store that was opened before has one; AcceptLoss opens with what the driver has")}
	}
	if got.damage != nil {
		if !s.opts.AcceptLoss {
			return nil, got.damage
		}
		s.log.Error("log is damaged; updates are lost", "err", got.damage, "kept", len(got.ops), "lost", got.unsynced)
	}
	if len(got.ops) > 0 || got.dropped > 0 {
		level := slog.LevelInfo
		if len(got.behind) > 0 {
			level = slog.LevelWarn // no power cut did that: they stay in a file that is set aside
		}
		s.log.Log(context.Background(), level, "log recovered", "driver", uint64(st.committed), "updates", len(got.ops),
			"dropped bytes", got.dropped, "dropped updates", got.unsynced)
	}
	return got, nil
}

// adopt makes what was recovered the store's state.
func (s *Store) adopt(st storeState, files []*scannedFile, got *recovered) {
	s.commit.committed = st.committed
	s.over.init(st.committed)
	now := time.Now()
	for _, p := range got.ops {
		p.at = now
		s.over.add(p)
	}
	for _, f := range files {
		s.redo.nextSeq = max(s.redo.nextSeq, f.seq+1)
	}
}

// firstFile starts the new log with all that is pending. What the old files
// hold counts as durable only from here on: the process before may have been
// told that a sync failed, and what can be read may be in the page cache only.
// Where there is no room for that, the driver takes it all first.
func (s *Store) firstFile(ctx context.Context) error {
	err := s.newLog()
	if err == nil || len(s.over.queue) == 0 {
		return err
	}
	s.log.Warn("no room for a new log; committing the old one first", "err", err)
	for len(s.over.queue) > 0 {
		b := newBatch(s.over.queue[:min(len(s.over.queue), maxBatch)])
		if err := s.commitDriver(b); err != nil {
			return err
		}
		s.commit.committed = b.last
		s.over.pop(b.last)
		if ctx.Err() != nil {
			return interrupted(ctx, "open store")
		}
	}
	s.over.init(s.commit.committed)
	return s.newLog()
}

// newLog makes the first file of this run.
func (s *Store) newLog() error {
	if err := s.syncLoose(); err != nil {
		return err
	}
	h := s.newHeader(s.redo.takeSeq(), s.commit.committed+1)
	lf, err := s.dir.create(h, s.opts.LogFileSize, s.over.queue, s.over.last)
	if err != nil {
		if lf != nil {
			_ = lf.f.Close() // complete, so the next Open may find it
		}
		return err
	}
	s.redo.cur, s.redo.synced = lf, s.over.last
	s.redo.limit = max(s.opts.LogFileSize, lf.tail+s.opts.LogFileSize/2)
	return nil
}

// SetAside returns the files of the log that an Open set aside: they are damaged, or
// have Updates behind one that is missing, which no power cut took. Nothing removes them.
func (s *Store) SetAside() ([]string, error) {
	names, err := s.dir.fs.List()
	if err != nil {
		return nil, dirfs.Error("read log directory", s.dir.path, err)
	}
	var aside []string
	for _, name := range names {
		if strings.HasSuffix(name, damagedSuffix) {
			aside = append(aside, s.dir.in(name))
		}
	}
	slices.Sort(aside)
	return aside, nil
}

// setAside removes the old files, and keeps under other names the damaged ones and
// those with Updates behind one that is missing, though there was no power cut.
func (s *Store) setAside(files []*scannedFile, got *recovered) error {
	for _, f := range files {
		var err error
		if f.aside || slices.Contains(got.damagedIn, f) || slices.Contains(got.behind, f) {
			err = s.dir.fs.Rename(f.name, f.name+damagedSuffix)
		} else {
			err = s.dir.fs.Remove(f.name)
		}
		if err != nil {
			return dirfs.Error("put away old log file", f.path, err)
		}
	}
	if err := s.dir.fs.SyncDir(); err != nil {
		return dirfs.Error("sync log directory", s.dir.path, err)
	}
	return nil
}
