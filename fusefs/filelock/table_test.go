package filelock

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

func own(m, id uint64) Owner { return Owner{Mount: m, ID: id} }

func lk(o Owner, start, end uint64, write bool) Lock {
	return Lock{Owner: o, Start: start, End: end, Write: write, Handle: o.ID}
}

func expect(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) && err != kind {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

func TestSharedAndExclusive(t *testing.T) {
	tb := NewTable(Grace)
	a, b := own(1, 1), own(2, 1)
	expect(t, tb.Set(9, lk(a, 0, 9, false), nil), nil)
	expect(t, tb.Set(9, lk(b, 5, 20, false), nil), nil)
	expect(t, tb.Set(9, lk(b, 5, 5, true), nil), backend.WouldBlock)
	expect(t, tb.Set(9, lk(b, 10, 20, true), nil), nil)
	expect(t, tb.Set(8, lk(b, 0, MaxEnd, true), nil), nil)
	if _, ok := tb.Test(9, lk(a, 8, 9, true)); !ok {
		t.Error("no lock in the way of a write lock on 8-9")
	}
	tb.Unlock(9, a, 0, MaxEnd)
	tb.Unlock(9, b, 0, MaxEnd)
	tb.ReleaseMount(2)
	if !tb.Empty() {
		t.Error("locks left")
	}
}

// TestFirstInTheWay: F_GETLK tells of the lock that Linux would: of the first
// owner's, and of his the first by its bytes, in whatever order they were taken.
func TestFirstInTheWay(t *testing.T) {
	tb := NewTable(Grace)
	a, b, c := own(1, 1), own(2, 1), own(1, 2)
	first := func(from uint64, by Owner, want Lock) {
		t.Helper()
		got, ok := tb.Test(1, lk(by, from, MaxEnd, true))
		if !ok || got != want {
			t.Errorf("first in the way from byte %d: %+v, %v, want %+v", from, got, ok, want)
		}
	}
	expect(t, tb.Set(1, lk(b, 90, 99, false), nil), nil)
	expect(t, tb.Set(1, lk(a, 10, 14, true), nil), nil)
	expect(t, tb.Set(1, lk(a, 1, 5, false), nil), nil) // before what he has
	first(0, c, lk(b, 90, 99, false))
	first(0, b, lk(a, 1, 5, false))
	expect(t, tb.Set(1, lk(a, 3, 12, false), nil), nil) // over both: joined with the one, cuts the other
	first(0, b, lk(a, 1, 12, false))
	first(13, b, lk(a, 13, 14, true))
	tb.Unlock(1, a, 5, 8)
	first(0, b, lk(a, 1, 4, false))
	first(5, b, lk(a, 9, 12, false))
	expect(t, tb.Set(1, lk(b, 20, 30, true), nil), nil)
	first(0, c, lk(b, 20, 30, true))
	first(0, a, lk(b, 20, 30, true))
	tb.Unlock(1, b, 0, MaxEnd)
	expect(t, tb.Set(1, lk(b, 40, 41, true), nil), nil) // he came last now
	first(0, c, lk(a, 1, 4, false))
}

func TestReleaseByHandle(t *testing.T) {
	tb := NewTable(Grace)
	l := lk(own(1, 1), 0, MaxEnd, true)
	l.Handle = 7
	expect(t, tb.Set(1, l, nil), nil)
	tb.ReleaseHandle(1, 2, 7) // another mount's handle of that number
	expect(t, tb.Set(1, lk(own(2, 2), 0, 0, false), nil), backend.WouldBlock)
	tb.ReleaseHandle(1, 1, 7)
	expect(t, tb.Set(1, lk(own(2, 2), 0, 0, false), nil), nil)
}

func TestWaitAndInterrupt(t *testing.T) {
	tb := NewTable(Grace)
	a, b, c := own(1, 1), own(1, 2), own(1, 3)
	expect(t, tb.Set(1, lk(a, 0, MaxEnd, true), nil), nil)
	got, cancel := make(chan error, 2), make(chan struct{})
	go func() { got <- tb.Set(1, lk(b, 0, 0, true), cancel) }()
	time.Sleep(20 * time.Millisecond)
	close(cancel)
	expect(t, <-got, backend.Interrupted)
	go func() { got <- tb.Set(1, lk(c, 0, 0, true), make(chan struct{})) }()
	time.Sleep(20 * time.Millisecond)
	tb.Unlock(1, a, 0, MaxEnd)
	expect(t, <-got, nil)
	tb.ReleaseMount(1)
	if !tb.Empty() {
		t.Error("locks left")
	}
}

func TestDeadlock(t *testing.T) {
	tb := NewTable(Grace)
	a, b, c := own(1, 1), own(1, 2), own(1, 3)
	for i, o := range []Owner{a, b, c} {
		expect(t, tb.Set(1, lk(o, uint64(i), uint64(i), true), nil), nil)
	}
	forever := make(chan struct{})
	got := make(chan error, 2)
	go func() { got <- tb.Set(1, lk(a, 1, 1, true), forever) }()
	go func() { got <- tb.Set(1, lk(b, 2, 2, true), forever) }()
	time.Sleep(20 * time.Millisecond)
	expect(t, tb.Set(1, lk(c, 0, 0, true), forever), backend.Deadlock)
	tb.Unlock(1, c, 0, MaxEnd)
	expect(t, <-got, nil)
	tb.Unlock(1, b, 0, MaxEnd)
	expect(t, <-got, nil)
}

func TestLazyLockIsWaitedFor(t *testing.T) {
	const grace = 50 * time.Millisecond
	tb := NewTable(grace)
	l := lk(own(1, 1), 0, MaxEnd, true)
	l.Lazy = true
	expect(t, tb.Set(1, l, nil), nil)
	start := time.Now()
	expect(t, tb.Set(1, lk(own(2, 1), 0, MaxEnd, true), nil), backend.WouldBlock)
	if d := time.Since(start); d < grace {
		t.Errorf("gave up after %v", d)
	}
	tb = NewTable(time.Minute)
	expect(t, tb.Set(1, l, nil), nil)
	time.AfterFunc(grace, func() { tb.ReleaseHandle(1, 1, 1) })
	expect(t, tb.Set(1, lk(own(2, 1), 0, MaxEnd, true), nil), nil)
}

// TestConvertGivesUpFirst: two that share and both want it for themselves, as
// flock(2) lets one have it.
func TestConvertGivesUpFirst(t *testing.T) {
	tb := NewTable(Grace)
	a, b := own(1, 1), own(1, 2)
	expect(t, tb.Convert(1, lk(a, 0, MaxEnd, false), nil), nil)
	expect(t, tb.Convert(1, lk(b, 0, MaxEnd, false), nil), nil)
	got := make(chan error, 1)
	go func() { got <- tb.Convert(1, lk(a, 0, MaxEnd, true), make(chan struct{})) }()
	time.Sleep(20 * time.Millisecond)
	expect(t, tb.Convert(1, lk(b, 0, MaxEnd, true), make(chan struct{})), nil)
	tb.Unlock(1, b, 0, MaxEnd)
	expect(t, <-got, nil)
}

// TestAgainstModel: random requests on 16 bytes, against an array of who holds
// what.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, owners = 16, 4
		type cell [owners]int8 // 0 none, 1 read, 2 write
		var model [size]cell
		tb := NewTable(Grace)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			o := rapid.IntRange(0, owners-1).Draw(t, "owner")
			s := rapid.IntRange(0, size-1).Draw(t, "start")
			e := rapid.IntRange(s, size-1).Draw(t, "end")
			kind := int8(rapid.IntRange(0, 2).Draw(t, "kind"))
			if kind == 0 {
				tb.Unlock(1, own(0, uint64(o)), uint64(s), uint64(e))
				for i := s; i <= e; i++ {
					model[i][o] = 0
				}
				continue
			}
			free := true
			for i := s; i <= e; i++ {
				for other, held := range model[i] {
					if other != o && held > 0 && (held == 2 || kind == 2) {
						free = false
					}
				}
			}
			err := tb.Set(1, lk(own(0, uint64(o)), uint64(s), uint64(e), kind == 2), nil)
			if (err == nil) != free {
				t.Fatalf("set %d-%d kind %d by %d: %v, model says free %v", s, e, kind, o, err, free)
			}
			if free {
				for i := s; i <= e; i++ {
					model[i][o] = kind
				}
			}
		}
		held := false
		for i := range model {
			for o, k := range model[i] {
				held = held || k > 0
				_, blocked := tb.Test(1, lk(own(9, 9), uint64(i), uint64(i), true))
				if k > 0 && !blocked {
					t.Fatalf("byte %d of owner %d is not held", i, o)
				}
			}
		}
		if held == tb.Empty() {
			t.Fatalf("empty %v, model %v", tb.Empty(), model)
		}
	})
}

