package feed

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
)

// Options say how much is kept. The zero value keeps 90 days and two million
// events, some 300 MB.
type Options struct {
	MaxAge    time.Duration
	MaxEvents uint64
	Log       *slog.Logger  // nil discards
	Clock     *uptime.Clock // nil is the system's
	// Full tells that the store has no room: denials are not written then.
	Full func() bool
}

const (
	defaultAge    = 90 * 24 * time.Hour
	defaultEvents = 2_000_000
	// window is how long repeated changes need no further event.
	window = time.Second
	// flushEvery is how often denials are written.
	flushEvery = time.Second
	trimEvery  = time.Minute
	trimBatch  = 2_000
	// maxRecent bounds what is remembered of recent changes.
	maxRecent = 1 << 14
	// maxNoted bounds the different denials of one flush, of all agents and of one.
	maxNoted      = 1_000
	maxNotedAgent = 100
)

// Feed is the record of one store. Its methods may be called from any goroutine.
type Feed struct {
	store backend.Store
	opts  Options

	next     atomic.Uint64 // the next number; changed inside transactions, which are one at a time
	last     atomic.Uint64 // the newest event that took effect
	number   atomic.Int64  // how many events there are; far below 0: not counted yet
	added    atomic.Int64  // since Open
	trimming sync.Mutex

	seen atomic.Uint64 // the newest number a reader may have been given
	stop func()
	done chan struct{}

	mu     sync.Mutex
	recent map[mark]recent // guarded by mu
	noted  map[Event]*Event
	agents map[string]int // in noted
	wake   chan struct{}  // closed and replaced when an event took effect; nil: nobody waits
}

type mark struct {
	node  backend.NodeID
	agent string
	op    string
}

// created is the op of the mark of an event that tells of a new node.
const created = ""

type recent struct {
	seq uint64
	at  backend.Time
}

// Open finds where the feed of a store goes on, and keeps it within its bounds
// until Close.
func Open(ctx context.Context, store backend.Store, o Options) (*Feed, error) {
	f := &Feed{store: store, opts: o, recent: map[mark]recent{}, noted: map[Event]*Event{}, agents: map[string]int{}, done: make(chan struct{})}
	if f.opts.MaxAge <= 0 {
		f.opts.MaxAge = defaultAge
	}
	if f.opts.MaxEvents == 0 {
		f.opts.MaxEvents = defaultEvents
	}
	if f.opts.Log == nil {
		f.opts.Log = slog.New(slog.DiscardHandler)
	}
	if f.opts.Clock == nil {
		f.opts.Clock = uptime.System()
	}
	last, err := f.findLast(ctx)
	if err != nil {
		return nil, err
	}
	f.next.Store(last + 1)
	f.last.Store(last)
	f.seen.Store(last)
	f.number.Store(math.MinInt64 / 2)
	bg, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	go f.run(bg)
	return f, nil
}

// findLast gives the number of the newest event: it looks where there is none
// from on.
func (f *Feed) findLast(ctx context.Context) (last uint64, err error) {
	err = f.store.View(ctx, func(kv backend.Tx) error {
		var failed error
		after := func(seq uint64) (got uint64) {
			err := kv.ScanKeys(key(seq), end, func(k []byte) error {
				if s, ok := seqOf(k); ok {
					got = s
					return backend.ErrStop
				}
				return nil
			})
			failed = errors.Join(failed, err)
			return got
		}
		for low, high := uint64(0), uint64(maxSeq); low < high && failed == nil; {
			mid := low + (high-low)/2
			if got := after(mid); got != 0 {
				last, low = got, got+1
			} else {
				high = mid
			}
		}
		return failed
	})
	return last, err
}

// Close writes what is noted and stops. The store stays open.
func (f *Feed) Close() error {
	f.stop()
	<-f.done
	return nil
}

func (f *Feed) run(ctx context.Context) {
	defer close(f.done)
	flush, trim := time.NewTicker(flushEvery), time.NewTicker(trimEvery)
	defer flush.Stop()
	defer trim.Stop()
	failing := false
	whole := context.WithoutCancel(ctx) // what was taken to be written is written
	for {
		var err error
		select {
		case <-ctx.Done():
			if err := f.flush(whole); err != nil {
				f.opts.Log.Warn("the last denials are not in the feed", "err", err)
			}
			return
		case <-flush.C:
			err = f.flush(whole)
		case <-trim.C:
			err = f.Trim(ctx)
		}
		if err != nil && !failing && ctx.Err() == nil {
			f.opts.Log.Warn("the feed cannot be written; denials may be missing from it", "err", err)
		}
		failing = err != nil
	}
}

// Put adds e to the transaction that makes the change, and numbers it. The
// transaction may run again. Done must follow when it took effect.
func (f *Feed) Put(kv backend.Tx, e *Event) error {
	e.Seq = f.next.Add(1) - 1
	if e.Time == 0 {
		e.Time = f.now()
	}
	if e.Count == 0 {
		e.Count = 1
	}
	return chainOn(kv, e, e.encode(make([]byte, 0, 80+len(e.Path)+len(e.To))))
}

// Done tells that the transaction of a Put took effect.
func (f *Feed) Done(e *Event) {
	f.number.Add(1)
	f.added.Add(1)
	for {
		old := f.last.Load()
		if e.Seq <= old || f.last.CompareAndSwap(old, e.Seq) {
			break
		}
	}
	f.mu.Lock()
	if len(f.recent) >= maxRecent {
		clear(f.recent)
	}
	op := e.Op
	if e.Created {
		op = created
	}
	f.recent[mark{e.Node, e.Agent, op}] = recent{e.Seq, e.Time}
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
	f.mu.Unlock()
}

