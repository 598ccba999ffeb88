package workspace

import (
	"context"
	"errors"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
)

// now returns the time of the wall clock, for what people read.
func (r *Registry) now() time.Time { return r.clock.Now() }

// resumeEnds sets when the loaded grants and tokens end. Nobody else uses the
// registry yet.
func (r *Registry) resumeEnds() {
	for _, g := range r.policies.grants {
		g.end = r.clock.Resumed(g.Created, g.Expires)
	}
	for _, t := range r.tokens {
		if t.Expires != nil {
			t.end = r.clock.Resumed(t.Created, *t.Expires)
		}
	}
}

// ResumeClock lets a clock continue with what SaveClock stored. An error leaves
// the clock as it was.
func ResumeClock(ctx context.Context, store backend.Store, c *uptime.Clock) error {
	return store.View(ctx, func(tx backend.Tx) error {
		b, err := tx.Get(recordKey(recUptime, ""))
		if errors.Is(err, backend.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.Resume(b)
	})
}

// SaveClock stores what the registry's clock knows of the time that has really
// passed. It does not wait for the disk.
func (r *Registry) SaveClock(ctx context.Context) error {
	b, err := r.clock.Save()
	if err != nil {
		return err
	}
	_, err = r.store.Update(ctx, func(tx backend.Tx) error { return tx.Set(recordKey(recUptime, ""), b) })
	return err
}
