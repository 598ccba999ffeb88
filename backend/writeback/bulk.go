package writeback

import (
	"context"
	"fmt"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Bulk keeps bytes that Updates name and that are neither in the driver nor, but
// for those that ride, in the log (backend/segment does). None of its methods
// may call the Store.
type Bulk interface {
	// SyncLoose makes durable what was put before the call and does not ride in
	// the log. It is called before each sync of the log, and before a log is
	// written anew: a failure fails the wait, and the log is as it was.
	SyncLoose(ctx context.Context) error
	// Sync makes durable all that was put before the call. It is called before
	// each commit to the driver; on a failure the commit is tried again.
	Sync(ctx context.Context) error
	// Restore is called at recovery for each key and value that rode in a
	// record, before the record's Verify calls. NoSpace ends Open, and Unavailable,
	// that the disk gave no answer, too, unless loss is accepted: the log is the
	// only place that has the bytes for certain.
	Restore(key, value []byte) error
	// Verify is called at recovery for each key that a record sets. An error
	// tells that bytes which the value names are not there: the record and all
	// that follow were never durable. Of a record that had been, the Update is
	// kept, the damage is logged, and reads of those bytes fail. Unavailable tells
	// that the disk gave no answer: of a record that had not been durable Open
	// fails then, unless loss is accepted.
	Verify(key, value []byte) error
}

// Ride puts key and value into the Update's record in the log, and nowhere
// else: Get and Scan do not show them, the driver never has them. They count
// towards the limits of an Update. Nothing else uses such a key. Errors as Set.
func (t *tx) Ride(key, value []byte) error {
	if err := t.changeable("ride", key); err != nil {
		return err
	}
	if len(value) > backend.MaxValue {
		return tooBig("bytes in a value", len(value), backend.MaxValue)
	}
	return t.own.put(opRide, key, value)
}

// looseError is that of a sync which failed before it came to the log's file.
type looseError struct{ error }

func (e looseError) Unwrap() error { return e.error }

// syncLoose makes durable what the log's records name and do not have with
// them. Locks may be held. Error: a looseError of kind IO.
func (s *Store) syncLoose() error {
	if s.opts.Bulk == nil {
		return nil
	}
	err := s.opts.Bulk.SyncLoose(context.Background())
	if err == nil {
		return nil
	}
	s.complain(&s.complaints.bulk, "sync of bulk content failed", "err", err)
	return looseError{dirfs.Error("sync content", "", err)}
}

// verify looks whether the bytes are there that the recovered Updates name, and
// ends them where some are not and never were. Errors: NoSpace; IO where it cannot
// be told.
func (s *Store) verify(got *recovered) error {
	if s.opts.Bulk == nil {
		return nil
	}
	for i, p := range got.ops {
		lost, err := s.restore(got.rides[i]), s.verifyOne(p)
		unsure := backend.KindOf(lost) == backend.Unavailable || backend.KindOf(err) == backend.Unavailable && p.lsn > got.proven
		if lost != nil {
			err = lost
		}
		switch {
		case err == nil:
		case backend.KindOf(err) == backend.NoSpace:
			return &backend.Error{Op: "restore content", Path: s.dir.path, Kind: backend.NoSpace, Err: err}
		case unsure && !s.opts.AcceptLoss:
			return &backend.Error{Op: "open log", Path: s.dir.path, Kind: backend.IO,
				Err: fmt.Errorf("bytes that record %d names cannot be read or written: %w; try again, or AcceptLoss opens without them", p.lsn, err)}
		case p.lsn <= got.proven:
			s.log.Error("bytes of an update that was on disk are damaged; reading them will fail", "lsn", uint64(p.lsn), "err", err)
		default:
			s.log.Info("log ends where bytes never reached the disk", "lsn", uint64(p.lsn), "err", err)
			for _, lost := range got.ops[i:] {
				got.unsynced++
				got.dropped += int64(len(lost.rec))
			}
			got.ops = got.ops[:i]
			return nil
		}
	}
	return nil
}

// restore puts back what rode with one Update: all of it, and the first error.
func (s *Store) restore(rides []entry) (first error) {
	for _, e := range rides {
		if err := s.opts.Bulk.Restore(asBytes(e.key), e.value); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// verifyOne looks at what one Update names: all of it, and the first error, but
// rather one that says what is wrong than one of a disk that says nothing.
func (s *Store) verifyOne(p *op) (first error) {
	for i := range p.entries {
		e := &p.entries[i]
		if e.deleted {
			continue
		}
		if err := s.opts.Bulk.Verify(asBytes(e.key), e.value); err != nil && (first == nil || backend.KindOf(first) == backend.Unavailable) {
			first = err
		}
	}
	return first
}

// WaitCommitted returns when the Updates up to lsn are durable in the driver, so
// that no recovery looks at them again. It hastens nothing: they get there by
// age. Errors: Interrupted; Unavailable.
func (s *Store) WaitCommitted(ctx context.Context, lsn backend.LSN) error {
	if err := s.enter(ctx, "wait committed"); err != nil {
		return err
	}
	defer s.leave()
	for {
		s.mu.Lock()
		if s.commit.committed >= lsn {
			s.mu.Unlock()
			return nil
		}
		next := s.commit.next()
		s.mu.Unlock()
		select {
		case <-next:
		case <-s.calls.closing:
			return unavailable("wait committed")
		case <-ctx.Done():
			return interrupted(ctx, "wait committed")
		}
	}
}
