package tree

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
)

// roomAge is how long what FreeBytes said is believed: what can be written
// meanwhile is far less than any reserve.
const roomAge = 5 * time.Millisecond

const (
	// patience is how long, in all, a change waits for room that is being made.
	patience = 3 * time.Second
	// sullen is how long nothing waits after a wait in vain.
	sullen = 10 * time.Second
	// leastComing is how much must be about to be free, bytes, for a wait.
	leastComing = 4 << 20
	// lately is how long what was deleted counts as about to be free.
	lately = 3 * time.Second
)

// room knows how much users may still write. What makes a store smaller, or no
// bigger, never asks: unlink, rmdir, rename, truncate, punch and changes of
// attributes work in a full store.
type room struct {
	free    func() (free, total uint64) // nil: without bounds
	failure func() error                // why free is 0 though the disk is not full; nil: it is full
	start   time.Time
	asked   atomic.Int64 // ns after start; 0: never
	answer  atomic.Uint64

	coming func() uint64 // bytes that are about to be free; nil: nobody knows
	freed  atomic.Int64  // when content was last dropped, ns after start; 0: never
	vain   atomic.Int64  // when a wait ended in vain, likewise
}

func (r *room) now() int64 { return int64(time.Since(r.start)) + 1 }

// drop notes that content was dropped.
func (r *room) drop() { r.freed.Store(r.now()) }

// isComing tells whether room is being made.
func (r *room) isComing() bool {
	if f := r.freed.Load(); f != 0 && r.now()-f < int64(lately) {
		return true
	}
	return r.coming != nil && r.coming() >= leastComing
}

// refused tells whether err is check's.
func refused(err error) bool {
	e, ok := err.(*backend.Error)
	return ok && e.Err == errFull
}

// await waits, after check refused, until there is more room than now, and tells
// whether there is; until end at the latest, and only as long as room is being made. No
// lock may be held.
func (r *room) await(end time.Time) bool {
	if v := r.vain.Load(); v != 0 && r.now()-v < int64(sullen) {
		return false
	}
	const more, step = backend.MaxPutBytes, 20 * time.Millisecond
	had, _ := r.free()
	for time.Now().Before(end) && r.isComing() {
		time.Sleep(step)
		if free, _ := r.free(); free >= had+more {
			r.answer.Store(free)
			r.asked.Store(r.now())
			return true
		}
	}
	r.vain.Store(r.now())
	return false
}

// check is NoSpace where fewer than n bytes, or none at all, are left.
func (r *room) check(n int) error {
	if r.free == nil {
		return nil
	}
	now := r.now()
	if asked := r.asked.Load(); asked == 0 || now-asked > int64(roomAge) {
		free, _ := r.free()
		r.answer.Store(free)
		r.asked.Store(now)
	}
	if free := r.answer.Load(); free == 0 || free < uint64(n) {
		if r.failure != nil {
			if err := r.failure(); err != nil {
				return &backend.Error{Kind: backend.IO, Err: err}
			}
		}
		return &backend.Error{Kind: backend.NoSpace, Err: errFull}
	}
	return nil
}

var errFull = errors.New("what is left of the disk is kept for deletions; delete something, or make room on the disk")
