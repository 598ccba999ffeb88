package writeback

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/txlimit"
)

// tx is one transaction over the overlay and the driver. A View has a snapshot
// and no changes of its own; an Update has changes and reads the overlay itself,
// which stays as it is because the Update holds the writer's lock.
type tx struct {
	s      *Store
	ctx    context.Context
	snap   *snapshot
	own    *changeSet
	view   *holder // of the driver; opened when first needed
	pinned bool    // snap is pinned
	done   bool
}

var _ backend.Tx = (*tx)(nil)

func (t *tx) usable(op string) error {
	if t.done {
		return &backend.Error{Op: op, Kind: backend.Invalid, Err: errors.New("the transaction has ended")}
	}
	return nil
}

// Get looks at the transaction's own changes, the overlay, the driver.
func (t *tx) Get(key []byte) ([]byte, error) {
	if err := t.usable("get"); err != nil {
		return nil, err
	}
	if err := txlimit.CheckKey("get", key); err != nil {
		return nil, err
	}
	if t.own != nil {
		if c := t.own.find(key); c != nil {
			return found(c.value, c.op != opSet)
		}
	}
	if e, ok := t.pending(key); ok {
		return found(e.value, e.deleted)
	}
	if hidden(key) {
		return nil, backend.NotFound
	}
	return t.committed(key)
}

// committed looks key up in the driver. Drivers that map files ask in their
// View that faults become panics, for that goroutine; this one may be another.
func (t *tx) committed(key []byte) ([]byte, error) {
	d, err := t.driver()
	if err != nil {
		return nil, err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return d.Get(key)
}

func found(value []byte, deleted bool) ([]byte, error) {
	if deleted {
		return nil, backend.NotFound
	}
	return value, nil
}

// pending looks key up in the overlay.
func (t *tx) pending(key []byte) (*entry, bool) {
	if t.snap != nil {
		return t.snap.tree.Get(asString(key))
	}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	return t.s.over.tree.Get(asString(key))
}

// Set stores value under key. Errors: Invalid, TooBig, ReadOnly in a View.
func (t *tx) Set(key, value []byte) error {
	if err := t.changeable("set", key); err != nil {
		return err
	}
	if err := txlimit.CheckValue("set", value); err != nil {
		return err
	}
	return t.own.put(opSet, key, value)
}

// Delete removes key. Errors as Set.
func (t *tx) Delete(key []byte) error {
	if err := t.changeable("delete", key); err != nil {
		return err
	}
	return t.own.put(opDelete, key, nil)
}

func (t *tx) changeable(op string, key []byte) error {
	if err := t.usable(op); err != nil {
		return err
	}
	if t.own == nil {
		return &backend.Error{Op: op, Kind: backend.ReadOnly, Err: errors.New("a View changes nothing")}
	}
	if err := txlimit.CheckKey(op, key); err != nil {
		return err
	}
	if hidden(key) {
		return &backend.Error{Op: op, Kind: backend.Invalid, Err: errors.New("the key is reserved")}
	}
	return nil
}

// Scan merges own changes, overlay and driver. It sees the changes the
// transaction made before it and none made meanwhile.
func (t *tx) Scan(start, end []byte, fn func(key, value []byte) error) error {
	if err := t.usable("scan"); err != nil {
		return err
	}
	d, err := t.driver()
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as in committed
	m := merge{top: t.layer(start, end), fn: fn}
	return m.end(d.Scan(start, end, m.below))
}

// ScanKeys is Scan without reading values from the driver.
func (t *tx) ScanKeys(start, end []byte, fn func(key []byte) error) error {
	if err := t.usable("scan"); err != nil {
		return err
	}
	d, err := t.driver()
	if err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as in committed
	m := merge{top: t.layer(start, end), fn: func(key, _ []byte) error { return fn(key) }}
	return m.end(d.ScanKeys(start, end, func(key []byte) error { return m.below(key, nil) }))
}

// driver gives the driver's transaction, opening a view when there is none yet.
func (t *tx) driver() (backend.Tx, error) {
	if t.view == nil {
		if err := t.s.openView(t); err != nil {
			return nil, err
		}
	}
	return t.view.tx, nil
}

// openView gives t a driver view that fits what t reads: its snapshot, or the
// overlay as it is while t holds the writer's lock.
func (s *Store) openView(t *tx) error {
	s.mu.Lock()
	low, high := s.over.trimmed, s.over.last
	if t.snap != nil {
		low, high = t.snap.trimmed, t.snap.lsn
	}
	h := s.takeView(t.snap, low, high)
	if h == nil {
		s.mu.Unlock()
		opened, err := s.views.open(t.ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		h = opened
		if h.committed > high { // a commit came between; the committer reserved a view before
			s.views.keep(opened, s.over.trimmed)
			h = s.takeView(t.snap, low, high)
		} else {
			s.views.use()
		}
	}
	if t.pinned {
		t.pinned = false
		s.unpin(t.snap)
	}
	t.view = h
	s.mu.Unlock()
	if h == nil || h.committed < low {
		return &backend.Error{Op: "view", Kind: backend.IO,
			Err: fmt.Errorf("no view of the driver at LSN %d to %d: does something else write to it?", low, high)}
	}
	return nil
}

// takeView gives an open view, one reserved for snap before all others, or nil; mu held.
func (s *Store) takeView(snap *snapshot, low, high backend.LSN) *holder {
	if snap == nil || len(snap.reserved) == 0 {
		return s.views.take(low, high)
	}
	h := snap.reserved[len(snap.reserved)-1]
	snap.reserved = snap.reserved[:len(snap.reserved)-1]
	s.views.use()
	return h
}

// unpin ends a pin; mu held.
func (s *Store) unpin(snap *snapshot) {
	if h := s.over.unpin(snap); h != nil {
		s.views.keep(h, s.over.trimmed)
	}
}

// release gives back what t holds; mu held.
func (s *Store) release(t *tx) {
	t.done = true
	if t.pinned {
		t.pinned = false
		s.unpin(t.snap)
	}
	if t.view != nil {
		s.views.put(t.view, s.over.trimmed)
		t.view = nil
	}
}

// hidden tells whether key is writeback's own.
func hidden(key []byte) bool {
	return key[0] == 0 && (string(key) == stateKey || string(key) == generationKey)
}
