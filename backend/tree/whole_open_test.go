package tree_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
)

// TestWholeOpensAgain lets a call into the log, the segments or the driver fail while
// a store is opened after kill -9 or a power cut, reads too. It opens or it says why
// not; either way, and whatever it then gives back, the next time all is there that
// was acknowledged, or was durable.
func TestWholeOpensAgain(t *testing.T) {
	w := newWhole(t)
	w.live()
	w.write("tail", 2000, 1000, 20) // rides
	w.file("last", 40_000, 21)
	w.sync()
	w.write("last", 100, 500, 22)
	step := 1
	if testing.Short() {
		step = 7
	}
	r := rand.New(rand.NewPCG(5, 6))
	killed := func() (*whole, int) {
		return &whole{seg: w.seg.Killed(crashdir.Call{}, 0), log: w.log.Killed(crashdir.Call{}, 0), driver: w.driver.Reopen()}, w.done
	}
	cut := func() (*whole, int) {
		return &whole{seg: w.seg.PowerCut(r, 0), log: w.log.PowerCut(r, 0), driver: w.driver.CrashClone(0)}, w.acked
	}
	for i, give := range []error{syscall.EIO, syscall.ENOSPC, crashdir.Partly{N: 30, Err: syscall.EIO}} {
		for _, crash := range []func() (*whole, int){killed, cut} {
			n := 1 + i%step
			for ; opensAgain(w, crash, n, give) && !t.Failed(); n += step {
			}
			if n < 40 {
				t.Errorf("%v: only %d calls", give, n)
			}
		}
	}
	must(t, w.close())
}

// opensAgain opens what a crash of w leaves, which is at least a state, with call n
// failing. It is false when there are not so many calls.
func opensAgain(w *whole, crash func() (*whole, int), n int, give error) bool {
	what := fmt.Sprintf("call %d of Open failed, %v", n, give)
	a, least := crash()
	a.t, a.states, a.done = w.t, w.states, w.done
	var calls atomic.Int64
	hook := func(_ crashdir.Call, done bool) error {
		if !done && int(calls.Add(1)) == n {
			return give
		}
		return nil
	}
	a.seg.Reads, a.log.Reads = true, true
	a.seg.SetHook(hook)
	a.log.SetHook(hook)
	a.driver.SetHook(func(p mem.Point, _ uint64) error {
		if p != mem.AfterCommit && p != mem.AfterSync && int(calls.Add(1)) == n {
			return &backend.Error{Op: "test", Kind: backend.IO, Err: syscall.EIO}
		}
		return nil
	})
	err := a.open()
	a.seg.SetHook(nil)
	a.log.SetHook(nil)
	a.driver.SetHook(nil)
	if a.ok(what, err) {
		a.reclaim()
		a.sync()
		_ = a.close() // what cannot be done is left in the log
	}
	a.driver = a.driver.Reopen()
	if err := a.open(); err != nil {
		a.t.Errorf("%s, and it does not open again: %v\n%s", what, err, a.told.String())
		return false
	}
	a.is(what, w.states, least, w.done)
	must(a.t, a.close())
	return int(calls.Load()) >= n
}
