package writeback

import (
	"github.com/tidwall/btree"
	"github.com/warrenfs/warren/backend"
)

// layer walks the keys of a range that are not in the driver yet, ascending:
// the transaction's own changes over those of the overlay.
type layer struct {
	own  []change
	iter btree.MapIter[string, *entry]
	more bool // iter is at a key of the range
	last string
	open bool // there is no last key

	// What the layer is at:
	ok      bool
	key     string
	value   []byte
	deleted bool
}

// layer starts a walk of [start, end).
func (t *tx) layer(start, end []byte) *layer {
	l := &layer{open: end == nil, last: string(end)}
	snap := t.snap
	if t.own != nil {
		l.own = t.own.sorted(start, end)
		t.s.mu.Lock()
		snap = t.s.over.snapshot()
		t.s.mu.Unlock()
	}
	if snap.tree.Len() > 0 {
		l.iter = snap.tree.Iter()
		l.more = l.iter.Seek(string(start)) && l.within(l.iter.Key())
	}
	l.next()
	return l
}

func (l *layer) within(key string) bool { return l.open || key < l.last }

// next moves to the following key.
func (l *layer) next() {
	switch {
	case len(l.own) > 0 && (!l.more || l.own[0].key <= l.iter.Key()):
		c := &l.own[0]
		if l.more && c.key == l.iter.Key() {
			l.step()
		}
		l.ok, l.key, l.value, l.deleted = true, c.key, c.value, c.op == opDelete
		l.own = l.own[1:]
	case l.more:
		e := l.iter.Value()
		l.ok, l.key, l.value, l.deleted = true, e.key, e.value, e.deleted
		l.step()
	default:
		l.ok = false
	}
}

func (l *layer) step() { l.more = l.iter.Next() && l.within(l.iter.Key()) }

// merge is one Scan: the layer over the driver.
type merge struct {
	top  *layer
	fn   func(key, value []byte) error
	stop error // what fn ended the scan with
}

// emit gives the layer's key to fn, unless it is deleted there, and moves on.
func (m *merge) emit() error {
	l := m.top
	key, value, deleted := l.key, l.value, l.deleted
	l.next()
	if deleted {
		return nil
	}
	m.stop = m.fn(asBytes(key), value)
	return m.stop
}

// below takes the driver's next key.
func (m *merge) below(key, value []byte) error {
	l := m.top
	for l.ok && l.key < string(key) {
		if m.emit() != nil {
			return backend.ErrStop
		}
	}
	if l.ok && l.key == string(key) {
		if m.emit() != nil {
			return backend.ErrStop
		}
		return nil
	}
	if hidden(key) {
		return nil
	}
	if m.stop = m.fn(key, value); m.stop != nil {
		return backend.ErrStop
	}
	return nil
}

// end finishes the scan after the driver's part of it ended with err.
func (m *merge) end(err error) error {
	for err == nil && m.stop == nil && m.top.ok {
		_ = m.emit() // sets m.stop
	}
	if err != nil {
		return err
	}
	if m.stop == backend.ErrStop {
		return nil
	}
	return m.stop
}
