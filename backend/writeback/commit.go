package writeback

import (
	"context"
	"time"

	"github.com/warrenfs/warren/backend"
)

const (
	// maxBatch bounds the Updates of one driver transaction.
	maxBatch = 1000
	// trimStep is how many entries are trimmed while Updates wait.
	trimStep = 256
	// First and longest pause after a failed commit.
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
	// fullGrace is how long Updates wait for room while commits fail, unless
	// the driver says that it is full.
	fullGrace = 5 * time.Second
)

// commitState is where the committer is. Store.mu guards it but for retry.
type commitState struct {
	committed backend.LSN // durable in the driver
	flushTo   backend.LSN // commit up to here at once
	draining  bool        // too much is pending: commit until half of it is gone

	err      error     // of the last attempt
	failing  time.Time // when the first of the failed attempts in a row ended
	retryAt  time.Time
	backoff  time.Duration
	running  bool
	attempts uint64
	ended    chan struct{} // closed when the next attempt ends; nil: nobody waits

	commits, updates, failures uint64

	// retry is the batch whose commit failed; only the committer uses it. It
	// may have taken effect, so nothing but the very same batch may follow.
	retry *batch
}

// batch is what one driver transaction commits: whole Updates, each key once
// with its last value.
type batch struct {
	last    backend.LSN
	updates int
	entries []*entry
	index   map[string]int // into entries
	bytes   int            // of keys and values
}

// add merges p in, or changes nothing and is false if a limit of the seam would
// be passed. The first Update always fits: it passed the same limits.
func (b *batch) add(p *op) bool {
	keys, bytes := len(b.entries), b.bytes
	for i := range p.entries {
		e := &p.entries[i]
		bytes += len(e.key) + len(e.value)
		if at, ok := b.index[e.key]; ok {
			bytes -= len(e.key) + len(b.entries[at].value)
		} else {
			keys++
		}
	}
	if keys > backend.MaxTxKeys || bytes > backend.MaxTxBytes {
		return false
	}
	for i := range p.entries {
		e := &p.entries[i]
		if at, ok := b.index[e.key]; ok {
			b.entries[at] = e
		} else {
			b.index[e.key] = len(b.entries)
			b.entries = append(b.entries, e)
		}
	}
	b.bytes, b.last = bytes, p.lsn
	b.updates++
	return true
}

func newBatch(ops []*op) *batch {
	b := &batch{index: make(map[string]int, 2*len(ops))}
	for _, p := range ops {
		if !b.add(p) {
			break
		}
	}
	return b
}

// committer moves Updates from the queue to the driver until work.stop is closed.
func (s *Store) committer() {
	for {
		ops, due, any := s.nextUpdates(time.Now())
		if len(ops) > 0 {
			s.commitOnce(ops)
			continue
		}
		if !s.wait(s.work.wakeCommit, due, any) {
			return
		}
	}
}

// nextUpdates gives the Updates to commit now, or none and when to ask again.
// With a batch to retry, ops are not looked at.
func (s *Store) nextUpdates(now time.Time) (ops []*op, due time.Time, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, q := &s.commit, s.over.queue
	if len(q) == 0 {
		return nil, due, false
	}
	if c.err != nil && now.Before(c.retryAt) {
		return nil, c.retryAt, true
	}
	switch {
	case s.over.bytes >= s.opts.CommitBytes:
		c.draining = true
	case s.over.bytes < s.opts.CommitBytes/2:
		c.draining = false
	}
	n := min(len(q), maxBatch)
	switch oldest := q[0].at.Add(s.opts.CommitAge); {
	case c.retry != nil || c.draining || c.flushTo > c.committed:
	case oldest.After(now):
		return nil, oldest, true
	default: // leave young ones: what is made and removed again costs less in one batch
		for young := now.Add(-s.opts.CommitAge / 2); q[n-1].at.After(young); {
			n--
		}
	}
	return append([]*op(nil), q[:n]...), due, true
}

// commitOnce commits as many of ops as fit in one driver transaction.
func (s *Store) commitOnce(ops []*op) {
	s.mu.Lock()
	s.commit.running = true
	s.mu.Unlock()
	b := s.commit.retry
	if b == nil {
		b = newBatch(ops)
	}
	err := s.reserve(b.last)
	start := time.Now()
	if err == nil {
		s.commit.retry = b
		err = s.commitDriver(b)
	}
	if err != nil {
		s.commitFailed(err)
		return
	}
	s.commit.retry = nil
	s.meters.commit.Observe(time.Since(start))
	s.meters.commitBytes.Add(uint64(b.bytes))
	s.commitDone(b)
}

