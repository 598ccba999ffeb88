package backendtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

func testLSNsHaveNoGaps(t *testing.T, h *harness) {
	if lsn := h.set("a", "1"); lsn != 1 {
		t.Errorf("the first Update has LSN %d, want 1", lsn)
	}
	for want := backend.LSN(2); want <= 20; want++ {
		if want%5 == 0 {
			if _, err := h.tryUpdate(func(backend.Tx) error { return errTest }); err != errTest {
				t.Fatal(err)
			}
			if _, err := h.tryUpdate(func(tx backend.Tx) error {
				return tx.Set([]byte("a"), fill('v', backend.MaxValue+1))
			}); err == nil {
				t.Fatal("an Update over a limit: no error")
			}
			h.view(func(backend.Tx) error { return nil })
		}
		if lsn := h.set("a", fmt.Sprint(want)); lsn != want {
			t.Fatalf("LSN %d, want %d", lsn, want)
		}
	}
	// An Update that changes nothing may have an LSN of its own or none.
	lsn := h.update(func(tx backend.Tx) error { return absent(tx, "b") })
	if lsn != 20 && lsn != 21 {
		t.Errorf("an Update without changes has LSN %d, want 20 or 21", lsn)
	}
	if next := h.set("b", ""); next != lsn+1 {
		t.Errorf("the LSN after it is %d, want %d", next, lsn+1)
	}
}

// testViewIsASnapshot keeps Views open while Updates change, add and delete
// what they look at.
func testViewIsASnapshot(t *testing.T, h *harness) {
	const rounds = 8
	state := func(i int) []string {
		return []string{"a", fmt.Sprint(i), fmt.Sprintf("b%d", i), "only now", "c", string(fill('v', i))}
	}
	h.set(state(0)...)
	opened, release := make(chan struct{}), make(chan struct{})
	var views sync.WaitGroup
	for i := range rounds {
		views.Go(func() {
			if err := view(h.s, func(tx backend.Tx) error {
				before := holds(tx, state(i))
				opened <- struct{}{}
				<-release
				return errors.Join(before, holds(tx, state(i)))
			}); err != nil {
				t.Errorf("the View of state %d: %v", i, err)
			}
		})
		<-opened
		next := state(i + 1)
		h.update(func(tx backend.Tx) error {
			if err := tx.Delete(fmt.Appendf(nil, "b%d", i)); err != nil {
				return err
			}
			for j := 0; j < len(next); j += 2 {
				if err := tx.Set([]byte(next[j]), []byte(next[j+1])); err != nil {
					return err
				}
			}
			return nil
		})
		h.holds(next...)
	}
	close(release)
	views.Wait()
	h.holds(state(rounds)...)
}

// testViewSeesReturnedUpdates has readers beside a writer: what returned before
// a View started is in it, all of an Update or none, and it never goes back.
func testViewSeesReturnedUpdates(t *testing.T, h *harness) {
	const updates, readers = 300, 4
	put := func(tx backend.Tx, i uint64) error {
		for _, k := range []string{"a", "m", "z"} {
			if err := tx.Set([]byte(k), binary.BigEndian.AppendUint64(nil, i)); err != nil {
				return err
			}
		}
		return nil
	}
	h.update(func(tx backend.Tx) error { return put(tx, 0) })
	var returned atomic.Uint64
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for returned.Load() < updates {
				least := returned.Load()
				err := view(h.s, func(tx backend.Tx) error {
					a, err := tx.Get([]byte("a"))
					if err != nil {
						return err
					}
					if got := binary.BigEndian.Uint64(a); got < least {
						return fmt.Errorf("saw Update %d after %d had returned", got, least)
					}
					return tx.Scan(nil, nil, func(k, v []byte) error {
						if !bytes.Equal(v, a) {
							return fmt.Errorf("%s is %x where a is %x", k, v, a)
						}
						return nil
					})
				})
				if err != nil {
					t.Errorf("View: %v", err)
					return
				}
			}
		})
	}
	for i := uint64(1); i <= updates; i++ {
		if _, err := h.tryUpdate(func(tx backend.Tx) error { return put(tx, i) }); err != nil {
			t.Errorf("Update: %v", err)
			returned.Store(updates)
			break
		}
		returned.Store(i)
	}
	wg.Wait()
}

