package backend_test

import (
	"math"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

// TestTimesAreClamped: no time outside the range of Time wraps to another century.
func TestTimesAreClamped(t *testing.T) {
	const last, first = backend.Time(math.MaxInt64), backend.Time(math.MinInt64)
	for at, want := range map[time.Time]backend.Time{
		time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC): last, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC): last,
		time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC): first, {}: first, time.Unix(7, 5): 7e9 + 5,
	} {
		if got := backend.TimeOf(at); got != want {
			t.Errorf("TimeOf(%v) = %v", at, got.Time())
		}
	}
	for sec, want := range map[int64]backend.Time{math.MaxInt64: last, 10_413_792_000: last, 9_223_372_036: 9_223_372_036e9 + 5,
		-9_223_372_037: first, math.MinInt64: first, -1: -1e9 + 5, 7: 7e9 + 5} {
		if got := backend.TimeOfUnix(sec, 5); got != want && (want != first || got > first+1e9) {
			t.Errorf("TimeOfUnix(%d) = %v", sec, got.Time())
		}
	}
}