// Fresh tells that the feed has an event of op by agent on node, or of the
// node's creation by agent, that is less than a second old and that no reader
// was given: one more would tell nothing.
func (f *Feed) Fresh(node backend.NodeID, agent, op string) bool {
	f.mu.Lock()
	made, ok := f.recent[mark{node, agent, created}]
	r, again := f.recent[mark{node, agent, op}]
	f.mu.Unlock()
	return ok && f.fresh(made) || again && f.fresh(r)
}

func (f *Feed) fresh(r recent) bool {
	age := f.now() - r.at // negative: the wall clock was set back
	return r.seq > f.seen.Load() && age >= 0 && age < backend.Time(window)
}

// Note counts a denial, to be written within a second.
func (f *Feed) Note(e Event) {
	now := f.now()
	e.Seq, e.Time, e.Count, e.Flags = 0, 0, 0, e.Flags|Denied
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.noted[e]
	if x == nil && (len(f.noted) >= maxNoted || f.agents[e.Agent] >= maxNotedAgent) {
		e = Event{Op: "more", Agent: e.Agent, Flags: e.Flags}
		x = f.noted[e]
	}
	if x == nil {
		x = new(Event)
		*x = e
		f.noted[e] = x
		f.agents[e.Agent]++
	}
	x.Time = now
	x.Count++
}

// flush writes what is noted. After an error it is gone: what denies is not
// held up by a disk that is full.
func (f *Feed) flush(ctx context.Context) error {
	f.mu.Lock()
	noted := f.noted // of nobody else from here on
	if len(noted) == 0 {
		f.mu.Unlock()
		return nil
	}
	f.noted, f.agents = map[Event]*Event{}, map[string]int{}
	f.mu.Unlock()
	if f.opts.Full != nil && f.opts.Full() {
		return nil
	}
	events := make([]*Event, 0, len(noted))
	for _, e := range noted {
		events = append(events, e)
	}
	sort.Slice(events, func(i, j int) bool { return events[i].Time < events[j].Time })
	return f.Add(ctx, events...)
}

// Add writes events in a transaction of their own.
func (f *Feed) Add(ctx context.Context, events ...*Event) error {
	if len(events) == 0 {
		return nil
	}
	_, err := f.store.Update(ctx, func(kv backend.Tx) error {
		for _, e := range events {
			if err := f.Put(kv, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range events {
		f.Done(e)
	}
	return nil
}

// Last is the number of the newest event, 0 if there was never one, and counts
// as given to a reader: who goes on after it misses nothing.
func (f *Feed) Last() uint64 {
	for last := f.last.Load(); ; {
		if old := f.seen.Load(); last <= old || f.seen.CompareAndSwap(old, last) {
			return last
		}
	}
}

// Read calls fn with up to limit events after a number, in order, and tells the
// number to go on after: it is greater than after if there was any. An error of
// fn ends it; backend.ErrStop without one, and the event counts as read.
func (f *Feed) Read(ctx context.Context, after uint64, limit int, fn func(*Event) error) (next uint64, err error) {
	f.Last() // before it is read: what comes later is an event of its own
	next = after
	if after == maxSeq {
		return next, nil
	}
	upto := f.seen.Load()
	err = f.store.View(ctx, func(kv backend.Tx) error {
		next, limit := &next, limit
		return kv.Scan(key(after+1), end, func(k, b []byte) error {
			seq, ok := seqOf(k)
			if limit--; limit < 0 || seq > upto {
				return backend.ErrStop
			}
			if !ok {
				return nil
			}
			*next = seq
			e, err := decode(b)
			if errors.Is(err, errGap) {
				limit++
				return nil
			}
			if err != nil {
				f.opts.Log.Warn("an event of the feed is left out", "seq", seq, "err", err)
				return nil
			}
			e.Seq = seq
			return fn(&e)
		})
	})
	return next, err
}

// Since gives the number after which events are not older than t.
func (f *Feed) Since(ctx context.Context, t backend.Time) (after uint64, err error) {
	err = f.store.View(ctx, func(kv backend.Tx) error {
		var failed error
		at := func(seq uint64) (e Event, ok bool) {
			err := kv.Scan(key(seq), end, func(k, b []byte) (err error) {
				if e, err = decode(b); errors.Is(err, errGap) {
					return nil
				}
				if err == nil {
					e.Seq, ok = seqOf(k)
					err = backend.ErrStop
				}
				return err
			})
			failed = errors.Join(failed, err)
			return e, ok
		}
		low, high := uint64(1), f.last.Load()+1 // those from high on are not older
		for low < high && failed == nil {
			mid := low + (high-low)/2
			if e, ok := at(mid); ok && e.Time < t {
				low = e.Seq + 1
			} else {
				high = mid
			}
		}
		after = low - 1
		return failed
	})
	return after, err
}

// Wait returns when there is an event after a number, or ctx ends.
func (f *Feed) Wait(ctx context.Context, after uint64) error {
	for {
		f.mu.Lock()
		if f.last.Load() > after {
			f.mu.Unlock()
			return nil
		}
		if f.wake == nil {
			f.wake = make(chan struct{})
		}
		wake := f.wake
		f.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// now returns the time of the wall clock, for events.
func (f *Feed) now() backend.Time { return backend.TimeOf(f.opts.Clock.Now()) }
