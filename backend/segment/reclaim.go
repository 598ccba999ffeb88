package segment

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

const (
	reclaimBatch = 4000    // freed records in a pass
	page         = 4 << 10 // bytes that a file system gives back whole
)

// Reclaimed tells what a pass of the reclaimer did.
type Reclaimed struct {
	Segments int   // unlinked
	Records  int   // made void
	Punched  int64 // bytes given back inside segments
	More     bool  // there were more freed records than a pass takes
}

// freedSet is the freed records of one segment that a pass looks at.
type freedSet struct {
	spans []span
	keys  [][]byte
	all   bool // there are no more of the segment
}

// work is what a pass found.
type work struct {
	empty []uint64             // segments that nothing names a record of
	freed map[uint64]*freedSet // by segment
	more  bool
}

// reclaimer runs passes until ctx ends.
func (s *Store) reclaimer(ctx context.Context) {
	defer func() { s.done <- struct{}{} }()
	if s.c.opts.ReclaimEvery < 0 {
		return
	}
	compact := compactor{due: true, since: time.Now().Add(-compactPause), tried: map[uint64]int64{}}
	for {
		did, err := s.Reclaim(ctx)
		if err != nil && ctx.Err() == nil {
			s.c.log.Warn("giving space back failed; it is tried again", "err", err)
		}
		compact.due = compact.due || did.Records+did.Segments > 0
		if compact.run(ctx, s); err == nil && !did.More {
			select {
			case <-s.c.work.reclaim:
			case <-compact.wait(s):
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(s.c.opts.ReclaimEvery):
		case <-ctx.Done():
			return
		}
	}
}

// Reclaim runs one pass: of the records that were freed before, it gives back
// the space, once the Updates that freed them are settled and every transaction
// that may still read them has ended. It makes the ballast if that is missing.
// Errors: Interrupted, those of the store, IO; the next pass goes on.
func (s *Store) Reclaim(ctx context.Context) (Reclaimed, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Reclaimed{}, interrupted(ctx, "reclaim")
	}
	if err := s.c.makeBallast(); err != nil {
		s.c.log.Warn("no ballast", "err", err)
	}
	// Records are put to the current segment only. A segment that is not that,
	// and whose last Puts' Updates have ended, gets no more names.
	sealed, frees, next := s.c.sealed()
	if err := s.txs.wait(ctx); err != nil {
		return Reclaimed{}, err
	}
	w, err := s.look(ctx, sealed, next)
	if err != nil || len(w.empty) == 0 && len(w.freed) == 0 {
		return Reclaimed{}, err
	}
	if err := s.settle(ctx); err != nil {
		return Reclaimed{}, err
	}
	did := Reclaimed{More: w.more}
	for _, number := range w.empty {
		delete(w.freed, number)
		if err := s.unlink(ctx, number); err != nil {
			return did, err
		}
		did.Segments++
	}
	for number, set := range w.freed {
		if err := s.punch(ctx, number, set, &did); err != nil {
			return did, err
		}
		s.c.unmark(number, set, frees[number])
	}
	return did, nil
}

// sealed gives the segments that get no more records, of all segments the
// number of Frees so far, and the number of the next segment.
func (c *Content) sealed() (map[uint64]bool, map[uint64]uint64, uint64) {
	sealed, frees := map[uint64]bool{}, map[uint64]uint64{}
	c.append.mu.Lock()
	defer c.append.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	cur := c.current.Load()
	for n, s := range c.segs {
		sealed[n] = s != cur
		frees[n] = s.frees.Load()
	}
	return sealed, frees, c.append.next
}

// unmark notes that the records of set are not marked as freed any more, and if
// set was all of the segment and there were no Frees since their number was
// seen, that none is.
func (c *Content) unmark(number uint64, set *freedSet, seen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segs[number]
	if s == nil {
		return
	}
	if set.all && seen > 0 && s.frees.CompareAndSwap(seen, 0) {
		s.freed = freedAt{}
		return
	}
	for _, sp := range set.spans {
		delete(s.freed.at, sp.from)
	}
}

// look finds what there is to do. Segments from next on were made meanwhile.
func (s *Store) look(ctx context.Context, sealed map[uint64]bool, next uint64) (work, error) {
	var w work
	err := s.below.View(ctx, func(tx backend.Tx) error {
		w = work{freed: map[uint64]*freedSet{}}
		err := tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
			number, ok := countsSegment(k)
			if !ok {
				return errValue
			}
			n, err := decodeCounts(number, v)
			isSealed, known := sealed[number]
			if err == nil && n.refs == 0 && (isSealed || !known && number < next) {
				w.empty = append(w.empty, number)
			}
			return err
		})
		if err != nil {
			return err
		}
		return w.scanFreed(tx)
	})
	return w, err
}

