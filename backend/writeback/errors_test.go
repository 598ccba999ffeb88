package writeback_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

// fault makes calls into the disk fail: those from number from on, times of them.
type fault struct {
	from, times int
	err         error
	partly      int // bytes that failing writes still write; -1: all
}

func (f fault) String() string {
	return fmt.Sprintf("calls %d to %d fail (%v), writes after %d bytes", f.from, f.from+f.times-1, f.err, f.partly)
}

func (f fault) hook(c call, done bool) error {
	if done || c.N < f.from || c.N >= f.from+f.times {
		return nil
	}
	if c.Op != "write" {
		return f.err
	}
	n := f.partly
	if n < 0 {
		n = len(c.Data)
	}
	return crashdir.Partly{N: n, Err: f.err}
}

// kind is what an Update must fail with when a call into the disk failed so.
func (f fault) kind() backend.Kind {
	if f.err == syscall.ENOSPC {
		return backend.NoSpace
	}
	return backend.IO
}

// openAnyway opens a store whose first try may fail.
func openAnyway(ctx context.Context, o writeback.Options) (*writeback.Store, error) {
	s, err := writeback.Open(ctx, o)
	for range 3 {
		if err == nil {
			break
		}
		s, err = writeback.Open(ctx, o)
	}
	return s, err
}

// tolerant is run on a store whose calls may fail. What fails must have had no
// effect; what does not fail counts.
func (w *world) tolerant(ctx context.Context, s *writeback.Store, r *rand.Rand, n int, refused func(error)) {
	w.t.Helper()
	for i := range n {
		edits := plan(r, i)
		lsn, err := apply1(ctx, s, edits)
		if err != nil {
			refused(err)
		} else if lsn != w.done+1 {
			w.t.Fatalf("Update got LSN %d after %d", lsn, w.done)
		} else {
			w.states = append(w.states, w.states[w.done].with(edits))
			w.done = lsn
		}
		switch r.IntN(6) {
		case 0:
			if err := s.WaitDurable(ctx, w.done); err == nil {
				w.acked = w.done
			} else if k := backend.KindOf(err); k != backend.IO && k != w.also {
				w.t.Fatalf("WaitDurable: %v, want kind IO or %q", err, w.also)
			}
		case 1:
			_ = s.Flush(ctx)
		case 2:
			if got, err := readAll(ctx, s); err == nil && !maps.Equal(got, w.states[w.done]) {
				w.t.Fatalf("View after Update %d: %q, want %q", w.done, got, w.states[w.done])
			}
		}
	}
}

// TestDiskErrorsAnywhere fails every call into the log's directory, for one
// call and for some in a row, and crashes after each failed Update and at the end.
func TestDiskErrorsAnywhere(t *testing.T) {
	const updates = 25
	calls := 0
	for _, f := range []fault{
		{times: 1, err: syscall.EIO},
		{times: 1, err: syscall.ENOSPC, partly: 30},
		{times: 1, err: syscall.EIO, partly: -1},
		{times: 3, err: syscall.EIO, partly: 50},
		{times: 2, err: syscall.EIO, partly: -1},
		{times: 12, err: syscall.ENOSPC, partly: 40},
		{times: 9, err: syscall.EIO},
	} {
		for f.from = 1; calls == 0 || f.from <= calls; f.from++ {
			if testing.Short() && f.from%5 != 1 {
				continue
			}
			t.Run(f.String(), func(t *testing.T) { calls = max(calls, diskErrors(t, f, updates)) })
			if t.Failed() {
				return
			}
		}
	}
}

func diskErrors(t *testing.T, f fault, updates int) (calls int) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	w, d, driver := newWorld(t), newDisk(), mem.New(mem.Options{})
	w.also = f.kind() // as fsync(2) says ENOSPC
	d.SetHook(f.hook)
	s, err := openAnyway(ctx, options(d, driver))
	if err != nil {
		if f.times > 3 {
			return d.Count() // the disk was never well enough
		}
		t.Fatalf("Open: %v", err)
	}
	r, rc := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, uint64(f.from)))
	var pending []crash
	w.tolerant(ctx, s, r, updates, func(err error) {
		if backend.KindOf(err) != f.kind() {
			t.Errorf("Update: %v, want kind %q", err, f.kind())
		}
		// A whole record that cannot be overwritten may be found.
		if open := f.partly < 0 && f.times > 1; !open {
			pending = append(pending, w.crashes(d, driver, rc, "after a failed Update")...)
		}
	})
	calls = d.Count()
	d.SetHook(nil)
	w.tolerant(ctx, s, r, 2, func(err error) { t.Errorf("Update when the disk is well again: %v", err) })
	pending = append(pending, w.crashes(d, driver, rc, "end")...)
	if err := s.WaitDurable(ctx, w.done); err != nil {
		t.Errorf("WaitDurable when the disk is well again: %v", err)
	}
	w.acked = w.done
	pending = append(pending, w.crashes(d, driver, rc, "well again")...)
	w.close(s, "end")
	pending = append(pending, w.crashes(d, driver, rc, "closed")...)
	for _, c := range pending {
		w.check(c)
	}
	return calls
}

// TestDriverErrorsAnywhere fails the driver at every step.
func TestDriverErrorsAnywhere(t *testing.T) {
	for p := mem.BeforeView; p <= mem.AfterSync; p++ {
		for _, times := range []int{1, 4} {
			for skip := range 14 {
				t.Run(fmt.Sprintf("point %d, %d times after %d", p, times, skip), func(t *testing.T) {
					driverErrors(t, p, skip, times)
				})
			}
		}
	}
}

func driverErrors(t *testing.T, p mem.Point, skip, times int) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	w, d := newWorld(t), newDisk()
	driver := mem.New(mem.Options{})
	driver.SetHook(mem.FailAt(p, skip, times, &backend.Error{Op: "test", Kind: backend.IO, Err: errors.New("told to fail")}))
	s, err := writeback.Open(ctx, options(d, driver))
	for range times {
		if err == nil {
			break
		}
		driver = driver.Reopen()
		s, err = writeback.Open(ctx, options(d, driver))
	}
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	r, rc := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, uint64(skip)))
	w.tolerant(ctx, s, r, 40, func(err error) { t.Errorf("Update: %v", err) })
	pending := w.crashes(d, driver, rc, "end")
	err = s.Close()
	if last := s.Stats(); err == nil && last.Pending > 0 || err != nil && last.Pending == 0 {
		t.Errorf("Close: %v with %d Updates pending", err, last.Pending)
	}
	if err != nil { // everything is in the log, synced
		w.acked = w.done
	}
	pending = append(pending, w.crashes(d, driver, rc, "closed")...)
	for _, c := range pending {
		w.check(c)
	}
}
