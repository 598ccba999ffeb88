package fusefs

import (
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

// TestAskers: a file is asked for by several threads if two of them did within
// the time that an answer may take, or if another file has its place.
func TestAskers(t *testing.T) {
	const blind = uint32(blindTime / time.Millisecond)
	for _, c := range []struct {
		name string
		asks func(l *askers)
		now  uint32
		want bool
	}{
		{"nobody", func(*askers) {}, 5, false},
		{"one thread", func(l *askers) { l.note(7, 1, 0); l.note(7, 1, 5) }, 6, false},
		{"two threads", func(l *askers) { l.note(7, 1, 0); l.note(7, 2, 5); l.note(7, 2, 6) }, 7, true},
		{"two threads, long ago", func(l *askers) { l.note(7, 1, 0); l.note(7, 2, 5) }, 5 + blind, false},
		{"two threads, one long ago", func(l *askers) { l.note(7, 1, 0); l.note(7, 2, blind) }, blind + 1, false},
		{"a thread without a number", func(l *askers) { l.note(7, 0, 0) }, 1, true},
		{"another file in its place", func(l *askers) { l.note(7, 1, 0); l.note(twin(l, 7), 1, 1) }, 2, true},
		{"back in its place", func(l *askers) { l.note(7, 1, 0); l.note(twin(l, 7), 1, 1); l.note(7, 1, 2) }, 3, true},
	} {
		var l askers
		c.asks(&l)
		if got := l.several(7, c.now); got != c.want {
			t.Errorf("%s: several is %v", c.name, got)
		}
	}
}

// twin is another node that has the same place.
func twin(l *askers, node backend.NodeID) backend.NodeID {
	other := node + 1
	for l.place(other) != l.place(node) {
		other++
	}
	return other
}
