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

// room knows how much users may still write. What makes a store smaller, or no
// bigger, never asks: unlink, rmdir, rename, truncate, punch and changes of
// attributes work in a full store.
type room struct {
	free   func() (free, total uint64) // nil: without bounds
	start  time.Time
	asked  atomic.Int64 // ns after start; 0: never
	answer atomic.Uint64
}

// check is NoSpace where fewer than n bytes, or none at all, are left.
func (r *room) check(n int) error {
	if r.free == nil {
		return nil
	}
	now := int64(time.Since(r.start)) + 1
	if asked := r.asked.Load(); asked == 0 || now-asked > int64(roomAge) {
		free, _ := r.free()
		r.answer.Store(free)
		r.asked.Store(now)
	}
	if free := r.answer.Load(); free == 0 || free < uint64(n) {
		return &backend.Error{Kind: backend.NoSpace, Err: errFull}
	}
	return nil
}

var errFull = errors.New("what is left of the disk is kept for deletions; delete something, or make room on the disk")
