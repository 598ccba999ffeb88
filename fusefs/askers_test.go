package fusefs

import (
	"testing"
	"time"
)

// TestLateNotices: a file that grew is told of once more if a thread may not have
// taken in its old size when another read the end of it.
func TestLateNotices(t *testing.T) {
	const node, end = 7, 10_000
	grown := span{end, 2 * end}
	for _, c := range []struct {
		name string
		do   func(k *kernel)
		want bool
	}{
		{"nobody asked", func(k *kernel) {
			k.toldLate(node, grown)
			k.reading(node, 2, end, 100)
		}, false},
		{"one thread", func(k *kernel) {
			k.asking(1, node)
			k.toldLate(node, grown)
			k.reading(node, 1, end, 100)
		}, false},
		{"two threads", func(k *kernel) {
			k.asking(1, node)
			k.toldLate(node, grown)
			k.reading(node, 2, end, 100)
		}, true},
		{"two threads, a name being looked up", func(k *kernel) {
			k.asking(1, 0)
			k.toldLate(node, grown)
			k.reading(node, 2, end, 100)
		}, true},
		{"the first has done something else before it grew", func(k *kernel) {
			k.asking(1, node)
			k.alive(1)
			k.toldLate(node, grown)
			k.reading(node, 2, end, 100)
		}, false},
		{"the first has done something else before the second read", func(k *kernel) {
			k.asking(1, node)
			k.toldLate(node, grown)
			k.alive(1)
			k.reading(node, 2, end, 100)
		}, false},
		{"the second reads what was there before", func(k *kernel) {
			k.asking(1, node)
			k.toldLate(node, grown)
			k.reading(node, 2, 0, 100)
		}, false},
		{"threads without numbers", func(k *kernel) {
			k.asking(noThread, node)
			k.alive(noThread)
			k.toldLate(node, grown)
			k.reading(node, noThread, end, 100)
		}, true},
		{"it grew again", func(k *kernel) {
			k.asking(1, node)
			k.toldLate(node, grown)
			k.alive(1)
			k.asking(1, node)
			k.toldLate(node, span{2 * end, 3 * end})
			k.reading(node, 2, end, 100)
		}, true},
	} {
		k := newKernel(nil)
		c.do(k)
		k.mu.Lock()
		if got := k.late[node].needed; got != c.want {
			t.Errorf("%s: needed is %v", c.name, got)
		}
		k.mu.Unlock()
	}
}

// TestAskers: those that asked long ago are not kept.
func TestAskers(t *testing.T) {
	l := askers{}
	const blind = uint32(blindTime / time.Millisecond)
	for tid := range uint32(10 * manyAskers) {
		l.note(tid+1, 7, tid*blind/100)
	}
	if len(l) > manyAskers+1 {
		t.Errorf("%d are kept", len(l))
	}
	if n := len(l.of(7, 10*manyAskers*blind/100)); n > 100 || n < 90 {
		t.Errorf("%d of them are pending", n)
	}
}
