package writeback

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Options of a Store. Driver and Dir are needed; the rest is useful at zero.
type Options struct {
	// Driver keeps what is committed. It belongs to the Store once Open
	// returned one: Close closes it. Nothing else may write to it.
	Driver backend.Store
	// Dir is the directory of the log's files, made if it is not there. It
	// holds nothing else and belongs to one store.
	Dir string
	// FS replaces the directory of the operating system, for tests; Dir is
	// then only shown in messages.
	FS dirfs.FS
	// Log takes messages; nil discards them.
	Log *slog.Logger

	// Bulk, if there is one, keeps bytes that Updates name outside.
	Bulk Bulk

	// SyncAge is how old an Update may get before it is synced without being
	// asked. 0: 1 s.
	SyncAge time.Duration
	// CommitAge is how old an Update may get before it is committed to the
	// driver. 0: 2 s.
	CommitAge time.Duration
	// CommitBytes of pending Updates start a commit before their time. 0: 8
	// MiB, or a quarter of MaxPending if that is less.
	CommitBytes int64
	// MaxPending bounds the memory for pending Updates, in bytes: Updates wait
	// while it is passed, so it is passed by one Update at most. 0: 64 MiB.
	MaxPending int64
	// LogFileSize is the size that log files are allocated with and mostly
	// keep to, in bytes. 0: 64 MiB.
	LogFileSize int64

	// AcceptLoss opens a store whose log is damaged or does not belong to it:
	// what precedes the damage is kept, the files concerned are renamed to
	// *.damaged. What was lost is told in Log.
	AcceptLoss bool
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.SyncAge, time.Second)
	setDefault(&o.CommitAge, 2*time.Second)
	setDefault(&o.MaxPending, 64<<20)
	setDefault(&o.CommitBytes, min(8<<20, o.MaxPending/4))
	setDefault(&o.LogFileSize, 64<<20)
	return o
}

func setDefault[T time.Duration | int64](p *T, value T) {
	if *p <= 0 {
		*p = value
	}
}

// Store is a backend.Logged over a driver. Open makes one.
type Store struct {
	driver backend.Store
	log    *slog.Logger
	opts   Options
	dir    logDir

	// writer holds a token while an Update runs, or something else that needs
	// Updates to wait: the writer's lock. It guards set.
	writer chan struct{}
	set    changeSet

	work   work
	meters meters

	mu         sync.Mutex
	over       overlay
	views      views
	redo       redo
	commit     commitState
	calls      calls
	complaints complaints
	refused    error // of the last write of a record; changed by the writer, under mu
}

var _ backend.Logged = (*Store)(nil)

// work is the store's goroutines: the syncer and the committer.
type work struct {
	group      sync.WaitGroup
	stop       chan struct{} // closed to end them
	wakeSync   chan struct{} // makes the syncer look again
	wakeCommit chan struct{} // makes the committer look again
}

// View runs fn on a snapshot. fn may call the store, but for Close.
func (s *Store) View(ctx context.Context, fn func(backend.Tx) error) error {
	if ctx.Err() != nil {
		return interrupted(ctx, "view")
	}
	t := &tx{s: s, ctx: ctx, pinned: true}
	s.mu.Lock()
	if !s.calls.enter() {
		s.mu.Unlock()
		return unavailable("view")
	}
	t.snap = s.over.snapshot()
	s.over.pin(t.snap)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.release(t)
		s.calls.leave()
		s.mu.Unlock()
	}()
	return fn(t)
}

// Update is UpdateFrom without an origin.
func (s *Store) Update(ctx context.Context, fn func(backend.Tx) error) (backend.LSN, error) {
	return s.UpdateFrom(ctx, backend.Origin{}, fn)
}

// UpdateFrom runs fn, alone among Updates, and makes its changes take effect
// once they are in the log. An Update that changes nothing gives the number of
// the last one. Where the log's disk is full, everything pending is committed to
// make room and fn runs again.
//
// While more than MaxPending is pending it waits for the committer before it
// runs fn; callers may hold locks meanwhile, the committer needs none of
// theirs. That wait ends with NoSpace when the driver is full, with IO after
// some seconds of failing commits, with Interrupted when ctx is done.
//
// Other errors: fn's own; NoSpace or IO when the log cannot be written: then
// nothing took effect.
func (s *Store) UpdateFrom(ctx context.Context, o backend.Origin, fn func(backend.Tx) error) (backend.LSN, error) {
	if err := s.enter(ctx, "update"); err != nil {
		return 0, err
	}
	defer s.leave()
	lsn, logged, err := s.update(ctx, o, fn)
	if !logged && dirfs.Full(err) && s.flush(ctx) == nil {
		lsn, _, err = s.update(ctx, o, fn)
	}
	return lsn, err
}

