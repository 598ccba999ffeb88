package segment

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Sync makes the bytes of every Put that returned before the call durable, with
// one fdatasync for each segment that has any, shared by all that wait for it.
// It comes before the sync of the log that names the bytes.
//
// After a failed fdatasync the records that were not durable are read back,
// verified and written again before another one counts. Errors: IO when that
// fails too, or a record cannot be read back; then the next call tries again.
// Interrupted.
func (c *Content) Sync(ctx context.Context) error {
	return c.sync(ctx, func(s *segFile) uint64 { return s.written })
}

// SyncLoose is Sync of all but what rides in the log of the store below: it is
// what comes before the sync of that log. Errors as Sync.
func (c *Content) SyncLoose(ctx context.Context) error {
	return c.sync(ctx, func(s *segFile) uint64 { return s.loose })
}

// sync makes of each segment the writes up to the number that it is given durable.
func (c *Content) sync(ctx context.Context, upTo func(*segFile) uint64) error {
	type due struct {
		s  *segFile
		to uint64
	}
	var dirty []due
	c.mu.Lock()
	for _, s := range c.segs {
		if to := upTo(s); s.synced < to {
			dirty = append(dirty, due{s, to})
		}
	}
	c.mu.Unlock()
	for _, d := range dirty {
		if err := c.syncSegment(ctx, d.s, d.to); err != nil {
			return err
		}
	}
	return nil
}

// syncSegment makes the writes of s up to the number to durable.
func (c *Content) syncSegment(ctx context.Context, s *segFile, to uint64) error {
	for again := false; ; again = true {
		c.mu.Lock()
		for s.synced < to && s.syncing != nil {
			ch := s.syncing
			c.mu.Unlock()
			select {
			case <-ch:
			case <-ctx.Done():
				return interrupted(ctx, "sync segment")
			}
			c.mu.Lock()
		}
		if s.synced >= to || s.gone {
			c.mu.Unlock()
			return nil
		}
		s.syncing = make(chan struct{})
		s.inflight, s.pending = s.pending, nil
		upTo, unproven := s.written, s.unproven
		c.mu.Unlock()
		err := c.flush(s, unproven != nil)
		c.endSync(s, upTo, err)
		if err == nil {
			continue // done, or another sync was shared
		}
		c.log.Error("sync of a segment failed; what it was about is written again", "segment", s.name(), "err", err)
		if again {
			return dirfs.Error("sync", s.name(), err)
		}
	}
}

// flush syncs s; inflight is its own until endSync.
func (c *Content) flush(s *segFile, rewrite bool) error {
	s, f, err := c.acquire(s.number)
	if err != nil {
		return err
	}
	defer c.release(s)
	if rewrite {
		for _, sp := range s.inflight {
			if err := rewriteSpan(s, f, sp); err != nil {
				return err
			}
		}
	}
	return f.Sync()
}

// endSync records how a sync went. A segment that failed gets no more records.
func (c *Content) endSync(s *segFile, upTo uint64, err error) {
	if err != nil {
		c.append.mu.Lock()
		c.current.CompareAndSwap(s, nil)
		c.append.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Syncs++
	if err == nil {
		s.synced, s.unproven = upTo, nil
	} else {
		c.stats.SyncFailures++
		s.pending, s.unproven = append(s.inflight, s.pending...), err
	}
	s.inflight = nil
	close(s.syncing)
	s.syncing = nil
}

// rewriteSpan writes the records of sp again, so that their pages are dirty and
// the next sync is about them. All are read, and forgotten by the cache (see
// dirfs.Dropper), before the first is written: they share pages. It takes as much
// memory as sp is long.
func rewriteSpan(s *segFile, f dirfs.File, sp span) error {
	type loaded struct {
		record
		data []byte
	}
	var all []loaded
	for at := sp.from; at < sp.to; {
		r, data, err := loadRecord(s, f, at)
		if err != nil {
			return fmt.Errorf("the record at %d: %w", at, err)
		}
		all = append(all, loaded{r, data})
		at += r.size
	}
	if d, ok := f.(dirfs.Dropper); ok {
		d.Drop(sp.from, sp.to-sp.from)
	}
	at := sp.from
	for _, r := range all {
		err := error(nil)
		if r.kind == kindVoid {
			err = writeVoid(s, f, span{at, at + r.size})
		} else {
			err = writeRecord(s, f, r.record, r.data)
		}
		if err != nil {
			return err
		}
		at += r.size
	}
	return nil
}

// loadRecord reads and verifies the record at at.
func loadRecord(s *segFile, f dirfs.File, at int64) (record, []byte, error) {
	var head [maxHead]byte
	n, err := f.ReadAt(head[:], at)
	r, ok := decodeRecord(head[:n], s.seed, at)
	switch {
	case !ok && n < recordHead:
		return r, nil, err
	case !ok:
		return r, nil, errors.New("there is no valid record")
	case r.kind == kindVoid:
		return r, nil, nil
	}
	data := make([]byte, r.length)
	return r, data, readBlocks(f, r, 0, data)
}

// Verify is for the replay of a log: it tells whether the bytes are there that
// the Update put which set key to value, and if so takes care that the next
// Sync makes them durable. Keys of others are no error. It may be called before
// Bind. Errors: IO; Unavailable where the disk does not say.
func (c *Content) Verify(key, value []byte) error {
	segment, ok := countsSegment(key)
	if !ok {
		return nil
	}
	n, err := decodeCounts(segment, value)
	if err != nil {
		return err
	}
	for _, ref := range n.puts {
		if err := c.verify(ref); err != nil {
			return fail("verify", ref, lookKind(err), err)
		}
	}
	return nil
}

// lookKind is the kind of an error of looking for a record: IO where it is not there
// or damaged, Unavailable where the system could not look.
func lookKind(err error) backend.Kind {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT {
		return backend.Unavailable
	}
	return backend.IO
}

func (c *Content) verify(ref backend.Ref) error {
	s, f, err := c.acquire(ref.Segment)
	if err != nil {
		return err
	}
	defer c.release(s)
	r, err := readRecord(s, f, ref)
	if err != nil {
		return err
	}
	if err := checkRecord(f, r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote(span{r.at, r.at + r.size})
	s.loose = s.written
	s.unproven = errReplayed
	return nil
}

// errReplayed is why the syncs of an earlier process prove nothing: it may have
// been told that one failed.
var errReplayed = errors.New("written by an earlier process")
