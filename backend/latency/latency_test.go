package latency

import (
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBoundsRise(t *testing.T) {
	b := Bounds()
	if len(b) != Buckets-1 || !slices.IsSorted(b) || b[0] <= 0 {
		t.Errorf("%d buckets, bounds %v", Buckets, b)
	}
	b[0] = 0
	if Bounds()[0] == 0 {
		t.Error("Bounds lends out the table itself")
	}
}

// TestObserve: a bound belongs to the bucket that it ends.
func TestObserve(t *testing.T) {
	var h Histogram
	var want Snapshot
	note := func(d time.Duration, bucket int) {
		h.Observe(d)
		want.Counts[bucket]++
		want.Sum += max(d, 0)
	}
	note(-time.Second, 0)
	note(0, 0)
	for i, b := range Bounds() {
		note(b, i)
		note(b+1, i+1)
	}
	note(time.Hour, Buckets-1)
	got := h.Snapshot()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := got.Count(); n != uint64(2*(Buckets-1)+3) {
		t.Errorf("count %d", n)
	}
	got.Add(want)
	if got.Count() != 2*want.Count() || got.Sum != 2*want.Sum {
		t.Errorf("added up: %+v", got)
	}
}

func TestQuantile(t *testing.T) {
	var s Snapshot
	if q := s.Quantile(0.5); q != 0 {
		t.Errorf("of nothing: %v", q)
	}
	s.Counts[2], s.Counts[5], s.Counts[Buckets-1] = 90, 9, 1
	for q, want := range map[float64]time.Duration{0: bounds[2], 0.5: bounds[2], 0.9: bounds[2], 0.95: bounds[5], 0.99: bounds[5], 1: bounds[len(bounds)-1]} {
		if got := s.Quantile(q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

// TestConcurrentObserve: nothing is lost, and nothing is allocated.
func TestConcurrentObserve(t *testing.T) {
	var h Histogram
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 10_000 {
				h.Observe(time.Duration(g*i) * time.Microsecond)
			}
		})
	}
	all.Wait()
	s := h.Snapshot()
	if want := (0 + 1 + 2 + 3) * 9_999 * 10_000 / 2 * time.Microsecond; s.Count() != 40_000 || s.Sum != want {
		t.Errorf("%d counted, sum %v, want %v", s.Count(), s.Sum, want)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Observe(30 * time.Microsecond)
	}
}
