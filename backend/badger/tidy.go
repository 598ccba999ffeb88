package badger

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	// tidyIdle is how long no Update was made before a store is tidied.
	tidyIdle = 2 * time.Second
	// tidyLater is how long a store that has no room for it is left alone.
	tidyLater = 5 * time.Second
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
	c := &s.wal.churn
	c.bytes.Add(s.tableBytes()) // nobody knows what was deleted before the store was opened
	rotated := false            // the tables are to be merged
	kept := false               // a merge kept versions for Views that were open
	var later time.Time         // to look again
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		newest := s.noOldView() // for Badger's own merging, too
		due := rotated || c.hidden.Load() >= tidyLeast || c.bytes.Load() >= max(tidyLeast, s.tableBytes()/4) || kept && newest
		if !due || !s.isIdle() || time.Now().Before(later) {
			continue
		}
		if !s.hasRoom() {
			later = time.Now().Add(tidyLater)
			continue
		}
		var err error
		if !rotated {
			c.hidden.Store(0)
			err = s.rotate(ctx)
			rotated = err == nil // the table is there in a moment
		} else {
			c.bytes.Store(0)
			kept = !newest
			err, rotated = s.flatten(), false
		}
		if err != nil {
			later = time.Now().Add(tidyLater)
			s.log.Warn("badger: tables could not be merged", "dir", s.dir, "err", err)
		}
	}
}

// noOldView lets Badger drop what no View sees, and tells whether all of them
// see the newest state.
func (s *Store) noOldView() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.letGo()
}

// isIdle tells whether tables may be merged now, and the disk is short of space.
func (s *Store) isIdle() bool {
	quiet := time.Since(time.Unix(0, s.wal.churn.last.Load())) // negative: the clock was set back
	if s.writable() != nil || quiet >= 0 && quiet < tidyIdle {
		return false
	}
	sp := s.Space()
	return sp.Free < max(tidyBelow, sp.Total/8) && sp.Waiting == 0
}

// hasRoom tells whether there is room for merging the tables: for all that is
// in them, or, which takes reading them, for what will be left. A store that
// was full and is empty has nothing but what was deleted, and only merging
// gives that back.
func (s *Store) hasRoom() bool {
	s.room.proofs.sweep()
	sp := s.Space()
	room := sp.Free + sp.Ballast
	if room > sp.Headroom {
		return true
	}
	live, err := s.liveBytes()
	return err == nil && room > live+tableRoom
}

// liveBytes is what the newest versions of all keys have, bytes before they are
// compressed.
func (s *Store) liveBytes() (n int64, err error) {
	defer recoverInto(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	lsn := s.beginRead()
	defer s.endRead(lsn)
	txn := s.db.NewTransactionAt(timestamp(lsn), false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		const entry = 64 // headers, and its part of the index and the filter
		n += it.Item().EstimatedSize() + entry
	}
	return n, nil
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

// padKey starts the names of values that fill a memtable up, and lastKey is
// behind all keys.
const (
	padKey  = "\x00pad"
	lastKey = "\xff\xff\xff\xffpad"
)

// rotate makes Badger write its memtable out, which it does when that is full:
// deletions in it hide values and free nothing. It writes values of its own
// until then, the last of them behind all keys: a table is merged with those
// below it that have keys between its first and its last, so this one with all.
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
		if err := txn.Set([]byte(lastKey), nil); err != nil {
			txn.Discard()
			return err
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
