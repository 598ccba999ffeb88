package uptime

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// jump is the drift of the wall clock beyond which it counts as set.
	jump = 10 * time.Second
	// maxSpans bounds the jumps remembered; the oldest two spans become one.
	maxSpans = 64
	// maxAge bounds the ages computed with, so that no sum overflows.
	maxAge = 200 * 365 * 24 * time.Hour
)

// span is a stretch of time in which both clocks ran alike.
type span struct {
	Boot time.Duration `json:"boot"` // when it began, since boot
	Wall time.Time     `json:"wall"` // what the wall clock showed then
}

// at returns what the wall clock showed at a time since boot.
func (s span) at(boot time.Duration) time.Time { return s.Wall.Add(boot - s.Boot) }

// Clock is the wall clock and the time since boot. Its methods are safe for
// concurrent use.
type Clock struct {
	wall  func() time.Time
	boot  func() time.Duration
	id    string                             // of this boot
	floor func(boot time.Duration) time.Time // what an earlier daemon knew; nil: nothing

	mu    sync.Mutex
	spans []span // oldest first, never empty; guarded by mu
}

// New returns a clock over the given sources. If boot is nil, time passes by the wall
// clock.
func New(wall func() time.Time, boot func() time.Duration) *Clock {
	if boot == nil {
		start := wall()
		boot = func() time.Duration { return max(wall().Sub(start), 0) }
	}
	c := &Clock{wall: wall, boot: boot}
	c.spans = []span{{boot(), c.Now()}}
	return c
}

// System returns a clock over the machine's own.
func System() *Clock {
	c := New(time.Now, sinceBoot)
	c.id = time.Now().String() // no other's
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		c.id = strings.TrimSpace(string(id))
	}
	return c
}

// sinceBoot returns CLOCK_BOOTTIME, which goes on while the machine sleeps.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Now returns the time of the wall clock.
func (c *Clock) Now() time.Time { return c.wall().Round(0) }

// look reads both clocks, and begins a span if the wall clock was set.
func (c *Clock) look() (now time.Time, boot time.Duration, spans []span, set time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, boot = c.Now(), c.boot()
	last := c.spans[len(c.spans)-1]
	if by := now.Sub(last.at(boot)); by.Abs() >= jump {
		c.spans, set = append(slices.Clip(c.spans), span{boot, now}), by
	}
	if len(c.spans) > maxSpans {
		first, second := c.spans[0], c.spans[1]
		if w := second.at(first.Boot); w.Before(first.Wall) {
			first.Wall = w // the older of the two readings removes less
		}
		c.spans = append([]span{first}, c.spans[2:]...)
	}
	return now, boot, c.spans, set
}

// Check returns by how much the wall clock was set since the last call of any method;
// 0 if it was not set.
func (c *Clock) Check() time.Duration {
	_, _, _, set := c.look()
	return set
}

// Before returns a time of the wall clock: anything stamped before it is at least
// age old by both clocks. The wall clock has shown nothing earlier during that age.
func (c *Clock) Before(age time.Duration) time.Time {
	age = min(max(age, 0), maxAge)
	now, boot, spans, _ := c.look()
	from, first := boot-age, now.Add(-age)
	for i, s := range spans {
		if i+1 < len(spans) && spans[i+1].Boot <= from {
			continue // it ended before
		}
		start := from
		if i > 0 { // before the first one the wall clock is believed
			start = max(s.Boot, from)
		}
		if w := s.at(start); w.Before(first) {
			first = w
		}
	}
	return first
}

// Deadline is the time when something ends. The zero value never passes.
type Deadline struct {
	wall time.Time
	boot time.Duration
}

// Until returns the deadline of something that begins and ends at these times of the
// wall clock. From now on it lasts at most end minus begin.
func (c *Clock) Until(begin, end time.Time) Deadline {
	now, boot, _, _ := c.look()
	left := min(max(end.Sub(begin), 0), end.Sub(now))
	return Deadline{wall: end, boot: boot + min(left, maxAge)}
}

// Resumed returns the same as Until for a record that an earlier daemon wrote: the time
// that passed then counts too, if the clock was set back later.
func (c *Clock) Resumed(begin, end time.Time) Deadline {
	d := c.Until(begin, end)
	if c.floor != nil {
		boot := c.boot()
		d.boot = min(d.boot, boot+min(end.Sub(c.floor(boot)), maxAge))
	}
	return d
}

// Left returns the time until the deadline by the clock that reaches it first; 0 if it
// has passed.
func (c *Clock) Left(d Deadline) time.Duration {
	if d == (Deadline{}) {
		return maxAge
	}
	now, boot, _, _ := c.look()
	return max(min(d.wall.Sub(now), d.boot-boot), 0)
}

// Over reports whether a deadline has passed by either clock.
func (c *Clock) Over(d Deadline) bool { return c.Left(d) == 0 }

// saved is the JSON form of what Save writes.
type saved struct {
	ID    string        `json:"boot_id"`
	Boot  time.Duration `json:"boot"`
	Wall  time.Time     `json:"wall"`
	Spans []span        `json:"spans"`
}

// Save returns what Resume needs.
func (c *Clock) Save() ([]byte, error) {
	now, boot, spans, _ := c.look()
	return json.Marshal(saved{ID: c.id, Boot: boot, Wall: now.UTC(), Spans: spans})
}

// Resume continues with what Save wrote, before anything else asks the clock. An
// earlier daemon's time counts on if the machine has not booted since.
func (c *Clock) Resume(b []byte) error {
	var s saved
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor = func(time.Duration) time.Time { return s.Wall }
	if s.ID != c.id || s.Boot > c.boot() || !sound(s) {
		return nil
	}
	last := s.Spans[len(s.Spans)-1]
	c.floor, c.spans = last.at, s.Spans
	return nil
}

// sound reports whether spans are in order, and end before s was saved.
func sound(s saved) bool {
	sorted := slices.IsSortedFunc(s.Spans, func(a, b span) int { return cmp.Compare(a.Boot, b.Boot) })
	return len(s.Spans) > 0 && len(s.Spans) <= maxSpans && sorted && s.Spans[0].Boot >= 0 && s.Spans[len(s.Spans)-1].Boot <= s.Boot
}

// lookAgain is the longest sleep of WithDeadline: the wall clock may be set, and
// timers stop while the machine sleeps.
const lookAgain = time.Minute

// WithDeadline returns a context that ends when d is over.
func (c *Clock) WithDeadline(ctx context.Context, d Deadline) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	if d == (Deadline{}) {
		return ctx, stop
	}
	go func() {
		for ctx.Err() == nil {
			left := c.Left(d)
			if left == 0 {
				cancel(context.DeadlineExceeded)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(min(left, lookAgain)):
			}
		}
	}()
	return ctx, stop
}