// update is UpdateFrom once. logged is false if it failed because the log could
// not be written.
func (s *Store) update(ctx context.Context, o backend.Origin, fn func(backend.Tx) error) (lsn backend.LSN, logged bool, err error) {
	if err := s.waitForRoom(ctx); err != nil {
		return 0, true, err
	}
	defer s.unlockWriter()
	s.set.reset()
	t := &tx{s: s, ctx: ctx, own: &s.set}
	defer func() {
		t.done = true
		if t.view != nil {
			s.mu.Lock()
			s.release(t)
			s.mu.Unlock()
		}
	}()
	if err := fn(t); err != nil {
		return 0, true, err
	}
	t.done = true
	if s.set.live == 0 {
		return s.LastLSN(), true, nil
	}
	p := s.set.record(o, s.over.last+1) // last changes under the writer's lock alone
	if err := s.appendLog(p); err != nil {
		return 0, false, err
	}
	s.publish(p)
	return p.lsn, true, nil
}

// publish makes a logged Update take effect; writer held.
func (s *Store) publish(p *op) {
	p.at = time.Now()
	half := s.opts.LogFileSize / 2
	s.mu.Lock()
	defer s.mu.Unlock()
	cur := s.redo.cur
	before := cur.tail
	cur.tail += int64(len(p.rec))
	cur.last = p.lsn
	s.redo.dirtyBytes += int64(len(p.rec))
	clean, empty := s.durable() == s.over.last, len(s.over.queue) == 0
	s.over.add(p)
	if clean || before < half && cur.tail >= half || s.redo.dirtyBytes >= s.opts.dirtyLimit() {
		wake(s.work.wakeSync)
	}
	if empty || s.over.bytes >= s.opts.CommitBytes && !s.commit.draining {
		wake(s.work.wakeCommit)
	}
}

// lockWriter takes the writer's lock. Error: Interrupted.
func (s *Store) lockWriter(ctx context.Context, op string) error {
	select {
	case s.writer <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return interrupted(ctx, op)
	}
}

func (s *Store) unlockWriter() { <-s.writer }

// waitForRoom takes the writer's lock while no more than MaxPending is pending.
func (s *Store) waitForRoom(ctx context.Context) error {
	for {
		if err := s.lockWriter(ctx, "update"); err != nil {
			return err
		}
		s.mu.Lock()
		if s.over.bytes <= s.opts.MaxPending {
			s.mu.Unlock()
			return nil
		}
		next, err := s.commit.next(), s.noRoom()
		s.mu.Unlock()
		s.unlockWriter()
		if err != nil {
			return err
		}
		select {
		case <-next:
		case <-s.calls.closing:
			return unavailable("update")
		case <-ctx.Done():
			return s.gaveUp(ctx)
		}
	}
}

// noRoom is why waiting for room is no use, or nil; mu held.
func (s *Store) noRoom() error {
	c := &s.commit
	switch {
	case c.err == nil:
		return nil
	case backend.KindOf(c.err) == backend.NoSpace:
		return &backend.Error{Op: "update", Kind: backend.NoSpace, Err: c.err}
	case time.Since(c.failing) > fullGrace:
		return dirfs.Error("update", "", c.err)
	}
	return nil
}

// gaveUp is the error of an Update whose ctx ended while it waited for room.
func (s *Store) gaveUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commit.err != nil {
		return &backend.Error{Op: "update", Kind: backend.IO,
			Err: fmt.Errorf("commits to the driver fail: %w (%w)", s.commit.err, ctx.Err())}
	}
	return interrupted(ctx, "update")
}

// WaitDurable returns when all Updates up to lsn are on disk, in the log or in
// the driver. All that wait share one sync of the log. Errors: IO when the sync
// failed and a new log could not be written either; Invalid for an LSN that no
// Update has; Interrupted; Unavailable.
func (s *Store) WaitDurable(ctx context.Context, lsn backend.LSN) error {
	if err := s.enter(ctx, "wait durable"); err != nil {
		return err
	}
	defer s.leave()
	if last := s.LastLSN(); lsn > last {
		return &backend.Error{Op: "wait durable", Kind: backend.Invalid,
			Err: fmt.Errorf("LSN %d; the last update has %d", lsn, last)}
	}
	return s.makeDurable(ctx, lsn)
}

// Sync makes everything durable that took effect before the call. Errors as WaitDurable.
func (s *Store) Sync(ctx context.Context) error { return s.WaitDurable(ctx, s.LastLSN()) }

// LastLSN is the number of the last Update; 0: there is none yet.
func (s *Store) LastLSN() backend.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over.last
}
