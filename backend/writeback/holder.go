package writeback

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/warrenfs/warren/backend"
)

const (
	// maxFree bounds the driver views that are kept open for the next reader.
	maxFree = 16
	// maxUses bounds how often a driver view is used, since a driver may keep
	// what was read until its view ends.
	maxUses = 256
	// minReady is how many driver views stand ready before each commit.
	minReady = 2
)

// holder is an open view of the driver. One reader uses it at a time.
type holder struct {
	tx        backend.Tx
	committed backend.LSN // what the driver had committed in this view
	uses      int
	end       chan struct{} // closed to end the view
}

// views opens views of the driver and keeps some open between readers: opening
// one costs more than most reads, and some drivers (badger) hold it up while a
// transaction is being committed. The fields below mu are guarded by Store.mu.
type views struct {
	driver  backend.Store
	running sync.WaitGroup

	free        []*holder
	inUse, peak int // peak: the most in use since the last commit
	closed      bool
}

// open starts a view of the driver; mu not held. Its function runs in a
// goroutine that does nothing but wait for the end, so the transaction is used
// by one goroutine at a time, though not by that one.
func (v *views) open(ctx context.Context) (*holder, error) {
	h := &holder{end: make(chan struct{})}
	ready := make(chan error, 1)
	v.running.Go(func() {
		opened := false
		err := v.driver.View(context.WithoutCancel(ctx), func(tx backend.Tx) error {
			st, err := loadState(tx)
			if err != nil {
				return err
			}
			h.tx, h.committed, opened = tx, st.committed, true
			ready <- nil
			<-h.end
			return nil
		})
		if !opened {
			if err == nil {
				err = errors.New("the driver's view ran nothing")
			}
			ready <- err
		}
	})
	select {
	case err := <-ready:
		if err != nil {
			return nil, err
		}
		return h, nil
	case <-ctx.Done():
		close(h.end)
		return nil, interrupted(ctx, "view")
	}
}

// take gives a free view whose committed LSN is in [low, high], or nil; mu held.
func (v *views) take(low, high backend.LSN) *holder {
	for i := len(v.free) - 1; i >= 0; i-- {
		if h := v.free[i]; low <= h.committed && h.committed <= high {
			v.free = append(v.free[:i], v.free[i+1:]...)
			v.use()
			return h
		}
	}
	return nil
}

// use counts a view that a reader has now; mu held.
func (v *views) use() {
	v.inUse++
	v.peak = max(v.peak, v.inUse)
}

// put takes back a view that a reader has used; mu held.
func (v *views) put(h *holder, trimmed backend.LSN) {
	v.inUse--
	h.uses++
	v.keep(h, trimmed)
}

// keep makes h ready for the next reader, or ends it; mu held.
func (v *views) keep(h *holder, trimmed backend.LSN) {
	if v.closed || h.uses >= maxUses || h.committed < trimmed {
		close(h.end)
		return
	}
	if len(v.free) == maxFree { // the oldest goes
		close(v.free[0].end)
		v.free = append(v.free[:0], v.free[1:]...)
	}
	v.free = append(v.free, h)
}

// purge ends the free views that no new snapshot fits; mu held.
func (v *views) purge(trimmed backend.LSN) {
	kept := v.free[:0]
	for _, h := range v.free {
		if h.committed < trimmed {
			close(h.end)
		} else {
			kept = append(kept, h)
		}
	}
	clear(v.free[len(kept):])
	v.free = kept
}

// missing is how many views to open so that the next readers find one, given
// those at committed; mu held. It starts a new count of the peak.
func (v *views) missing(committed backend.LSN) int {
	want := min(max(v.peak, minReady), maxFree)
	v.peak = v.inUse
	for _, h := range v.free {
		if h.committed >= committed {
			want--
		}
	}
	return want
}

// shut ends all free views, and those in use as they come back; mu held.
func (v *views) shut() {
	v.closed = true
	for _, h := range v.free {
		close(h.end)
	}
	v.free = nil
}

// storeState is what writeback keeps in the driver, in the same transaction as
// the Updates it commits (format rule 10).
type storeState struct {
	found     bool
	id        storeID
	committed backend.LSN

	generation generation // of the last tick; only Open reads it
}

// storeID names one store; its log files carry it.
type storeID [16]byte

func (id storeID) String() string { return fmt.Sprintf("%x", id[:]) }

// stateKey is a key that writeback hides from its callers, as generationKey is.
const stateKey = backend.ReservedPrefix + "writeback"

const stateVersion = 1

// loadState reads the state; found is false in a driver that has none.
func loadState(tx backend.Tx) (st storeState, err error) {
	v, err := tx.Get([]byte(stateKey))
	if err != nil {
		if backend.KindOf(err) == backend.NotFound {
			return st, nil
		}
		return st, err
	}
	if len(v) != 28 || binary.LittleEndian.Uint32(v) != stateVersion {
		return st, &backend.Error{Op: "read writeback state", Kind: backend.Unsupported,
			Err: fmt.Errorf("%d bytes %.8x: not of format version %d", len(v), v, stateVersion)}
	}
	st.found = true
	copy(st.id[:], v[4:])
	st.committed = backend.LSN(binary.LittleEndian.Uint64(v[20:]))
	return st, nil
}

// save writes the state.
func (st storeState) save(tx backend.Tx) error {
	v := binary.LittleEndian.AppendUint32(nil, stateVersion)
	v = append(v, st.id[:]...)
	v = binary.LittleEndian.AppendUint64(v, uint64(st.committed))
	return tx.Set([]byte(stateKey), v)
}