// testUpdatesAreSerializable counts up from many goroutines: no increment is
// lost, and LSNs are without gaps and in the order of the increments.
func testUpdatesAreSerializable(t *testing.T, h *harness) {
	const workers, each = 8, 40
	counter := []byte("counter")
	h.update(func(tx backend.Tx) error { return tx.Set(counter, make([]byte, 8)) })
	type step struct {
		lsn   backend.LSN
		value uint64
	}
	steps := make([][]step, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				var s step
				lsn, err := h.tryUpdate(func(tx backend.Tx) error {
					v, err := tx.Get(counter)
					if err != nil {
						return err
					}
					s.value = binary.BigEndian.Uint64(v) + 1
					time.Sleep(10 * time.Microsecond) // long enough to meet another
					return tx.Set(counter, binary.BigEndian.AppendUint64(nil, s.value))
				})
				if err != nil {
					t.Errorf("Update: %v", err)
					return
				}
				s.lsn = lsn
				steps[w] = append(steps[w], s)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(steps...)
	slices.SortFunc(all, func(a, b step) int { return int(a.lsn) - int(b.lsn) })
	for i, s := range all {
		if s.lsn != backend.LSN(i+2) || s.value != uint64(i+1) {
			t.Fatalf("in order of LSNs, step %d has LSN %d and value %d, want %d and %d", i, s.lsn, s.value, i+2, i+1)
		}
	}
	if len(all) != workers*each {
		t.Errorf("%d steps, want %d", len(all), workers*each)
	}
	h.holds(string(counter), string(binary.BigEndian.AppendUint64(nil, workers*each)))
}

// testNoWriteSkew has two goroutines that each set their own key unless the
// other's is set: under any serial order one of them finds the other's.
func testNoWriteSkew(t *testing.T, h *harness) {
	for i := range 50 {
		var wg sync.WaitGroup
		for _, me := range []string{"x", "y"} {
			wg.Go(func() {
				_, err := h.tryUpdate(func(tx backend.Tx) error {
					found, err := scanKeys(tx, fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, "%03d/~", i))
					if err != nil || len(found) > 0 {
						return err
					}
					time.Sleep(10 * time.Microsecond)
					return tx.Set(fmt.Appendf(nil, "%03d/%s", i, me), nil)
				})
				if err != nil {
					t.Errorf("Update: %v", err)
				}
			})
		}
		wg.Wait()
	}
	countKeys(h, 50)
}

func testCancelledContext(t *testing.T, h *harness) {
	last := h.set("a", "1")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ran := false
	_, err := h.s.Update(ctx, func(tx backend.Tx) error {
		ran = true
		return tx.Set([]byte("a"), []byte("2"))
	})
	isKind(t, "Update with a cancelled context", err, backend.Interrupted)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap context.Canceled", err)
	}
	err = h.s.View(ctx, func(backend.Tx) error { ran = true; return nil })
	isKind(t, "View with a cancelled context", err, backend.Interrupted)
	if ran {
		t.Error("the function of a cancelled call ran")
	}
	h.holds("a", "1")
	if lsn := h.set("a", "2"); lsn != last+1 {
		t.Errorf("the next LSN is %d, want %d", lsn, last+1)
	}
}

// testCancelledWhileWaiting cancels an Update that may have to wait for
// another: it returns, and either it took effect or it did not.
func testCancelledWhileWaiting(t *testing.T, h *harness) {
	started, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	first := make(chan error, 1)
	go func() {
		_, err := h.tryUpdate(func(tx backend.Tx) error {
			once.Do(func() { close(started) })
			<-release
			return tx.Set([]byte("a"), []byte("1"))
		})
		first <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error, 1)
	go func() {
		_, err := h.s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte("b"), []byte("2")) })
		second <- err
	}()
	time.Sleep(20 * time.Millisecond) // most likely it waits by now
	cancel()
	var err error
	select { // while the first still holds on
	case err = <-second:
		close(release)
	case <-time.After(timeout):
		close(release)
		t.Fatal("a cancelled Update still waits")
	}
	if err := <-first; err != nil {
		t.Fatalf("Update: %v", err)
	}
	if err == nil {
		h.holds("a", "1", "b", "2")
		return
	}
	isKind(t, "Update cancelled while it waited", err, backend.Interrupted)
	h.holds("a", "1")
}
