package waits

import "time"

// Deadline is the end of a wait whose loop is the test's own.
type Deadline struct {
	begun time.Time
	limit time.Duration
	end   time.Time // zero until limit has passed and the machine was measured
}

// In returns the deadline of a wait with a limit of d that begins now.
func In(d time.Duration) *Deadline { return &Deadline{begun: time.Now(), limit: d} }

// Passed reports whether the wait is over. It measures the machine when the limit
// passes, not before.
func (d *Deadline) Passed() bool {
	if time.Since(d.begun) < detector*d.limit {
		return false
	}
	if d.end.IsZero() {
		d.end = d.begun.Add(Limit(d.limit))
	}
	return time.Now().After(d.end)
}
