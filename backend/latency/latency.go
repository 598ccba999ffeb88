// Package latency counts how long things took.
//
//   - [Histogram] is counted into: any number of goroutines, no lock, no
//     allocation, some ten nanoseconds. Its zero value is ready.
//   - [Snapshot] is what a Histogram had at one time; it can be added up and
//     asked for quantiles.
//
// The buckets are the same everywhere ([Bounds]), so that histograms can be
// added up and compared, and an answer that names them stays valid.
//
// A Snapshot is taken while others count, so its Sum may be a few observations
// ahead of its Counts or behind them. Each number only grows.
package latency

import (
	"slices"
	"sync/atomic"
	"time"
)

// bounds are the inclusive upper ends of all buckets but the last.
var bounds = [...]time.Duration{
	2 * time.Microsecond, 5 * time.Microsecond, 10 * time.Microsecond,
	20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond,
	200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond,
	2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second,
}

// Buckets is the number of buckets; the last takes what is above all bounds.
const Buckets = len(bounds) + 1

// Bounds are the inclusive upper ends of the buckets, rising; the last bucket
// has none. The slice is the caller's.
func Bounds() []time.Duration { return slices.Clone(bounds[:]) }

// Histogram counts durations by bucket. It must not be copied.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Int64 // ns
}

// Observe counts one duration; one below zero counts as zero.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(int64(max(d, 0)))
}

// Snapshot gives what was counted so far.
func (h *Histogram) Snapshot() Snapshot {
	var s Snapshot
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
	}
	s.Sum = time.Duration(h.sum.Load())
	return s
}

// Snapshot is the state of a Histogram.
type Snapshot struct {
	Counts [Buckets]uint64 // by bucket, each for itself
	Sum    time.Duration   // of all durations
}

// Count is how many durations were counted.
func (s *Snapshot) Count() uint64 {
	var n uint64
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// Add adds what o has.
func (s *Snapshot) Add(o Snapshot) {
	for i, c := range o.Counts {
		s.Counts[i] += c
	}
	s.Sum += o.Sum
}

// Quantile gives a duration that the part q (0 to 1) of all did not exceed: the
// upper end of a bucket. What is above all bounds counts as the last bound. 0
// when nothing was counted.
func (s *Snapshot) Quantile(q float64) time.Duration {
	total := s.Count()
	if total == 0 {
		return 0
	}
	var seen uint64
	for i, c := range s.Counts[:len(bounds)] {
		if seen += c; seen > 0 && float64(seen) >= q*float64(total) {
			return bounds[i]
		}
	}
	return bounds[len(bounds)-1]
}
