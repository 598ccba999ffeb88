package fusefs

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
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

// TestEchoes: a file that another mount changes is told of once more if the thread
// that was answered its attributes may not have taken them in.
func TestEchoes(t *testing.T) {
	const node = 7
	for _, c := range []struct {
		name string
		then func(k *kernel)
		want bool
	}{
		{"nothing since", func(*kernel) {}, true},
		{"another thread", func(k *kernel) { k.alive(2) }, true},
		{"the same thread", func(k *kernel) { k.alive(1) }, false},
		{"long ago", func(k *kernel) { k.start = k.start.Add(-2 * blindTime) }, false},
	} {
		k := newKernel(nil)
		k.hold(node)
		k.asking(1, node)
		k.blind(node)
		c.then(k)
		got := k.collect([]view.Change{{Kind: view.AttrChanged, Node: node}})
		if got == nil || len(got.inodes) != 1 || got.inodes[0].echo != c.want {
			t.Errorf("%s: %+v, want echo %v", c.name, got, c.want)
		}
	}
}

// TestQuietly: what no change waits for is sent when nothing is asked of the file, however
// long that takes, and does not wait for ever for the mount to rest.
func TestQuietly(t *testing.T) {
	const node = 7
	for what, ask := range map[string]func(k *kernel){
		"attributes": func(k *kernel) { k.asking(1, node) },
		"its name":   func(k *kernel) { k.Entry(1, "x", &backend.Attr{Node: node}) },
		"bytes":      func(k *kernel) { k.reading(node, 1, 0, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			k := newKernel(nil)
			k.hold(node)
			k.busy = func() bool { k.asking(2, 0); return true } // names that lead elsewhere
			sent := make(chan time.Time, 1)
			start := time.Now()
			k.quietly(node, func() { sent <- time.Now() })
			for last, early := start, false; time.Since(start) < 2*(echoDelay+blindTime); {
				ask(k)
				select {
				case <-sent:
					early = true
				case <-time.After(time.Millisecond):
				}
				if time.Since(last) > settleTime {
					return // this machine was too slow to tell
				}
				if last = time.Now(); early {
					t.Fatalf("sent after %v, while the file was asked about", time.Since(start))
				}
			}
			select {
			case <-sent:
			case <-waits.After(t, time.Minute):
				t.Error("it was not sent")
			}
			if k.mu.Lock(); len(k.resting) != 0 {
				t.Error("it is not forgotten")
			}
			k.mu.Unlock()
		})
	}
}

// TestQuietlyOfWhatIsForgotten: it is not sent.
func TestQuietlyOfWhatIsForgotten(t *testing.T) {
	const node = 7
	k := newKernel(nil)
	k.hold(node)
	var sent atomic.Bool
	k.quietly(node, func() { sent.Store(true) })
	k.forget(node, 1)
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		left := len(k.resting)
		k.mu.Unlock()
		if left == 0 {
			break
		}
		if end.Passed() {
			t.Fatal("it waits for ever")
		}
	}
	if sent.Load() {
		t.Error("it was sent")
	}
}