func (w *work) scanFreed(tx backend.Tx) error {
	found := 0
	err := tx.Scan([]byte{family, subFreed}, []byte{family, subFreed + 1}, func(k, v []byte) error {
		number, sp, err := freedRecord(k, v)
		if err != nil {
			return err
		}
		if slices.Contains(w.empty, number) {
			return nil
		}
		if found == reclaimBatch {
			w.more = true
			if set := w.freed[number]; set != nil {
				set.all = false
			}
			return backend.ErrStop
		}
		found++
		set := w.freed[number]
		if set == nil {
			set = &freedSet{all: true}
			w.freed[number] = set
		}
		set.spans = append(set.spans, sp)
		set.keys = append(set.keys, slices.Clone(k))
		return nil
	})
	return err
}

// settle waits until what look saw is settled and nothing reads it any more.
func (s *Store) settle(ctx context.Context) error {
	if err := s.c.Sync(ctx); err != nil {
		return err
	}
	// This Update has a number after all those that look may have seen.
	lsn, err := s.below.Update(ctx, func(backend.Tx) error { return nil })
	if err != nil {
		return err
	}
	if err := s.txs.wait(ctx); err != nil {
		return err
	}
	return s.c.opts.Settled(ctx, lsn)
}

// unlink removes an empty segment and then its keys, the counts last.
func (s *Store) unlink(ctx context.Context, number uint64) error {
	c := s.c
	c.mu.Lock()
	f := c.segs[number]
	c.mu.Unlock()
	if f != nil && f.broken != errNoSegment {
		if err := c.dropSegment(f); err != nil {
			return dirfs.Error("remove empty segment", f.name(), err)
		}
	}
	for more := true; more; {
		_, err := s.below.Update(ctx, func(tx backend.Tx) error {
			var keys [][]byte
			prefix := freedPrefix(number)
			err := tx.ScanKeys(prefix, backend.PrefixEnd(prefix), func(k []byte) error {
				keys = append(keys, slices.Clone(k))
				if len(keys) == reclaimBatch {
					return backend.ErrStop
				}
				return nil
			})
			if err != nil {
				return err
			}
			if more = len(keys) == reclaimBatch; !more {
				keys = append(keys, countsKey(number))
			}
			return deleteAll(tx, keys)
		})
		if err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.stats.Unlinked++
	delete(c.segs, number) // a missing one's
	c.mu.Unlock()
	c.log.Debug("segment removed", "segment", fileName(number))
	return nil
}

func deleteAll(tx backend.Tx, keys [][]byte) error {
	for _, k := range keys {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// punch makes the freed records of a segment void, gives back their whole
// pages and forgets them.
func (s *Store) punch(ctx context.Context, number uint64, set *freedSet, did *Reclaimed) error {
	var spans []span
	for _, sp := range set.spans { // ascending, as their keys
		spans = addSpan(spans, sp)
	}
	f, file, err := s.c.acquire(number)
	switch {
	case err == nil:
		defer s.c.release(f)
		for _, sp := range spans {
			n, err := s.c.punchSpan(f, file, sp)
			if err != nil {
				return dirfs.Error("give back space", f.name(), err)
			}
			did.Punched += n
			if err := s.pause(ctx, n); err != nil {
				return err
			}
		}
		// Void before the marks go, or a power cut brings records back that
		// nothing tells to be given back.
		if err := s.c.Sync(ctx); err != nil {
			return err
		}
	case !s.c.lost(number): // no descriptor is left, for example: the marks stay
		return dirfs.Error("give back space", fileName(number), err)
	}
	_, err = s.below.Update(ctx, func(tx backend.Tx) error { return deleteAll(tx, set.keys) })
	did.Records += len(set.keys)
	return err
}

// punchSpan makes one void record of sp and gives back its whole pages.
func (c *Content) punchSpan(s *segFile, f dirfs.File, sp span) (int64, error) {
	if err := writeVoid(s, f, sp); err != nil {
		return 0, err
	}
	c.mu.Lock()
	s.wrote(sp)
	c.mu.Unlock()
	from, to := roundUp(sp.from+recordHead, page), sp.to/page*page
	size, _, err := f.Size()
	if err != nil {
		return 0, err
	}
	if to = min(to, size/page*page); from >= to {
		return 0, nil
	}
	err = f.Punch(from, to-from)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.stats.Punched += uint64(to - from)
		return to - from, nil
	case unsupported(err):
		if !c.stats.NoHoles {
			c.log.Warn("the file system punches no holes; space comes back by whole segments", "err", err)
		}
		c.stats.NoHoles = true
		return 0, nil
	}
	return 0, err
}

// pause keeps to the rate.
func (s *Store) pause(ctx context.Context, n int64) error {
	rate := s.c.opts.PunchRate
	if rate == 0 || n == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(float64(n) / float64(rate) * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return interrupted(ctx, "reclaim")
	}
}

func lengthValue(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }
