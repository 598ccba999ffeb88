package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

// timeout bounds each call into a store.
const timeout = time.Minute

// Fixture is one store under test.
type Fixture struct {
	// Store is open and empty. The suite closes it.
	Store backend.Store
	// Reopen opens the store again after the one opened last was closed.
	Reopen func(t testing.TB) backend.Store
	// Crash gives an independent store with what a crash at this moment may
	// leave: the state after some Update, not before the last one WaitDurable
	// acknowledged. It is called while no call runs; the store under test goes
	// on. Each call gives a store of its own, which the suite closes. nil: the
	// driver cannot tell.
	Crash func(t testing.TB) backend.Store
	// Reserved: the store takes keys under backend.ReservedPrefix, as a driver
	// does that layers are put over.
	Reserved bool
}

// Factory makes a fixture with a new, empty store. What it needs to remove it
// leaves to t.Cleanup, which runs after the suite closed the store.
type Factory func(t testing.TB) Fixture

// TestStore runs the conformance suite, a subtest for each promise.
func TestStore(t *testing.T, open Factory) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *harness)
	}{
		{"GetSetDelete", testGetSetDelete},
		{"BytesAreKept", testBytesAreKept},
		{"SlicesAreCopied", testSlicesAreCopied},
		{"GetLastsUntilTheEnd", testGetLastsUntilTheEnd},
		{"ScanOrder", testScanOrder},
		{"ScanBounds", testScanBounds},
		{"ScanPrefix", testScanPrefix},
		{"ScanEnds", testScanEnds},
		{"ScanSeesOwnChanges", testScanSeesOwnChanges},
		{"ScanWhileChanging", testScanWhileChanging},
		{"ScanInsideScan", testScanInsideScan},
		{"ViewChangesNothing", testViewChangesNothing},
		{"ErrorRollsBack", testErrorRollsBack},
		{"KeyLimits", testKeyLimits},
		{"ValueLimit", testValueLimit},
		{"UpdateBytesLimit", testUpdateBytesLimit},
		{"UpdateKeysLimit", testUpdateKeysLimit},
		{"UpdateBothLimits", testUpdateBothLimits},
		{"LimitsCountEachKeyOnce", testLimitsCountEachKeyOnce},
		{"ReservedKeysCountNothing", testReservedKeys},
		{"LSNsHaveNoGaps", testLSNsHaveNoGaps},
		{"ViewIsASnapshot", testViewIsASnapshot},
		{"ViewSeesReturnedUpdates", testViewSeesReturnedUpdates},
		{"UpdatesAreSerializable", testUpdatesAreSerializable},
		{"NoWriteSkew", testNoWriteSkew},
		{"WaitDurable", testWaitDurable},
		{"CancelledContext", testCancelledContext},
		{"CancelledWhileWaiting", testCancelledWhileWaiting},
		{"ClosedIsUnavailable", testClosedIsUnavailable},
		{"CloseWaits", testCloseWaits},
		{"ReopenKeepsEverything", testReopenKeepsEverything},
		{"ReopenManyTimes", testReopenManyTimes},
		{"CrashKeepsADurablePrefix", testCrash},
		{"RandomOperations", testRandomOperations},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newHarness(t, open)) })
	}
}

// harness is a fixture with the calls the tests make all the time. Its methods
// but reopen and close may be used in any goroutine.
type harness struct {
	t   *testing.T
	fix Fixture
	s   backend.Store
}

func newHarness(t *testing.T, open Factory) *harness {
	t.Helper()
	fix := open(t)
	h := &harness{t: t, fix: fix, s: fix.Store}
	t.Cleanup(func() {
		if h.s != nil {
			h.close()
		}
	})
	return h
}

func (h *harness) close() {
	h.t.Helper()
	if err := h.s.Close(); err != nil {
		h.t.Errorf("Close: %v", err)
	}
	h.s = nil
}

