package segment_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/segment"
)

// script is a small life of a content that crosses segments. Its calls may fail.
type script struct {
	f      *fixture
	live   []backend.Ref // put, and no Free was tried
	synced []backend.Ref // of those, the durable ones
	failed int
}

func (s *script) put(id uint64, n int) {
	ref, err := s.f.tryPut(id, n)
	if s.ok("Put", err) {
		s.live = append(s.live, ref)
	}
}

// ok takes an error of the disk, and nothing else.
func (s *script) ok(what string, err error) bool {
	if err == nil {
		return true
	}
	s.failed++
	if k := backend.KindOf(err); k != backend.IO && k != backend.NoSpace {
		s.f.t.Errorf("%s: %v (kind %v)", what, err, k)
	}
	return false
}

func (s *script) sync() {
	before := append([]backend.Ref(nil), s.live...)
	if s.ok("WaitDurable", s.f.s.WaitDurable(bg(s.f.t), s.f.below.LastLSN())) {
		s.synced = before
	}
}

func (s *script) free(i int) {
	if i >= len(s.live) {
		return
	}
	ref := s.live[i]
	drop := func(refs []backend.Ref) (out []backend.Ref) {
		for _, r := range refs {
			if r != ref {
				out = append(out, r)
			}
		}
		return out
	}
	s.live, s.synced = drop(s.live), drop(s.synced)
	s.f.free(ref)
}

func (s *script) reclaim() {
	_, err := s.f.s.Reclaim(bg(s.f.t))
	s.ok("Reclaim", err)
}

func (s *script) giveUp() {
	_, err := s.f.s.Update(bg(s.f.t), func(tx backend.Tx) error {
		if _, err := s.f.c.Put(tx, 99, bytesOf(99, 5000)); err != nil {
			return err
		}
		return errGaveUp
	})
	if !errors.Is(err, errGaveUp) {
		s.ok("Put", err)
	}
}

var errGaveUp = errors.New("gave up")

func (s *script) run() {
	s.put(1, 3000)
	s.put(2, 70_000)
	s.sync()
	s.put(3, 9000)
	s.giveUp()
	s.put(4, 4000)
	s.sync()
	s.free(1) // 70,000 bytes, in the middle
	s.reclaim()
	s.put(5, 900_000)
	s.put(6, 200_000) // the next segment
	s.sync()
	for range 4 {
		s.free(0) // all of the first segment
	}
	s.put(7, 6000)
	s.reclaim()
	s.put(8, 5000)
	s.sync()
	s.put(9, 2500)
}

// TestCrashAtEveryCall cuts the power, and kills the process, before and after
// each call into the directory: what was durable is intact, and nothing is wrong.
func TestCrashAtEveryCall(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	s := &script{f: f}
	r := rand.New(rand.NewPCG(1, 2))
	points := 0
	check := func(what string, d *disk, below bool, c call) {
		after := &fixture{t: t, d: d, below: f.below.CrashRand(r), opts: f.opts}
		if !below {
			after.below = f.below.Reopen()
		}
		if err := after.tryOpen(); err != nil {
			t.Fatalf("%s at %v: open: %v", what, c, err)
		}
		defer after.s.Close()
		again := after.put(1000, 50_000)
		for _, ref := range s.synced {
			if err := after.get(ref); err != nil {
				t.Errorf("%s at %v: durable content is lost: %v", what, c, err)
			}
		}
		for _, ref := range s.live {
			err := after.get(ref) // right bytes or an error
			if err != nil && !below {
				t.Errorf("%s at %v: content is lost: %v", what, c, err)
			}
		}
		after.reads(again)
		if _, err := after.s.Reclaim(bg(t)); err != nil {
			t.Errorf("%s at %v: Reclaim: %v", what, c, err)
		}
		for _, ref := range s.synced {
			if err := after.get(ref); err != nil {
				t.Errorf("%s at %v: reclaimed what is named: %v", what, c, err)
			}
		}
	}
	f.d.SetHook(func(c call, done bool) error {
		if c.Op == "read" || c.Op == "open" || c.Op == "free" {
			return nil
		}
		points++
		if testing.Short() && points%3 != 0 {
			return nil
		}
		for _, chance := range []float64{0, 0.5, 1} {
			check(fmt.Sprintf("power cut, %v of the writes", chance), f.d.PowerCut(r, chance), true, c)
		}
		if !done && c.Op == "write" {
			check("killed in the middle", f.d.Killed(c, len(c.Data)/2), false, c)
		}
		check("killed", f.d.Killed(call{}, 0), false, c)
		return nil
	})
	s.run()
	f.d.SetHook(nil)
	if points < 50 || s.failed > 0 {
		t.Errorf("%d points, %d failures: the script is not what it was", points, s.failed)
	}
	if st := f.c.Stats(); st.Punched == 0 || st.Unlinked != 1 || st.Segments != 1 {
		t.Errorf("%+v: the script is not what it was", st)
	}
	f.reads(s.live...)
	if err := f.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestErrorsAtEveryCall lets each call into the directory fail, once and a few
// times: the caller is told, nothing that is named is wrong, and when the disk
// works again all of it becomes durable.
func TestErrorsAtEveryCall(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for i, c := range []struct {
		name  string
		times int
		err   func(call) error
	}{
		{"once", 1, func(call) error { return syscall.EIO }},
		{"four times", 4, func(call) error { return syscall.EIO }},
		{"no space", 3, func(call) error { return syscall.ENOSPC }},
		{"partly", 2, func(c call) error { return crashdir.Partly{N: len(c.Data) / 2, Err: syscall.EIO} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 1 + i%step; ; n += step {
				if !failAt(t, n, c.times, c.err) {
					if n < 30 {
						t.Errorf("only %d calls", n)
					}
					return
				}
			}
		})
	}
}

// failAt runs the script with calls n to n+times-1 failing. It is false when
// there are not so many calls.
func failAt(t *testing.T, n, times int, give func(call) error) bool {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	s := &script{f: f}
	calls := 0
	f.d.SetHook(func(c call, done bool) error {
		if done {
			return nil
		}
		calls++
		if calls >= n && calls < n+times {
			return give(c)
		}
		return nil
	})
	s.run()
	f.d.SetHook(nil)
	for _, ref := range s.live {
		if err := f.get(ref); err != nil {
			t.Errorf("call %d failed: %v", n, err)
		}
	}
	fatal := func(what string, err error) {
		if err != nil {
			t.Fatalf("call %d failed: then %s: %v", n, what, err)
		}
	}
	ref, err := f.tryPut(500, 3000)
	fatal("Put", err)
	fatal("WaitDurable", f.s.WaitDurable(bg(t), f.below.LastLSN()))
	_, err = f.s.Reclaim(bg(t))
	fatal("Reclaim", err)
	after := &fixture{t: t, d: f.d.PowerCut(rand.New(rand.NewPCG(1, 1)), 0), below: f.below.CrashClone(0), opts: f.opts}
	after.open()
	for _, ref := range append(s.live, ref) {
		if err := after.get(ref); err != nil {
			t.Errorf("call %d failed: not durable after a WaitDurable that succeeded: %v", n, err)
		}
	}
	fatal("Close", errors.Join(after.s.Close(), f.s.Close()))
	return calls >= n
}
