package writeback_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

// state is all that a store holds.
type state map[string]string

// edit is one change of a planned Update.
type edit struct {
	key, value string
	deleted    bool
}

// plan makes an Update of a few keys, of values from nothing to several sectors.
func plan(r *rand.Rand, n int) []edit {
	edits := make([]edit, 1+r.IntN(5))
	for i := range edits {
		e := edit{key: fmt.Sprintf("k%02d", r.IntN(20)), deleted: r.IntN(4) == 0}
		if !e.deleted {
			e.value = fmt.Sprint(n, ":")
			switch r.IntN(6) {
			case 0:
				e.value = ""
			case 1:
				e.value += string(make([]byte, r.IntN(3000))) // ends in zeros
			}
		}
		edits[i] = e
	}
	return edits
}

func (s state) with(edits []edit) state {
	out := maps.Clone(s)
	for _, e := range edits {
		if e.deleted {
			delete(out, e.key)
		} else {
			out[e.key] = e.value
		}
	}
	return out
}

func apply1(ctx context.Context, s *writeback.Store, edits []edit) (backend.LSN, error) {
	return s.Update(ctx, func(tx backend.Tx) error {
		for _, e := range edits {
			var err error
			if e.deleted {
				err = tx.Delete([]byte(e.key))
			} else {
				err = tx.Set([]byte(e.key), []byte(e.value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// readAll gives what a View of s shows.
func readAll(ctx context.Context, s backend.Store) (state, error) {
	got := state{}
	err := s.View(ctx, func(tx backend.Tx) error {
		return tx.Scan(nil, nil, func(k, v []byte) error { got[string(k)] = string(v); return nil })
	})
	return got, err
}

// world is a store on a disk and a driver that may crash together.
type world struct {
	t      *testing.T
	mu     sync.Mutex
	states []state     // by LSN; the last may not have taken effect yet
	done   backend.LSN // the last that returned
	acked  backend.LSN // the last that WaitDurable acknowledged
	checks int
	also   backend.Kind // that WaitDurable may fail with, beside IO
}

func newWorld(t *testing.T) *world { return &world{t: t, states: []state{{}}} }

// crash is what one crash left, and what must be found in it.
type crash struct {
	what   string
	disk   *disk
	driver *mem.Store
	atLast backend.LSN // at least
	atMost backend.LSN
}

// crashes makes the crashes that could happen now.
func (w *world) crashes(d *disk, driver *mem.Store, r *rand.Rand, what string) []crash {
	w.mu.Lock()
	defer w.mu.Unlock()
	done, acked, most := w.done, w.acked, backend.LSN(len(w.states)-1)
	var out []crash
	d.Still(func() {
		out = []crash{
			{what + ": killed", d.Killed(call{}, 0), driver.Reopen(), done, most},
			{what + ": power cut, nothing but what was synced", d.PowerCut(r, 0), driver.CrashClone(0), acked, most},
			{what + ": power cut", d.PowerCut(r, 0.5), driver.CrashRand(r), acked, most},
			{what + ": power cut, nearly all", d.PowerCut(r, 0.9), driver.CrashRand(r), acked, most},
		}
	})
	return out
}

// check opens what a crash left: the state after some Update, late enough. It
// goes on there, and crashes again.
func (w *world) check(c crash) {
	w.t.Helper()
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, err := writeback.Open(ctx, options(c.disk, c.driver))
	if err != nil {
		w.t.Errorf("%s: Open: %v", c.what, err)
		return
	}
	last := s.LastLSN()
	w.mu.Lock()
	w.checks++
	states := slices.Clone(w.states)
	w.mu.Unlock()
	got, err := readAll(ctx, s)
	switch {
	case err != nil:
		w.t.Errorf("%s: View: %v", c.what, err)
	case last < c.atLast:
		w.t.Errorf("%s: Update %d is the last, %d was promised", c.what, last, c.atLast)
	case last > c.atMost:
		w.t.Errorf("%s: Update %d was found, there were %d", c.what, last, c.atMost)
	case !maps.Equal(got, states[last]):
		w.t.Errorf("%s: state after Update %d:\n%q\nwant\n%q", c.what, last, got, states[last])
	}
	lsn, err := apply1(ctx, s, []edit{{key: "new", value: "life"}})
	if err != nil || lsn != last+1 {
		w.t.Errorf("%s: next Update: %d, %v; want LSN %d", c.what, lsn, err, last+1)
	}
	if err := s.WaitDurable(ctx, lsn); err != nil {
		w.t.Errorf("%s: WaitDurable: %v", c.what, err)
	}
	again, err := writeback.Open(ctx, options(c.disk.PowerCut(rand.New(rand.NewPCG(1, 2)), 0), c.driver.CrashClone(0)))
	if err != nil {
		w.t.Errorf("%s: Open after a second crash: %v", c.what, err)
	} else {
		if got, err := readAll(ctx, again); err != nil || got["new"] != "life" || again.LastLSN() != lsn {
			w.t.Errorf("%s: after a second crash: %q at %d, %v", c.what, got, again.LastLSN(), err)
		}
		w.close(again, c.what)
	}
	w.close(s, c.what)
}

func (w *world) close(s *writeback.Store, what string) {
	w.t.Helper()
	if err := s.Close(); err != nil {
		w.t.Errorf("%s: Close: %v", what, err)
	}
}

// options for tests: nothing happens by age, files are small.
func options(fs dirfs.FS, driver backend.Store) writeback.Options {
	return writeback.Options{
		Driver: driver, Dir: "log", FS: fs,
		SyncAge: time.Hour, CommitAge: time.Hour, LogFileSize: 16 << 10,
	}
}

// run does n planned Updates on s, with syncs and flushes between.
func (w *world) run(ctx context.Context, s *writeback.Store, r *rand.Rand, n int) error {
	for i := range n {
		edits := plan(r, i)
		w.mu.Lock()
		w.states = append(w.states, w.states[len(w.states)-1].with(edits))
		want := backend.LSN(len(w.states) - 1)
		w.mu.Unlock()
		lsn, err := apply1(ctx, s, edits)
		if err != nil || lsn != want {
			return fmt.Errorf("Update %d: %d, %w", want, lsn, err)
		}
		w.mu.Lock()
		w.done = lsn
		w.mu.Unlock()
		switch r.IntN(8) {
		case 0:
			if err := s.WaitDurable(ctx, lsn); err != nil {
				return err
			}
			w.mu.Lock()
			w.acked = lsn
			w.mu.Unlock()
		case 1:
			if err := s.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestCrashAnywhere crashes before and after every call into the log's
// directory and at every step of the driver.
func TestCrashAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rounds, updates := 6, 80
	if testing.Short() {
		rounds, updates = 3, 40
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		w := newWorld(t)
		d := newDisk()
		driver := mem.New(mem.Options{})
		o := options(d, driver)
		switch round % 3 {
		case 1:
			d.Room = 18 << 10 // for one log file
		case 2:
			o.SyncAge = time.Microsecond // each commit takes another tick
		}
		var mu sync.Mutex // over pending and the random numbers of crashes
		var pending []crash
		rc := rand.New(rand.NewPCG(seed, uint64(round)+1000))
		take := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			pending = append(pending, w.crashes(d, driver, rc, what)...)
		}
		d.SetHook(func(c call, done bool) error {
			take(fmt.Sprintf("round %d, %v, done %v", round, c, done))
			return nil
		})
		driver.SetHook(func(p mem.Point, n uint64) error {
			take(fmt.Sprintf("round %d, driver point %d, time %d", round, p, n))
			return nil
		})
		ctx, cancel := waits.Context(context.Background(), time.Minute)
		s, err := writeback.Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.run(ctx, s, r, updates); err != nil {
			t.Fatal(err)
		}
		w.close(s, "end")
		cancel()
		take("closed")
		for _, c := range pending {
			w.check(c)
			if t.Failed() {
				return
			}
		}
		t.Logf("round %d: %d crashes", round, w.checks)
	}
}

// TestCrashInsideAWrite cuts every write of a record at every byte, as a kill
// in the middle of a pwrite could, and its sectors on disk at every boundary.
func TestCrashInsideAWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	w := newWorld(t)
	d := newDisk()
	driver := mem.New(mem.Options{})
	var pending []crash
	d.SetHook(func(c call, done bool) error {
		if c.Op != "write" || done || c.At == 0 {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for got := 0; got <= len(c.Data); got++ {
			if got > 300 && got < len(c.Data)-20 && got%97 != 0 {
				continue
			}
			pending = append(pending, crash{
				fmt.Sprintf("%v, killed after %d bytes", c, got), d.Killed(c, got), driver.Reopen(), w.done, w.done + 1})
		}
		return nil
	})
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, err := writeback.Open(ctx, options(d, driver))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(ctx, s, r, 12); err != nil {
		t.Fatal(err)
	}
	w.close(s, "end")
	for _, c := range pending {
		w.check(c)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes", w.checks)
}

// TestCrashAfterCrash kills the process again and again and lets the machine
// live, so that what was never synced is in the page cache only, and cuts the
// power at every call that recovery makes.
func TestCrashAfterCrash(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w, d, driver := newWorld(t), newDisk(), mem.New(mem.Options{})
	var mu sync.Mutex // over pending and r in hooks
	var pending []crash
	for life := range 8 {
		rc := rand.New(rand.NewPCG(seed, uint64(life)+10))
		take := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			pending = append(pending, w.crashes(d, driver, rc, fmt.Sprintf("life %d, %s", life, what))...)
		}
		d.SetHook(func(c call, done bool) error { take(fmt.Sprintf("%v, done %v", c, done)); return nil })
		driver.SetHook(func(p mem.Point, n uint64) error { take(fmt.Sprintf("driver point %d", p)); return nil })
		s, err := writeback.Open(ctx, options(d, driver))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.LastLSN(); got != w.done {
			t.Fatalf("life %d: LSN %d after kill -9, want %d", life, got, w.done)
		}
		d.SetHook(nil)
		driver.SetHook(nil)
		if st := s.Stats(); st.Durable != w.done {
			t.Errorf("life %d: %d durable after Open, want %d", life, st.Durable, w.done)
		}
		w.mu.Lock() // a hook may still be at work, over the spare log file
		w.acked = w.done
		w.mu.Unlock()
		if err := w.run(ctx, s, r, 15); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		driver = driver.Reopen()
	}
	for _, c := range pending {
		w.check(c)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes", w.checks)
}
