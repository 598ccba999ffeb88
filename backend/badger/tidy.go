package badger

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// tidyIdle is how long no Update was made before a store is tidied.
	tidyIdle = 2 * time.Second
	// tidyLeast is what must have been written since it was last done, bytes,
	// and at least a quarter of what the tables have.
	tidyLeast = 2 << 20
	// tidyBelow is how many bytes the disk has when space is short; where that
	// is less, an eighth of the disk.
	tidyBelow = 1 << 30
)

// churn is what was written since the tables were last merged.
type churn struct {
	bytes  atomic.Int64
	hidden atomic.Int64 // content that deletions in the memtable hide, bytes at most
	last   atomic.Int64 // when, Unix time in ns
}

func (c *churn) add(n, freed int64) {
	c.bytes.Add(n + freed)
	c.hidden.Add(freed)
	c.last.Store(time.Now().UnixNano())
}

// tidy merges the tables while the store is idle and its disk short of space,
// until ctx ends. Badger leaves what was deleted where it is for as long as
// nothing is written.
func (s *Store) tidy(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	c, merge := &s.wal.churn, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.canTidy() {
			continue
		}
		var err error
		switch {
		case c.hidden.Load() >= tidyLeast: // the table is there in a moment
			err, merge = s.rotate(ctx), true
			c.hidden.Store(0)
		case merge || c.bytes.Load() >= max(tidyLeast, s.tableBytes()/4):
			c.bytes.Store(0)
			s.mu.Lock()
			merge = !s.letGo() // and again, when old Views have ended
			s.mu.Unlock()
			err = s.flatten()
		}
		if err != nil {
			s.log.Warn("badger: tables could not be merged", "dir", s.dir, "err", err)
		}
	}
}

// canTidy tells whether there is a reason to, and room.
func (s *Store) canTidy() bool {
	if s.writable() != nil || time.Since(time.Unix(0, s.wal.churn.last.Load())) < tidyIdle {
		return false
	}
	sp := s.Space()
	short := sp.Free < max(tidyBelow, sp.Total/8)
	return short && sp.Waiting == 0 && sp.Free+sp.Ballast > sp.Headroom
}

// tableBytes is the size of all tables.
func (s *Store) tableBytes() (n int64) {
	for _, l := range s.db.Levels() {
		n += l.Size
	}
	return n
}

func (s *Store) flatten() (err error) {
	defer recoverInto(&err)
	return s.db.Flatten(1)
}

// padKey starts the names of values that fill a memtable up.
const padKey = "\x00pad"

// rotate makes Badger write its memtable out, which it does when that is full:
// deletions in it hide values and free nothing. It writes values of its own
// until then.
func (s *Store) rotate(ctx context.Context) error {
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return nil
	}
	if err := s.writable(); err != nil {
		return err
	}
	if err := s.admit(memTableSize); err != nil {
		return err
	}
	const values, size = 4, 512 << 10 // a transaction takes 2.4 MiB
	for range 2 * memTableSize / (values * size) {
		lsn := s.LastLSN()
		txn := s.db.NewTransactionAt(timestamp(lsn), true)
		for i := range values {
			key := append([]byte(padKey), byte('0'+i))
			if err := txn.Set(key, make([]byte, size)); err != nil {
				txn.Discard()
				return err
			}
		}
		if err := txn.CommitAt(timestamp(lsn), nil); err != nil {
			return s.commitFailed(lsn, err)
		}
		if s.wal.prepare() {
			s.wal.memory = values * size
			return nil
		}
		s.wal.memory += values * size
	}
	return nil
}