// TestRevoke: a mount loses what it holds and what it waits for on one node,
// and nothing else.
func TestRevoke(t *testing.T) {
	tb := NewTable(Grace)
	a, b, c := own(1, 1), own(2, 2), own(2, 3)
	expect(t, tb.Set(9, lk(a, 0, 9, true), nil), nil)
	expect(t, tb.Set(9, lk(b, 20, 29, true), nil), nil)
	expect(t, tb.Set(8, lk(b, 0, 9, true), nil), nil)
	got := make(chan error, 1)
	go func() { got <- tb.Set(9, lk(c, 0, 9, true), make(chan struct{})) }()
	for len(tb.Nodes(2)) > 0 {
		tb.mu.Lock()
		n := len(tb.nodes[9].waiting)
		tb.mu.Unlock()
		if n > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := len(tb.Nodes(2)); n != 2 {
		t.Errorf("mount 2 is on %d nodes, want 2", n)
	}
	tb.Revoke(9, 2)
	select {
	case err := <-got:
		expect(t, err, backend.NotFound)
	case <-waits.After(t, time.Minute):
		t.Fatal("the wait goes on")
	}
	expect(t, tb.Set(9, lk(a, 0, MaxEnd, true), nil), nil)
	expect(t, tb.Set(8, lk(a, 0, 0, true), nil), backend.WouldBlock)
	tb.Unlock(9, a, 0, MaxEnd)
	tb.Revoke(8, 2)
	if !tb.Empty() || len(tb.Nodes(2)) > 0 {
		t.Error("locks left")
	}
}
