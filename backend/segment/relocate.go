package segment

import (
	"context"
	"slices"
	"time"

	"github.com/warrenfs/warren/backend"
)

// Relocator is who keeps the Refs: the tree.
type Relocator interface {
	// Relocate goes through all Refs. For each whose Segment is in segments it
	// calls move once inside an Update of the bound store, and in the same
	// Update writes the Ref that move gives in all places that had the old
	// one, which is no longer to be freed. What is moved in one Update keeps
	// within its limits. An Update whose move fails with IO is given up and
	// the rest goes on.
	Relocate(ctx context.Context, segments []uint64, move Move) error
}

// Move copies old's bytes elsewhere and frees old, as part of tx. The new Ref
// has the same ID, Length and CRC. Errors as Get and Put.
type Move = func(tx backend.Tx, old backend.Ref) (backend.Ref, error)

const (
	// compactPause is the least time between two looks for segments to compact.
	compactPause = 5 * time.Second
	// thoroughAfter is how long nothing must have been put before segments that
	// waste little are compacted, and thoroughPause the least time between two
	// times that it is begun.
	thoroughAfter = 30 * time.Second
	thoroughPause = 10 * time.Minute
	// slack is what a segment may waste however little it holds, in bytes.
	slack = 1 << 20
	// Of so many segments that are so much shorter than they may be, one is made.
	smallParts, smallSegments = 16, 8
	// portion is how many segments are compacted between two looks whether nothing
	// is put.
	portion = 8
)

// SetRelocator has the reclaimer compact segments by r from now on, each time
// after it gave something back: those of which more than half is waste, when
// nothing is put for some seconds those of which more than a quarter is, and when
// nothing is put for longer those of which more than an eleventh is.
func (s *Store) SetRelocator(r Relocator) {
	s.compact.Store(&r)
	wake(s.c.work.reclaim)
}

// zeal is which segments are compacted: those of which so many times the waste is
// more than what is named. What is moved is at most so many times what is gained.
type zeal int64

const (
	atWork   zeal = 1
	idle     zeal = 3 // and the current segment, and many short ones
	thorough zeal = 10
)

// compactor is when to compact. Only the reclaimer uses it.
type compactor struct {
	due   bool
	next  time.Time
	puts  uint64    // at the last look, and what was moved then
	since time.Time // when they were first seen to be as many
	// cleaned is when something was last moved with all zeal.
	cleaned time.Time
	// tried is how much was named of segments when they were last compacted:
	// where that is as much as before, something keeps them.
	tried map[uint64]int64
}

// wait is how long the reclaimer may sleep at most; nil: for ever.
func (k *compactor) wait(s *Store) <-chan time.Time {
	if !k.due || s.compact.Load() == nil {
		return nil
	}
	return time.After(max(time.Until(k.next), 0))
}

// run compacts if it is time.
func (k *compactor) run(ctx context.Context, s *Store) {
	r := s.compact.Load()
	if r == nil || !k.due || time.Now().Before(k.next) {
		return
	}
	puts, moved := s.c.Stats().Puts, s.moved.Load()
	z := k.zeal(time.Now(), puts)
	done, err := s.compactWith(ctx, *r, z, k.tried)
	if err != nil && ctx.Err() == nil {
		s.c.log.Warn("compacting segments failed; it is tried again", "err", err)
	}
	if z == thorough && len(done) > 0 {
		k.cleaned = time.Now()
	}
	k.due = len(done) > 0 || err != nil || z != thorough
	k.next = time.Now().Add(compactPause)
	k.puts = puts + s.moved.Load() - moved
}

// zeal tells how much is worth it now, when there were so many puts.
func (k *compactor) zeal(now time.Time, puts uint64) zeal {
	if puts != k.puts {
		k.puts, k.since = puts, now
	}
	quiet := now.Sub(k.since)
	switch {
	case quiet >= thoroughAfter && (k.since.Before(k.cleaned) || now.Sub(k.cleaned) >= thoroughPause):
		return thorough
	case quiet >= compactPause:
		return idle
	}
	return atWork
}

// Compact has r move what is left in segments of which more than half is
// waste; the reclaimer then removes them. It gives the segments it was about.
func (s *Store) Compact(ctx context.Context, r Relocator) ([]uint64, error) {
	return s.compactWith(ctx, r, atWork, map[uint64]int64{})
}

// compactWith is Compact, with a zeal, of segments that were not tried in vain. From
// idle on it leaves what is more than a portion for the next time.
func (s *Store) compactWith(ctx context.Context, r Relocator, z zeal, tried map[uint64]int64) ([]uint64, error) {
	sparse, err := s.sparse(ctx, z, tried)
	if err != nil || len(sparse) == 0 {
		return nil, err
	}
	s.c.log.Debug("compacting", "segments", len(sparse))
	return sparse, r.Relocate(ctx, sparse, s.move)
}

// sparse gives the sealed, whole segments that are worth compacting. From idle
// on it seals the current segment where that is one.
func (s *Store) sparse(ctx context.Context, z zeal, tried map[uint64]int64) ([]uint64, error) {
	sealed, _, _ := s.c.sealed()
	var sparse, short []uint64
	live := map[uint64]int64{}
	err := s.below.View(ctx, func(tx backend.Tx) error {
		sparse, short = sparse[:0], short[:0]
		return tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
			number, ok := countsSegment(k)
			if !ok {
				return errValue
			}
			n, err := decodeCounts(number, v)
			if isSealed, known := sealed[number]; err != nil || n.refs == 0 || !known || !isSealed && z < idle {
				return err
			}
			if before, again := tried[number]; again && before == n.live {
				return nil
			}
			live[number] = n.live
			switch {
			case s.wasteful(number, n, z):
				sparse = append(sparse, number)
			case z >= idle && sealed[number] && n.end < s.c.opts.SegmentSize/smallParts:
				short = append(short, number)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(short) >= smallSegments {
		sparse = append(sparse, short...)
	}
	if z >= idle && len(sparse) > portion {
		sparse = sparse[:portion]
	}
	for _, number := range sparse {
		tried[number] = live[number]
	}
	s.c.append.mu.Lock()
	if cur := s.c.current.Load(); cur != nil && slices.Contains(sparse, cur.number) {
		s.c.current.Store(nil)
	}
	s.c.append.mu.Unlock()
	return sparse, nil
}

// wasteful tells whether a whole segment takes so much more than what is named of it.
func (s *Store) wasteful(number uint64, n counts, z zeal) bool {
	f, file, err := s.c.acquire(number)
	if err != nil {
		return false
	}
	defer s.c.release(f)
	_, used, err := file.Size()
	if err != nil {
		return false
	}
	if 2*n.live < n.end-fileHead && s.c.current.Load() != f {
		return true // however little it takes, it is a file
	}
	waste := used - fileHead - n.live
	return waste > slack && int64(z)*waste > n.live
}

func (s *Store) move(tx backend.Tx, old backend.Ref) (backend.Ref, error) {
	buf := scratch(int64(old.Length))
	defer buffers.Put(buf)
	if err := s.c.Get(tx, old, 0, *buf); err != nil {
		return backend.Ref{}, err
	}
	if checksum(*buf) != old.CRC {
		return backend.Ref{}, fail("move", old, backend.IO, errChecksum)
	}
	ref, err := s.c.Put(tx, old.ID, *buf)
	if err != nil {
		return backend.Ref{}, err
	}
	s.moved.Add(1)
	return ref, s.c.Free(tx, old)
}
