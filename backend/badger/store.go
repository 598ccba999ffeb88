package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
	"github.com/warrenfs/warren/backend"
)

// Store is a backend.Store in a directory. Make one with Open.
type Store struct {
	dir  string
	log  *slog.Logger
	room *room
	db   *badger.DB
	lock *os.File

	writer  chan struct{} // holds a token while an Update runs
	witness witness       // with writer
	wal     walFiles      // with writer

	running    sync.WaitGroup
	stopBehind func()
	suspect    atomic.Pointer[error] // tables are damaged: keys may be missing

	mu      sync.Mutex
	closed  bool
	failed  error // a commit failed: no more Updates
	last    backend.LSN
	readers map[backend.LSN]int // running Views by the state they see
}

var _ backend.Store = (*Store)(nil)

// LastLSN is the number of the last Update, which is on disk; 0: none yet.
func (s *Store) LastLSN() backend.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Size is the number of bytes that the store's files take on the disk.
func (s *Store) Size() (int64, error) {
	n, err := diskUse(s.dir)
	return n, fail("size of store", s.dir, err)
}

// View runs fn on the state after the last Update that returned. It does not
// wait for Updates. Errors: fn's own, Interrupted, Unavailable.
func (s *Store) View(ctx context.Context, fn func(backend.Tx) error) error {
	if err := s.enter(ctx, "view"); err != nil {
		return err
	}
	defer s.running.Done()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	lsn := s.beginRead()
	defer s.endRead(lsn)
	t := newTx(s, lsn, false)
	defer t.end()
	return fn(t)
}

// Update runs fn, alone among Updates, and writes its changes to the disk.
// Waiting for other Updates ends with Interrupted when ctx is done. Errors
// besides fn's: TooBig and NoSpace (nothing done), IO (see the package doc),
// Interrupted, Unavailable.
func (s *Store) Update(ctx context.Context, fn func(backend.Tx) error) (backend.LSN, error) {
	if err := s.enter(ctx, "update"); err != nil {
		return 0, err
	}
	defer s.running.Done()
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return 0, interrupted(ctx, "update")
	}
	if err := s.writable(); err != nil {
		return 0, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	lsn := s.LastLSN() // nothing of it is dropped before the next commit
	t := newTx(s, lsn, true)
	defer t.end()
	if err := fn(t); err != nil {
		return 0, err
	}
	changes := t.changes()
	size := memoryOf(changes)
	if err := s.admit(size); err != nil {
		return 0, err
	}
	if err := s.commit(lsn+1, changes); err != nil {
		return 0, err
	}
	s.remember(size, freedBy(changes))
	return lsn + 1, nil
}

// WaitDurable returns at once: an Update is on disk before it returns. Errors:
// Invalid for an lsn that no Update has yet, Interrupted, Unavailable.
func (s *Store) WaitDurable(ctx context.Context, lsn backend.LSN) error {
	if err := s.enter(ctx, "wait durable"); err != nil {
		return err
	}
	defer s.running.Done()
	if last := s.LastLSN(); lsn > last {
		return failf("wait durable", s.dir, backend.Invalid, "no Update has LSN %d yet, the last is %d", lsn, last)
	}
	return nil
}

// Close waits for running calls and lets go of the directory. Closing again is
// no error. Errors: IO and NoSpace when Badger could not be shut down (see the
// package doc); all Updates are on disk then too, but the directory stays
// locked until the process ends.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	if again {
		return nil
	}
	if err := s.abandoned(); err != nil {
		s.log.Error("badger: not shut down; its logs are whole", "dir", s.dir, "err", err)
		return errors.Join(err, s.room.close())
	}
	s.stopBehind()
	err := fail("close store", s.dir, s.shutDown())
	s.wal.drop()
	s.room.keepLogs()
	return errors.Join(err, s.release())
}

// abandoned tells why Badger must not write out what it has in memory, if so.
func (s *Store) abandoned() error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return failf("close store", s.dir, backend.IO, "left as it is: %w", failed)
	}
	return s.roomToClose()
}

func (s *Store) shutDown() (err error) {
	defer recoverInto(&err)
	return s.db.Close()
}