func (h *harness) reopen() {
	h.t.Helper()
	h.close()
	h.s = h.fix.Reopen(h.t)
}

func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

// update runs an Update that must succeed.
func (h *harness) update(fn func(backend.Tx) error) backend.LSN {
	h.t.Helper()
	lsn, err := h.tryUpdate(fn)
	if err != nil {
		h.t.Fatalf("Update: %v", err)
	}
	return lsn
}

func (h *harness) tryUpdate(fn func(backend.Tx) error) (backend.LSN, error) {
	ctx, cancel := background()
	defer cancel()
	return h.s.Update(ctx, fn)
}

// view runs a View that must succeed.
func (h *harness) view(fn func(backend.Tx) error) {
	h.t.Helper()
	if err := view(h.s, fn); err != nil {
		h.t.Fatalf("View: %v", err)
	}
}

func view(s backend.Store, fn func(backend.Tx) error) error {
	ctx, cancel := background()
	defer cancel()
	return s.View(ctx, fn)
}

// set stores pairs (key, value, key, value, …) in one Update.
func (h *harness) set(pairs ...string) backend.LSN {
	h.t.Helper()
	return h.update(func(tx backend.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Set([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

// holds checks that the store holds exactly pairs, in order, in one View.
func (h *harness) holds(pairs ...string) {
	h.t.Helper()
	h.view(func(tx backend.Tx) error { return holds(tx, pairs) })
}

// holds checks that tx shows exactly pairs, in order, by all three reads.
func holds(tx backend.Tx, pairs []string) error {
	got, err := scanAll(tx, nil, nil)
	if err != nil {
		return err
	}
	if err := same(got, pairs); err != nil {
		return err
	}
	keys, err := scanKeys(tx, nil, nil)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if 2*i >= len(pairs) || k != pairs[2*i] {
			return fmt.Errorf("ScanKeys: key %d is %q, Scan has %q", i, k, pairs)
		}
	}
	if 2*len(keys) != len(pairs) {
		return fmt.Errorf("ScanKeys: %d keys, want %d", len(keys), len(pairs)/2)
	}
	for i := 0; i < len(pairs); i += 2 {
		v, err := tx.Get([]byte(pairs[i]))
		if err != nil || string(v) != pairs[i+1] {
			return fmt.Errorf("Get(%.40q) = %.40q, %v, want %.40q", pairs[i], v, err, pairs[i+1])
		}
	}
	return nil
}

// scanAll gives the pairs of [start, end) in the order of a Scan.
func scanAll(tx backend.Tx, start, end []byte) ([]string, error) {
	var pairs []string
	err := tx.Scan(start, end, func(k, v []byte) error {
		pairs = append(pairs, string(k), string(v))
		return nil
	})
	return pairs, err
}

func scanKeys(tx backend.Tx, start, end []byte) ([]string, error) {
	var keys []string
	err := tx.ScanKeys(start, end, func(k []byte) error {
		keys = append(keys, string(k))
		return nil
	})
	return keys, err
}

// same tells where two lists of pairs differ.
func same(got, want []string) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("pair %d: got %.60q, want %.60q", i/2, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d keys, want %d", len(got)/2, len(want)/2)
	}
	return nil
}

// absent checks that tx has no key.
func absent(tx backend.Tx, key string) error {
	v, err := tx.Get([]byte(key))
	if err == nil {
		return fmt.Errorf("Get(%.40q) = %.40q, want NotFound", key, v)
	}
	if backend.KindOf(err) != backend.NotFound {
		return fmt.Errorf("Get(%.40q): %v, want NotFound", key, err)
	}
	return nil
}

// isKind complains unless err is of kind.
func isKind(t *testing.T, what string, err error, kind backend.Kind) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want kind %q", what, kind)
	} else if got := backend.KindOf(err); got != kind {
		t.Errorf("%s: %v (kind %q), want kind %q", what, err, got, kind)
	}
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

var errTest = errors.New("an error of the test")
