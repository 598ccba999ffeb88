package segment

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
)

// Store is the store that a Content is bound to. It tells the Content when
// transactions begin and end, and otherwise is the store below. Close closes
// the store below and then the Content.
type Store struct {
	c     *Content
	below backend.Store
	txs   grace

	quit context.CancelFunc // of the reclaimer
	done chan struct{}      // gets a token when the reclaimer ends, and the syncer
	turn chan struct{}      // holds a token while a pass of the reclaimer runs

	compact atomic.Pointer[Relocator] // nil: nothing is compacted by itself
	moved   atomic.Uint64             // records, by move
}

var _ backend.Logged = (*Store)(nil)

// View runs fn as the store below does.
func (s *Store) View(ctx context.Context, fn func(backend.Tx) error) error {
	defer s.txs.leave(s.txs.enter())
	return s.below.View(ctx, func(tx backend.Tx) error {
		return fn(&boundTx{Tx: tx, c: s.c, readonly: true})
	})
}

// Update runs fn as the store below does.
func (s *Store) Update(ctx context.Context, fn func(backend.Tx) error) (backend.LSN, error) {
	return s.UpdateFrom(ctx, backend.Origin{}, fn)
}

// UpdateFrom is Update with the request it serves, if the store below logs it.
func (s *Store) UpdateFrom(ctx context.Context, o backend.Origin, fn func(backend.Tx) error) (backend.LSN, error) {
	defer s.txs.leave(s.txs.enter())
	var t *boundTx
	var failed error
	run := func(tx backend.Tx) error {
		if t != nil {
			t.abandon() // the store runs fn again
		}
		t = &boundTx{Tx: tx, c: s.c, counts: map[uint64]*counts{}}
		failed = fn(t)
		return failed
	}
	lsn, err := s.update(ctx, o, run)
	if t != nil && failed == nil && err == nil {
		s.c.forget(t.marks)
	}
	if t != nil && (failed != nil || err != nil && s.c.opts.Logged) {
		t.abandon() // over a log nothing that failed is ever found again
	}
	return lsn, err
}

func (s *Store) update(ctx context.Context, o backend.Origin, fn func(backend.Tx) error) (backend.LSN, error) {
	if l, ok := s.below.(backend.Logged); ok {
		return l.UpdateFrom(ctx, o, fn)
	}
	return s.below.Update(ctx, fn)
}

// WaitDurable syncs the segments, then the store below; one that is Logged sees
// to the segments itself.
func (s *Store) WaitDurable(ctx context.Context, lsn backend.LSN) error {
	s.c.append.sinceWait.Store(0)
	if s.c.opts.Logged {
		return s.below.WaitDurable(ctx, lsn)
	}
	if err := s.c.Sync(ctx); err != nil {
		return err
	}
	return s.below.WaitDurable(ctx, lsn)
}

// Close ends the reclaimer, makes all bytes durable, and closes the store below
// and the Content.
func (s *Store) Close() error {
	s.quit()
	<-s.done
	<-s.done
	err := s.c.Sync(context.Background())
	return errors.Join(err, s.below.Close(), s.c.Close())
}

// boundTx is a transaction of the bound store. An Update's knows what was put
// in this run of its function.
type boundTx struct {
	backend.Tx
	c        *Content
	readonly bool
	counts   map[uint64]*counts // as this run changed them
	puts     []backend.Ref      // of this run, void ones excepted
	marks    []backend.Ref      // records that could not be made void, marked as freed instead
	ridden   int                // bytes of content that ride
}

// load gives the counts of a segment. Their puts are those of this run.
func (t *boundTx) load(segment uint64) (*counts, error) {
	if n := t.counts[segment]; n != nil {
		return n, nil
	}
	n := &counts{}
	switch b, err := t.Get(countsKey(segment)); {
	case err == nil:
		if *n, err = decodeCounts(segment, b); err != nil {
			return nil, err
		}
		n.puts = nil
	case backend.KindOf(err) != backend.NotFound:
		return nil, err
	}
	t.counts[segment] = n
	return n, nil
}

func (t *boundTx) save(segment uint64, n *counts) error { return t.Set(countsKey(segment), n.encode()) }