// release lets go of everything but Badger itself.
func (s *Store) release() error {
	return errors.Join(s.room.close(), s.witness.file.Close(), unlockDir(s.lock))
}

// enter counts a call in, unless the store is closed or ctx is done.
func (s *Store) enter(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return interrupted(ctx, op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return failf(op, s.dir, backend.Unavailable, "the store is closed")
	}
	s.running.Add(1)
	return nil
}

// beginRead gives the last Update and keeps its state readable until endRead.
func (s *Store) beginRead() backend.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers[s.last]++
	return s.last
}

func (s *Store) endRead(lsn backend.LSN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[lsn]--; s.readers[lsn] == 0 {
		delete(s.readers, lsn)
	}
}

// writable tells why no Update can be made, if so; writer held.
func (s *Store) writable() error {
	if err := s.suspect.Load(); err != nil {
		return *err
	}
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return failf("update", s.dir, backend.IO, "an earlier Update failed while it was written, restart: %w", failed)
	}
	return nil
}

// commit writes changes as Update lsn; writer held.
func (s *Store) commit(lsn backend.LSN, changes []change) error {
	txn := s.db.NewTransactionAt(timestamp(lsn-1), true)
	defer txn.Discard()
	for _, c := range changes {
		var err error
		if c.record == nil {
			err = txn.Delete(c.key)
		} else {
			err = txn.Set(c.key, c.record)
		}
		if err != nil {
			return fail("update", s.dir, err)
		}
	}
	if err := txn.Set(lsnKey(), encode(lsnKey(), lsnBytes(lsn))); err != nil {
		return fail("update", s.dir, err)
	}
	switch err := txn.CommitAt(timestamp(lsn), nil); {
	case errors.Is(err, badger.ErrTxnTooBig): // found before anything was written
		return fail("update", s.dir, err)
	case err != nil:
		return s.commitFailed(lsn, err)
	}
	if err := s.witness.synced(); err != nil {
		return s.commitFailed(lsn, err)
	}
	if err := s.witness.write(lsn); err != nil {
		s.log.Warn("badger: cannot note the last Update", "dir", s.dir, "lsn", lsn, "err", err)
	}
	s.committed(lsn)
	return nil
}

func lsnBytes(lsn backend.LSN) []byte { return binary.BigEndian.AppendUint64(nil, uint64(lsn)) }

// committed makes lsn the state that Views see, and lets Badger drop versions
// that no View sees any more.
func (s *Store) committed(lsn backend.LSN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = lsn
	s.letGo()
}

// letGo lets Badger drop versions that no View sees any more, and tells whether
// those are all but the newest; mu held.
func (s *Store) letGo() bool {
	oldest := s.last
	for r := range s.readers {
		oldest = min(oldest, r)
	}
	s.db.SetDiscardTs(timestamp(oldest))
	return oldest == s.last
}

// Failed returns why no Update is accepted until the store is opened again, or nil if
// Updates are accepted.
func (s *Store) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// commitFailed ends the life of the store for Updates.
func (s *Store) commitFailed(lsn backend.LSN, err error) error {
	s.log.Error("badger: an Update failed while it was written; no more are accepted", "dir", s.dir, "lsn", lsn, "err", err)
	err = fail("update", s.dir, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// mergeFailed ends the life of the store for Updates when a compaction cannot go on.
func (s *Store) mergeFailed(err error) {
	s.log.Error("badger: the disk failed; no more Updates are accepted until the store is opened again", "dir", s.dir, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = fail("merge tables", s.dir, err)
	}
}

// absent is what to answer for keys that were not found: they may be in a
// damaged table.
func (s *Store) absent() error {
	if err := s.suspect.Load(); err != nil {
		return *err
	}
	return backend.NotFound
}

// doubt notes that tables are damaged, and gives the error to answer with.
func (s *Store) doubt(err error) error {
	err = damaged("read", s.dir, err)
	if s.suspect.CompareAndSwap(nil, &err) {
		s.log.Error("badger: the store is damaged; no more Updates are accepted", "dir", s.dir, "err", err)
	}
	return err
}
