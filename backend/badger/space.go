package badger

import (
	"bytes"

	"github.com/warrenfs/warren/backend"
)

// memorySafe is how much a memtable takes before Badger may start another with
// the next Update: memTableSize, less the overhead that memoryOf does not know.
const memorySafe = memTableSize - 2<<20

// memoryOf is what changes take in Badger's memtable and write-ahead log, at
// most.
func memoryOf(changes []change) int64 {
	const entry = 128 // a node of the skip list, a header and a checksum
	n := int64(3 * entry)
	for _, c := range changes {
		n += int64(len(c.key)+len(c.record)) + entry
	}
	return n
}

// admit refuses an Update of that size with NoSpace where Badger could not
// write it without asking the disk for more than it has; writer held. While the
// memtable has room nothing is asked for: the log has its blocks.
func (s *Store) admit(size int64) error {
	if !s.wal.off && !s.wal.current {
		s.wal.prepare()
		if !s.wal.current {
			return s.full("the write-ahead log has no room")
		}
	}
	if s.wal.memory+size <= memorySafe {
		return nil
	}
	if !s.wal.off && !s.wal.ready {
		s.wal.prepare()
		if !s.wal.ready {
			return s.full("the next write-ahead log has no room")
		}
	}
	sp := s.Space()
	switch need := s.roomForNext(); {
	case sp.Waiting > 0:
		return s.full("a table waits for room")
	case sp.Free+sp.Ballast < need:
		return s.full("the next table has no room")
	}
	return nil
}

// roomForNext is what Badger asks for when a memtable is full.
func (s *Store) roomForNext() int64 {
	if s.wal.off {
		return tableRoom + walBytes
	}
	return tableRoom
}

// full is the NoSpace error of an Update.
func (s *Store) full(why string) error {
	return failf("update", s.dir, backend.NoSpace, "%s: %d MiB of the disk are free; make some more", why, s.Space().Free>>20)
}

// freedBy is how many bytes of content changes delete, at most.
func freedBy(changes []change) (n int64) {
	content := storedKey(backend.ContentKey(0)[:1])
	for _, c := range changes {
		if c.record == nil && bytes.HasPrefix(c.key, content) {
			n += backend.MaxValue
		}
	}
	return n
}

// remember counts an Update that was written, and deletes so many bytes; writer
// held.
func (s *Store) remember(size, freed int64) {
	s.wal.churn.add(size, freed)
	if s.wal.off {
		s.wal.memory = min(s.wal.memory+size, memTableSize) // nobody tells when it is empty again
		return
	}
	if s.wal.prepare() {
		s.wal.memory = 0
		s.wal.churn.hidden.Store(freed)
	}
	s.wal.memory += size
}

// roomToClose is an error when writing out the memtable would wait for room.
func (s *Store) roomToClose() error {
	s.room.setOpened(false)
	sp := s.Space()
	if s.wal.memory == 0 && sp.Waiting == 0 {
		return nil
	}
	if need := s.wal.memory + 4<<20; sp.Waiting > 0 || sp.Free+sp.Ballast < need {
		return failf("close store", s.dir, backend.NoSpace,
			"%d MiB of the disk are free, and %d MiB are needed to tidy up; nothing is lost, the next Open does it", sp.Free>>20, need>>20)
	}
	return nil
}

// Space is how a store fares on its disk, in bytes.
type Space struct {
	Free        int64 // of the disk, for ordinary users
	Total       int64 // of the disk
	Ballast     int64 // kept in the ballast
	BallastSize int64 // of it, when it is whole
	Headroom    int64 // that Badger may need for a while to write tables anew
	Young       int64 // that tables have which are about to be merged
	Waiting     int   // tables that wait for room: what they were made from stays
}

// Space tells how much room there is. It works on a closed store, too.
func (s *Store) Space() Space {
	disk, err := s.room.disk(s.dir)
	if err != nil {
		s.log.Warn("badger: cannot tell the space of the disk", "dir", s.dir, "err", err)
	}
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	return Space{Free: disk.free, Total: disk.total, Ballast: max(0, r.have-r.keep()), BallastSize: r.want,
		Headroom: r.need.Load(), Young: r.young.Load(), Waiting: r.waiting}
}

// MakeRoom takes from the ballast what the disk has less than n bytes free, as
// far as it goes, for another file of the store that must be written to go on.
func (s *Store) MakeRoom(n int64) {
	sp := s.Space()
	s.room.setOpened(false)
	s.room.give(n - sp.Free)
	s.room.setOpened(true)
}

// measure finds out what Badger may need to compact: a compaction of the young
// tables takes as much as they and those they are merged into have, until they
// are dropped.
func (s *Store) measure() {
	need, young := int64(tableRoom), int64(0)
	for _, l := range s.db.Levels() {
		if l.Level == 0 {
			young += l.Size
		}
		if l.Level == 0 || l.IsBaseLevel {
			need += l.Size
		}
	}
	s.room.need.Store(need)
	s.room.young.Store(young)
}
