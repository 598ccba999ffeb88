package writeback

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/latency"
)

// Stats tells how a Store is doing, for `warren status`.
type Stats struct {
	Last      backend.LSN // the newest Update
	Durable   backend.LSN // the newest that would survive a power cut
	Committed backend.LSN // the newest that is durable in the driver

	Pending      int           // Updates not yet committed
	PendingBytes int64         // the memory they take, about
	OldestAge    time.Duration // of the oldest of them; 0: none
	LogFiles     int
	LogBytes     int64 // of records in the log's files

	Syncs        uint64 // of the log
	SyncFailures uint64
	Commits      uint64 // driver transactions
	Updates      uint64 // that they committed
	CommitFails  uint64

	Work Work

	LogError    error // why the log's file cannot be trusted, or of its last write; nil: it can, and that went well
	CommitError error // of the last commit; nil: it went well
}

// Work is what the driver and the log's disk have been asked for since Open.
type Work struct {
	CommitBytes uint64           // of keys and values in driver transactions
	CommitTime  latency.Snapshot // of driver transactions, until they were durable
	SyncTime    latency.Snapshot // of syncs of the log
}

// meters counts what Work tells. It needs no lock.
type meters struct {
	commitBytes  atomic.Uint64
	commit, sync latency.Histogram
}

func (m *meters) work() Work {
	return Work{CommitBytes: m.commitBytes.Load(), CommitTime: m.commit.Snapshot(), SyncTime: m.sync.Snapshot()}
}

// MeanBatch is the mean number of Updates in a driver transaction.
func (st Stats) MeanBatch() float64 {
	if st.Commits == 0 {
		return 0
	}
	return float64(st.Updates) / float64(st.Commits)
}

// complainEvery is the shortest time between two messages about one trouble.
const complainEvery = 10 * time.Second

// complaints is when each trouble was last told in the log. Store.mu guards it.
type complaints struct{ write, sync, replace, commit, bulk, mark time.Time }

// complain tells of a trouble, but not all the time; mu not held.
func (s *Store) complain(last *time.Time, msg string, args ...any) {
	s.mu.Lock()
	now := time.Now()
	tell := now.Sub(*last) >= complainEvery
	if tell {
		*last = now
	}
	s.mu.Unlock()
	if tell {
		s.log.Error(msg, args...)
	}
}

// Stats gives the numbers as they are now. It works on a closed store too.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, c := &s.redo, &s.commit
	st := Stats{
		Last: s.over.last, Durable: s.durable(), Committed: c.committed,
		Pending: len(s.over.queue), PendingBytes: s.over.bytes,
		LogFiles: len(r.old) + 1, LogBytes: r.cur.tail,
		Syncs: r.syncs, SyncFailures: r.failures,
		Commits: c.commits, Updates: c.updates, CommitFails: c.failures,
		Work:     s.meters.work(),
		LogError: cmp.Or(r.failed, s.refused), CommitError: c.err,
	}
	if len(s.over.queue) > 0 {
		st.OldestAge = time.Since(s.over.queue[0].at)
	}
	for _, f := range r.old {
		st.LogBytes += f.tail
	}
	if r.spare != nil {
		st.LogFiles++
	}
	return st
}
