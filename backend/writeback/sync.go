package writeback

import (
	"context"
	"errors"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// durable is the newest Update that would survive a power cut; mu held.
func (s *Store) durable() backend.LSN { return max(s.redo.synced, s.commit.committed) }

// lockSync waits until no sync of the log runs and makes others wait: of two
// syncs of one file at once only one would be told of an error. mu not held.
func (s *Store) lockSync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.redo.syncing != nil {
		ch := s.redo.syncing
		s.mu.Unlock()
		<-ch
		s.mu.Lock()
	}
	s.redo.syncing = make(chan struct{})
}

// unlockSync ends lockSync and records how the sync went: all Updates up to
// last are on disk, or the current file proves nothing any more. mu not held.
func (s *Store) unlockSync(err error, last backend.LSN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.redo
	if err == nil {
		r.synced = max(r.synced, last)
		r.syncs++
	} else {
		r.failures++
		if r.failed == nil {
			r.failed = dirfs.Error("sync log file", s.dir.in(r.cur.name), err)
		}
	}
	r.endSync()
}

// endSync lets others sync; mu held.
func (r *redo) endSync() {
	close(r.syncing)
	r.syncing = nil
}

// syncLog makes the Updates up to lsn durable by syncing the current file. All
// that wait share a sync: the first does it, those that come while it runs and
// need a newer Update share the next. The error is that of the file, a looseError,
// or Interrupted.
func (s *Store) syncLog(ctx context.Context, lsn backend.LSN) error {
	s.mu.Lock()
	for {
		switch ch := s.redo.syncing; {
		case s.durable() >= lsn:
			s.mu.Unlock()
			return nil
		case s.redo.failed != nil:
			err := s.redo.failed
			s.mu.Unlock()
			return err
		case ch != nil:
			s.mu.Unlock()
			select {
			case <-ch:
			case <-ctx.Done():
				return interrupted(ctx, "wait durable")
			}
			s.mu.Lock()
			continue
		}
		break
	}
	s.redo.syncing = make(chan struct{})
	cur, last := s.redo.cur, s.over.last
	s.redo.dirtyBytes = 0 // of a sync that fails nothing counts any more
	s.mu.Unlock()
	if err := s.syncLoose(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.redo.failures++
		s.redo.endSync()
		return err
	}
	start := time.Now()
	err := cur.f.Sync()
	if err != nil && s.leftBehind(cur) {
		err = nil
	}
	s.meters.sync.Observe(time.Since(start))
	if err == nil {
		s.noteSynced(last)
	}
	s.unlockSync(err, last)
	if err != nil {
		s.complain(&s.complaints.sync, "log sync failed; all pending updates go to a new file", "err", err)
	}
	return err
}

// leftBehind tells whether records go to another file than lf by now: then all that
// is in lf was durable before, in the driver, and it may be closed and gone.
func (s *Store) leftBehind(lf *logFile) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.redo.cur != lf
}

// makeDurable runs syncLog, and recovers the log if that fails: a file whose sync failed
// is never trusted again, all pending Updates go to a new one. Errors: IO, NoSpace, DiskReadOnly, Interrupted.
func (s *Store) makeDurable(ctx context.Context, lsn backend.LSN) error {
	for {
		err := s.syncLog(ctx, lsn)
		if err == nil || backend.KindOf(err) == backend.Interrupted {
			return err
		}
		if loose := (looseError{}); errors.As(err, &loose) { // no fault of the log's
			return loose.error
		}
		if err := s.recoverLog(ctx); err != nil {
			if backend.KindOf(err) == backend.Interrupted {
				return err
			}
			return dirfs.Error("wait durable", "", err)
		}
	}
}

// recoverLog replaces a log whose sync failed. Of all that wait for that one
// tries, and the others share what came of it.
func (s *Store) recoverLog(ctx context.Context) error {
	s.mu.Lock()
	tries := s.redo.tries
	s.mu.Unlock()
	if err := s.lockWriter(ctx, "wait durable"); err != nil {
		return err
	}
	defer s.unlockWriter()
	s.mu.Lock()
	failed, tried := s.redo.failed, s.redo.tries != tries
	s.mu.Unlock()
	if failed == nil || tried {
		return failed
	}
	return s.replaceLog()
}

// syncer makes Updates durable once they are SyncAge old, and log files ahead
// of need. It ends when work.stop is closed.
func (s *Store) syncer() {
	for {
		s.prepareSpare()
		due, any := s.syncDue()
		if any && !due.After(time.Now()) {
			s.syncByAge()
			continue
		}
		if !s.wait(s.work.wakeSync, due, any) {
			return
		}
	}
}

// syncDue is when the oldest Update that is not durable must become so, or the
// log's tail be mended.
func (s *Store) syncDue() (due time.Time, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	retry := s.redo.byAge.next(s.opts.SyncAge)
	if s.redo.dirty {
		return retry, true
	}
	if s.over.last <= s.durable() {
		return due, false
	}
	if s.redo.dirtyBytes >= s.opts.dirtyLimit() {
		return retry, true
	}
	q := s.over.queue
	oldest := q[s.durable()+1-q[0].lsn] // the queue has no gaps and starts at or before it
	return maxTime(oldest.at.Add(s.opts.SyncAge), retry), true
}

func (s *Store) syncByAge() {
	ctx := context.Background()
	s.mu.Lock()
	last, dirty := s.over.last, s.redo.dirty
	s.mu.Unlock()
	var err error
	if dirty {
		err = s.mendTail(ctx)
	} else {
		err = s.makeDurable(ctx, last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.redo.byAge = pace{}
		return
	}
	s.redo.byAge.missed++
	s.redo.byAge.tried = time.Now()
}

// mendTail replaces a log whose tail may hold an Update that failed.
func (s *Store) mendTail(ctx context.Context) error {
	if err := s.lockWriter(ctx, "mend log"); err != nil {
		return err
	}
	defer s.unlockWriter()
	if !s.redo.dirty {
		return nil
	}
	return s.replaceLog()
}

// next is when the next try may start: at once, or up to 32 steps after one that failed.
func (p pace) next(step time.Duration) time.Time {
	if p.missed == 0 {
		return time.Time{}
	}
	return p.tried.Add(step << min(p.missed, 5))
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait blocks until wake, or due if there is one. It is false at the end of the store.
func (s *Store) wait(wake <-chan struct{}, due time.Time, any bool) bool {
	var alarm <-chan time.Time
	if any {
		t := time.NewTimer(time.Until(due))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-s.work.stop:
		return false
	case <-wake:
	case <-alarm:
	}
	select {
	case <-s.work.stop:
		return false
	default:
		return true
	}
}

func interrupted(ctx context.Context, op string) error {
	return &backend.Error{Op: op, Kind: backend.Interrupted, Err: ctx.Err()}
}

func unavailable(op string) error {
	return &backend.Error{Op: op, Kind: backend.Unavailable, Err: errors.New("the store is closed")}
}
