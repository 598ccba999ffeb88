package backendtest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

func testWaitDurable(t *testing.T, h *harness) {
	ctx, cancel := background()
	defer cancel()
	if err := h.s.WaitDurable(ctx, 0); err != nil {
		t.Errorf("WaitDurable(0): %v", err)
	}
	var last backend.LSN
	for i := range 5 {
		last = h.set("a", fmt.Sprint(i))
	}
	for _, lsn := range []backend.LSN{2, last, 1, last, 0} {
		if err := h.s.WaitDurable(ctx, lsn); err != nil {
			t.Errorf("WaitDurable(%d) of %d: %v", lsn, last, err)
		}
	}
	// No Update has this LSN: whatever the driver does, it must not say yes.
	short, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if err := h.s.WaitDurable(short, last+1); err == nil {
		t.Error("WaitDurable of an LSN that no Update has: no error")
	}
	var wg sync.WaitGroup
	for w := range 8 { // many that wait at once, while Updates go on
		wg.Go(func() {
			for i := range 10 {
				lsn, err := h.tryUpdate(func(tx backend.Tx) error {
					return tx.Set(fmt.Appendf(nil, "w%d", w), fmt.Append(nil, i))
				})
				if err == nil {
					err = h.s.WaitDurable(ctx, lsn)
				}
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
}

func testClosedIsUnavailable(t *testing.T, h *harness) {
	lsn := h.set("a", "1")
	s := h.s
	h.close()
	ctx, cancel := background()
	defer cancel()
	ran := false
	isKind(t, "View of a closed store", s.View(ctx, func(backend.Tx) error { ran = true; return nil }), backend.Unavailable)
	_, err := s.Update(ctx, func(tx backend.Tx) error { ran = true; return tx.Set([]byte("a"), nil) })
	isKind(t, "Update of a closed store", err, backend.Unavailable)
	isKind(t, "WaitDurable of a closed store", s.WaitDurable(ctx, lsn), backend.Unavailable)
	if err := s.Close(); err != nil && backend.KindOf(err) != backend.Unavailable {
		t.Errorf("Close of a closed store: %v, want nil or Unavailable", err)
	}
	if ran {
		t.Error("a function ran on a closed store")
	}
	h.s = h.fix.Reopen(t)
	h.holds("a", "1")
}

// testCloseWaits closes while a View, an Update and many short calls run: these
// end as if nothing were, and what returned without an error is kept.
func testCloseWaits(t *testing.T, h *harness) {
	h.set("a", "1")
	var started, calls sync.WaitGroup
	release := make(chan struct{})
	started.Add(2)
	var onceView, onceUpdate sync.Once
	calls.Go(func() {
		if err := view(h.s, func(tx backend.Tx) error {
			onceView.Do(started.Done)
			<-release
			return holds(tx, []string{"a", "1"})
		}); err != nil {
			t.Errorf("the View that Close waits for: %v", err)
		}
	})
	calls.Go(func() {
		if _, err := h.tryUpdate(func(tx backend.Tx) error {
			onceUpdate.Do(started.Done)
			<-release
			if _, err := tx.Get([]byte("a")); err != nil {
				return err
			}
			return tx.Set([]byte("b"), []byte("2"))
		}); err != nil {
			t.Errorf("the Update that Close waits for: %v", err)
		}
	})
	started.Wait()
	closed := make(chan error, 1)
	s := h.s
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		t.Errorf("Close returned (%v) while calls were running", err)
		closed <- err
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	calls.Wait()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	h.s = h.fix.Reopen(t)
	h.holds("a", "1", "b", "2")
}

func testReopenKeepsEverything(t *testing.T, h *harness) {
	want := make([]string, 0, 200)
	var last backend.LSN
	for i := range 100 {
		want = append(want, fmt.Sprintf("key%03d", i), string(fill('v', i*37)))
		last = h.set(want[2*i:]...)
	}
	h.holds(want...)
	h.reopen()
	h.holds(want...)
	if lsn := h.set(want[0], "changed"); lsn != last+1 {
		t.Errorf("the first LSN after reopening is %d, want %d", lsn, last+1)
	}
	h.reopen()
	want[1] = "changed"
	h.holds(want...)
}

// testReopenManyTimes deletes everything now and then, so that the last Update
// before a Close is a deletion: LSNs go on all the same.
func testReopenManyTimes(t *testing.T, h *harness) {
	for round := backend.LSN(1); round <= 6; round += 2 {
		if lsn := h.set("a", "1"); lsn != round {
			t.Fatalf("LSN %d, want %d", lsn, round)
		}
		h.reopen()
		if lsn := h.update(func(tx backend.Tx) error { return tx.Delete([]byte("a")) }); lsn != round+1 {
			t.Fatalf("LSN %d, want %d", lsn, round+1)
		}
		h.reopen()
		h.holds()
	}
}

// testCrash takes a crash after each Update; the i-th sets "n" to i and adds
// the key i, so that a state shows which prefix it is.
func testCrash(t *testing.T, h *harness) {
	if h.fix.Crash == nil {
		t.Skip("the driver cannot crash")
	}
	durable := 0
	var want []string
	for i := 1; i <= 12; i++ {
		key := fmt.Sprintf("key%03d", i)
		lsn := h.set("n", fmt.Sprint(i), key, key)
		want = append(want, key, key)
		if i%4 == 0 {
			ctx, cancel := background()
			if err := h.s.WaitDurable(ctx, lsn); err != nil {
				t.Fatalf("WaitDurable: %v", err)
			}
			cancel()
			durable = i
		}
		after := &harness{t: t, s: h.fix.Crash(t)}
		n := 0
		after.view(func(tx backend.Tx) error {
			v, err := tx.Get([]byte("n"))
			if backend.KindOf(err) == backend.NotFound {
				return nil
			}
			_, _ = fmt.Sscan(string(v), &n)
			return err
		})
		if n < durable || n > i {
			t.Errorf("after Update %d, %d durable, a crash leaves Update %d", i, durable, n)
		}
		if n > 0 {
			after.holds(append(append([]string(nil), want[:2*n]...), "n", fmt.Sprint(n))...)
		}
		if lsn := after.set("x", ""); lsn != backend.LSN(n+1) {
			t.Errorf("after the crash the first LSN is %d, want %d", lsn, n+1)
		}
		after.close()
	}
}
