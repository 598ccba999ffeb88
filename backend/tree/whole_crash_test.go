package tree_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
)

// after opens what a crash left: the tree is as after one operation, not before
// that from, nor after the last there is. It goes on from there, and loses the
// power again.
func (w *whole) after(what string, seg, log *crashdir.Disk, driver *mem.Store, from int) {
	w.t.Helper()
	w.mu.Lock()
	states := append([]listing(nil), w.states...)
	w.mu.Unlock()
	a := &whole{t: w.t, seg: seg, log: log, driver: driver}
	if err := a.open(); err != nil {
		w.t.Fatalf("%s: open: %v\n%s", what, err, a.told.String())
	}
	which := a.is(what, states, from, len(states)-1)
	if which < 0 {
		_ = a.close()
		return
	}
	a.states, a.done = states[:which+1:which+1], which
	a.file("later", 60_000, 99)
	a.sync()
	a.reclaim()
	if a.failed > 0 || a.acked != which+2 {
		w.t.Errorf("%s: the next operations failed", what)
	}
	r := rand.New(rand.NewPCG(3, 4))
	again := &whole{t: w.t, seg: a.seg.PowerCut(r, 0), log: a.log.PowerCut(r, 0), driver: a.driver.CrashClone(0)}
	must(w.t, again.open())
	again.is(what+", after a second power cut", a.states, a.acked, a.acked)
	must(w.t, again.close())
	must(w.t, a.close())
}

// TestWholeCrashes cuts the power and kills the process before and after every
// call into the log and the segments, inside writes, and at every step of the
// driver, under a tree: it is as after one operation, all that was durable is in
// it, and every invariant holds.
func TestWholeCrashes(t *testing.T) {
	w := newWhole(t)
	w.patience = 20 * time.Second
	r := rand.New(rand.NewPCG(1, 2))
	points, crashes := 0, 0
	stride := 3
	if testing.Short() {
		stride = 17
	}
	crash := func(where string, c crashdir.Call, done bool, inside *crashdir.Disk) {
		if points++; points%stride != 0 || t.Failed() {
			return
		}
		kept, acked := w.bounds()
		what := fmt.Sprintf("%s %v, done %v", where, c, done)
		crashes += 4
		for _, chance := range []float64{0, 0.5, 1} {
			w.after(fmt.Sprintf("%s: power cut, %v of the writes", what, chance),
				w.seg.PowerCut(r, chance), w.log.PowerCut(r, r.Float64()), w.driver.CrashRand(r), acked)
		}
		w.after(what+": killed", w.seg.Killed(crashdir.Call{}, 0), w.log.Killed(crashdir.Call{}, 0), w.driver.Reopen(), kept)
		if done || c.Op != "write" {
			return
		}
		crashes++
		seg, log, got := w.seg.Killed(crashdir.Call{}, 0), w.log.Killed(crashdir.Call{}, 0), r.IntN(len(c.Data)+1)
		if inside == w.seg {
			seg = w.seg.Killed(c, got)
		} else {
			log = w.log.Killed(c, got)
		}
		w.after(fmt.Sprintf("%s: killed after %d bytes", what, got), seg, log, w.driver.Reopen(), kept)
	}
	var one sync.Mutex // one call at a time, so that a crash is one moment of both disks
	hook := func(where string, d *crashdir.Disk) crashdir.Hook {
		return func(c crashdir.Call, done bool) error {
			if !done {
				one.Lock()
			}
			crash(where, c, done, d)
			if done {
				one.Unlock()
			}
			return nil
		}
	}
	w.seg.SetHook(hook("segments", w.seg))
	w.log.SetHook(hook("log", w.log))
	w.driver.SetHook(func(p mem.Point, n uint64) error {
		if p != mem.BeforeView {
			one.Lock()
			crash(fmt.Sprintf("driver point %d, time %d", p, n), crashdir.Call{}, false, nil)
			one.Unlock()
		}
		return nil
	})
	w.live()
	w.seg.SetHook(nil)
	w.log.SetHook(nil)
	w.driver.SetHook(nil)
	if st := w.c.Stats(); points < 150 || w.failed > 0 || st.Rides == 0 || st.Unlinked == 0 || st.Punched == 0 || w.moved == 0 {
		t.Errorf("%d points, %d failures, %d compacted, %+v: the script is not what it was", points, w.failed, w.moved, st)
	}
	t.Logf("%d points, %d crashes", points, crashes)
	w.is("at the end", w.states, w.done, w.done)
	must(t, w.close())
}

// TestWholeDiskErrors lets calls into the log, the segments and the driver fail,
// reads too: an operation fails with a clear error and changes nothing, what is
// read is right or an error, and what a sync acknowledges outlives a power cut.
func TestWholeDiskErrors(t *testing.T) {
	step := 5
	if testing.Short() {
		step = 31
	}
	for i, f := range []struct {
		name  string
		times int
		give  func(c crashdir.Call) error
	}{
		{"once", 1, func(crashdir.Call) error { return syscall.EIO }},
		{"six times", 6, func(crashdir.Call) error { return syscall.EIO }},
		{"no space", 9, func(crashdir.Call) error { return syscall.ENOSPC }},
		{"partly", 2, func(c crashdir.Call) error { return crashdir.Partly{N: len(c.Data) / 2, Err: syscall.EIO} }},
	} {
		t.Run(f.name, func(t *testing.T) {
			n := 1 + i%step
			for ; wholeFails(t, n, f.times, f.give) && !t.Failed(); n += step {
			}
			if n < 120 {
				t.Errorf("only %d calls", n)
			}
		})
	}
}

// wholeFails runs the script with calls n to n+times-1 failing. It is false when
// there are not so many calls.
func wholeFails(t *testing.T, n, times int, give func(crashdir.Call) error) bool {
	w := newWhole(t)
	w.patience = 20 * time.Millisecond
	var calls atomic.Int64 // also from the committer and the reclaimers
	fails := func() bool {
		got := int(calls.Add(1))
		return got >= n && got < n+times
	}
	hook := func(c crashdir.Call, done bool) error {
		if !done && fails() {
			return give(c)
		}
		return nil
	}
	w.seg.Reads, w.log.Reads = true, true
	w.seg.SetHook(hook)
	w.log.SetHook(hook)
	w.driver.SetHook(func(p mem.Point, _ uint64) error {
		if p != mem.AfterCommit && p != mem.AfterSync && fails() {
			return &backend.Error{Op: "test", Kind: backend.IO, Err: syscall.EIO}
		}
		return nil
	})
	w.live()
	w.seg.SetHook(nil)
	w.log.SetHook(nil)
	w.driver.SetHook(nil)
	what := fmt.Sprintf("call %d failed", n)
	w.is(what, w.states, w.done, w.done)
	before := w.failed
	w.file("well", 30_000, 50)
	w.sync()
	w.reclaim()
	if w.failed > before || w.acked != w.done {
		t.Errorf("%s: the disk is well again, and operations fail\n%s", what, w.told.String())
	}
	r := rand.New(rand.NewPCG(1, 1))
	a := &whole{t: t, seg: w.seg.PowerCut(r, 0), log: w.log.PowerCut(r, 0), driver: w.driver.CrashClone(0)}
	must(t, a.open())
	a.is(what+", after a power cut", w.states, w.acked, w.acked)
	must(t, a.close())
	must(t, w.close())
	return int(calls.Load()) >= n
}