// reserve opens driver views for the readers that have none yet and must not
// see what a commit up to last changes, and for those that come while it runs.
func (s *Store) reserve(last backend.LSN) error {
	type need struct {
		snap *snapshot
		n    int
	}
	var needs []need
	s.mu.Lock()
	s.over.lazy.all(func(snap *snapshot) bool {
		if n := snap.lazy - len(snap.reserved); n > 0 && snap.lsn < last {
			needs = append(needs, need{snap, n})
		}
		return true
	})
	trimmed := s.over.trimmed
	s.mu.Unlock()
	for _, d := range needs {
		for range d.n {
			h, err := s.views.open(context.Background())
			if err != nil {
				return err
			}
			s.mu.Lock()
			if len(d.snap.reserved) < d.snap.lazy {
				d.snap.reserved = append(d.snap.reserved, h)
			} else {
				s.views.keep(h, s.over.trimmed)
			}
			s.mu.Unlock()
		}
	}
	s.stock(trimmed)
	return nil
}

// stock opens driver views at or after committed for the next readers. Where
// that fails they will open their own.
func (s *Store) stock(committed backend.LSN) {
	s.mu.Lock()
	n := s.views.missing(committed)
	s.mu.Unlock()
	for ; n > 0; n-- {
		h, err := s.views.open(context.Background())
		if err != nil {
			s.log.Warn("no driver view ahead of need", "err", err)
			return
		}
		s.mu.Lock()
		s.views.keep(h, s.over.trimmed)
		s.mu.Unlock()
	}
}

// commitDriver writes b to the driver and waits until it is on disk. What b
// names is on disk before.
func (s *Store) commitDriver(b *batch) error {
	ctx := context.Background()
	if s.opts.Bulk != nil {
		if err := s.opts.Bulk.Sync(ctx); err != nil {
			return err
		}
	}
	g, marked := s.tick()
	lsn, err := s.driver.Update(ctx, func(tx backend.Tx) error {
		for _, e := range b.entries {
			var err error
			if e.deleted {
				err = tx.Delete(asBytes(e.key))
			} else {
				err = tx.Set(asBytes(e.key), e.value)
			}
			if err != nil {
				return err
			}
		}
		if marked {
			if err := g.save(tx); err != nil {
				return err
			}
		}
		return storeState{id: s.dir.id, committed: b.last}.save(tx)
	})
	if err == nil {
		err = s.driver.WaitDurable(ctx, lsn)
	}
	if err == nil {
		s.noteCommitted(b.last)
	}
	return err
}

// commitFailed records a failed attempt and when to try again.
func (s *Store) commitFailed(err error) {
	s.mu.Lock()
	c := &s.commit
	now := time.Now()
	if c.err == nil {
		c.failing, c.backoff = now, minBackoff
	} else {
		c.backoff = min(2*c.backoff, maxBackoff)
	}
	c.err, c.retryAt = err, now.Add(c.backoff)
	c.failures++
	c.end()
	pending := len(s.over.queue)
	s.mu.Unlock()
	s.complain(&s.complaints.commit, "commit to the driver failed; updates stay in the log", "err", err, "pending", pending)
}

// commitDone lets go of what b committed.
func (s *Store) commitDone(b *batch) {
	s.stock(b.last)
	s.mu.Lock()
	c := &s.commit
	if c.err != nil {
		s.complaints.commit = time.Time{}
		s.log.Info("commits to the driver work again", "failed for", time.Since(c.failing))
	}
	c.committed, c.err = b.last, nil
	c.commits++
	c.updates += uint64(b.updates)
	s.over.pop(b.last)
	c.end()
	s.mu.Unlock()
	s.trim(b)
	s.dropOld()
}

// end wakes those that wait for an attempt; mu held.
func (c *commitState) end() {
	c.attempts++
	c.running = false
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// next is closed when the next attempt ends; mu held.
func (c *commitState) next() <-chan struct{} {
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	return c.ended
}

// trim takes b's entries out of the overlay, a few at a time.
func (s *Store) trim(b *batch) {
	for rest := b.entries; len(rest) > 0; {
		step := rest[:min(trimStep, len(rest))]
		rest = rest[len(step):]
		s.writer <- struct{}{}
		s.mu.Lock()
		if s.over.trimmed < b.last {
			s.over.trimmed = b.last
			s.over.current = nil
			s.views.purge(b.last)
		}
		s.over.trim(step)
		s.mu.Unlock()
		s.unlockWriter()
	}
}

// Flush commits everything that took effect before the call to the driver and
// waits for it. Errors: what the driver said in an attempt that began after the
// call, Interrupted, Unavailable.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.enter(ctx, "flush"); err != nil {
		return err
	}
	defer s.leave()
	return s.flush(ctx)
}

func (s *Store) flush(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.commit
	target := s.over.last
	c.flushTo = max(c.flushTo, target)
	c.retryAt = time.Time{}
	enough := c.attempts + 1
	if c.running { // that attempt began before the call
		enough++
	}
	wake(s.work.wakeCommit)
	for c.committed < target {
		if c.err != nil && c.attempts >= enough {
			return c.err
		}
		ch := c.next()
		s.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			s.mu.Lock()
			return interrupted(ctx, "flush")
		}
		s.mu.Lock()
	}
	return nil
}

// wake makes a waiting goroutine look again.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