// put counts a record that was written.
func (t *boundTx) put(ref backend.Ref) error {
	n, err := t.load(ref.Segment)
	if err != nil {
		return err
	}
	if err := t.markLeft(ref.Segment); err != nil {
		return err
	}
	size := recordSize(ref.Length)
	next := *n
	next.live, next.refs, next.end = n.live+size, n.refs+1, max(n.end, int64(ref.Offset)+size)
	next.puts = append(slices.Clip(n.puts), ref)
	if err := t.save(ref.Segment, &next); err != nil {
		return err
	}
	*n = next
	t.puts = append(t.puts, ref)
	return nil
}

// markLeft marks as freed what nothing names and could not be made void: what is
// put behind it would make it look named.
func (t *boundTx) markLeft(segment uint64) error {
	for _, ref := range t.c.leftIn(segment) {
		t.c.marked(segment, int64(ref.Offset))
		if err := t.Set(freedKey(segment, ref.Offset), lengthValue(ref.Length)); err != nil {
			return err
		}
		t.marks = append(t.marks, ref)
	}
	return nil
}

// unput takes back what this run put under id, if anything.
func (t *boundTx) unput(id uint64) error {
	i := len(t.puts) - 1
	for i >= 0 && t.puts[i].ID != id {
		i--
	}
	if i < 0 {
		return nil
	}
	ref := t.puts[i]
	switch _, err := t.Get(freedKey(ref.Segment, ref.Offset)); {
	case err == nil:
		return nil
	case backend.KindOf(err) != backend.NotFound:
		return err
	}
	n, err := t.load(ref.Segment)
	if err != nil {
		return err
	}
	n.live, n.refs = n.live-recordSize(ref.Length), n.refs-1
	n.puts = slices.DeleteFunc(n.puts, func(r backend.Ref) bool { return r.ID == id })
	t.puts = slices.Delete(t.puts, i, i+1)
	if err := t.save(ref.Segment, n); err != nil {
		return err
	}
	t.c.void(ref)
	return nil
}

// free counts ref out and leaves a mark for the reclaimer.
func (t *boundTx) free(ref backend.Ref) error {
	key := freedKey(ref.Segment, ref.Offset)
	switch _, err := t.Get(key); {
	case err == nil:
		return nil
	case backend.KindOf(err) != backend.NotFound:
		return err
	}
	if _, err := t.Get(countsKey(ref.Segment)); err != nil {
		if backend.KindOf(err) == backend.NotFound {
			return nil // no such segment, and none will be
		}
		return err
	}
	n, err := t.load(ref.Segment)
	if err != nil {
		return err
	}
	t.c.marked(ref.Segment, int64(ref.Offset))
	if err := t.Set(key, lengthValue(ref.Length)); err != nil {
		return err
	}
	n.live -= min(n.live, recordSize(ref.Length))
	n.refs -= min(n.refs, 1)
	return t.save(ref.Segment, n)
}

// abandon makes void what a run put that did not take effect.
func (t *boundTx) abandon() {
	for _, ref := range t.puts {
		t.c.void(ref)
	}
	t.puts = nil
}

// marked tells that a record of a segment may be marked as freed from now on.
func (c *Content) marked(segment uint64, at int64) {
	c.mu.Lock()
	if s := c.segs[segment]; s != nil {
		s.mark(at)
	}
	c.mu.Unlock()
	wake(c.work.reclaim)
}

// wake makes a waiting goroutine look again.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// grace counts transactions, to wait until all that run now have ended.
type grace struct {
	mu      sync.Mutex
	phase   int // 0 or 1
	running [2]int
	drained chan struct{} // closed when none of the other phase runs
}

func (g *grace) enter() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[g.phase]++
	return g.phase
}

func (g *grace) leave(phase int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[phase]--
	if phase != g.phase && g.running[phase] == 0 && g.drained != nil {
		close(g.drained)
		g.drained = nil
	}
}

// wait returns when all transactions that ran when it was called have ended.
// One waits at a time. Error: Interrupted; then the next wait goes on with it.
func (g *grace) wait(ctx context.Context) error {
	if err := g.drain(ctx); err != nil { // what an interrupted wait left
		return err
	}
	g.mu.Lock()
	g.phase = 1 - g.phase
	g.mu.Unlock()
	return g.drain(ctx)
}

// drain waits for the transactions of the other phase.
func (g *grace) drain(ctx context.Context) error {
	g.mu.Lock()
	if g.running[1-g.phase] == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.drained == nil {
		g.drained = make(chan struct{})
	}
	ch := g.drained
	g.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return interrupted(ctx, "reclaim")
	}
}

func interrupted(ctx context.Context, op string) error {
	return &backend.Error{Op: op, Kind: backend.Interrupted, Err: ctx.Err()}
}
