package uptime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend/uptime"
)

const day = 24 * time.Hour

// clocks are two that a test moves.
type clocks struct {
	wall time.Time
	boot time.Duration
}

func newClocks() *clocks {
	return &clocks{wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), boot: time.Hour}
}

func (c *clocks) clock() *uptime.Clock {
	return uptime.New(func() time.Time { return c.wall }, func() time.Duration { return c.boot })
}

// pass lets time pass on both.
func (c *clocks) pass(d time.Duration) { c.wall, c.boot = c.wall.Add(d), c.boot+d }

// set sets the wall clock alone.
func (c *clocks) set(d time.Duration) { c.wall = c.wall.Add(d) }

// TestBefore: a file is removed by age only if it is that old by both clocks.
func TestBefore(t *testing.T) {
	for name, x := range map[string]struct {
		do  func(c *clocks, look func())
		old bool // a file made at the start is a week old
	}{
		"a week passes":               {func(c *clocks, _ func()) { c.pass(7*day + 1) }, true},
		"nearly a week":               {func(c *clocks, _ func()) { c.pass(7*day - 1) }, false},
		"ahead for a moment":          {func(c *clocks, _ func()) { c.pass(time.Second); c.set(10 * day) }, false},
		"ahead for good, six days":    {func(c *clocks, look func()) { c.set(10 * day); look(); c.pass(6 * day) }, false},
		"ahead for good, seven days":  {func(c *clocks, look func()) { c.set(10 * day); look(); c.pass(7*day + 1) }, true},
		"ahead and back":              {func(c *clocks, look func()) { c.set(10 * day); look(); c.set(-10 * day); look(); c.pass(7*day + 1) }, true},
		"back, and a week":            {func(c *clocks, look func()) { c.pass(day); c.set(-3 * day); look(); c.pass(7 * day) }, false},
		"back, and time enough":       {func(c *clocks, look func()) { c.pass(day); c.set(-3 * day); look(); c.pass(10 * day) }, true},
		"drift is no jump":            {func(c *clocks, look func()) { c.set(5 * time.Second); look(); c.pass(7*day + 1) }, true},
		"set between, nobody looking": {func(c *clocks, look func()) { c.pass(6 * day); c.set(2 * day) }, false},
		"set often": {func(c *clocks, look func()) {
			for range 200 {
				c.set(time.Minute)
				look()
			}
			c.pass(8 * day)
		}, true},
	} {
		c := newClocks()
		u, made := c.clock(), c.wall
		x.do(c, func() { u.Check() })
		if got := made.Before(u.Before(7 * day)); got != x.old {
			t.Errorf("%s: old %v", name, got)
		}
	}
	u := newClocks().clock()
	if got := u.Before(1<<63 - 1); got.Year() > 1900 {
		t.Errorf("for ever: %v", got)
	}
}

// TestOver: a right ends at the time that comes first.
func TestOver(t *testing.T) {
	for name, x := range map[string]struct {
		do   func(c *clocks)
		over bool
	}{
		"before its time":    {func(c *clocks) { c.pass(59 * time.Minute) }, false},
		"at its time":        {func(c *clocks) { c.pass(time.Hour) }, true},
		"the clock is ahead": {func(c *clocks) { c.set(time.Hour) }, true},
		"it was set back":    {func(c *clocks) { c.set(-day); c.pass(time.Hour) }, true},
	} {
		c := newClocks()
		u := c.clock()
		d := u.Until(c.wall, c.wall.Add(time.Hour))
		if x.do(c); u.Over(d) != x.over {
			t.Errorf("%s: over %v, left %v", name, u.Over(d), u.Left(d))
		}
	}
	c := newClocks()
	if u := c.clock(); u.Over(uptime.Deadline{}) || u.Over(u.Until(c.wall, c.wall.Add(1<<63-1))) {
		t.Error("what has no end is over")
	}
}

// TestWithDeadline ends by the clock that comes first, and with its cancel.
func TestWithDeadline(t *testing.T) {
	u := uptime.System()
	now := u.Now()
	ctx, stop := u.WithDeadline(t.Context(), u.Until(now, now.Add(50*time.Millisecond)))
	defer stop()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, d := range []uptime.Deadline{{}, u.Until(now, now.Add(time.Hour))} {
		ctx, stop := u.WithDeadline(t.Context(), d)
		if ctx.Err() != nil {
			t.Error("over at once")
		}
		stop()
		<-ctx.Done()
	}
}

// TestResume: a daemon that starts again knows what the one before knew, and on
// another boot does not extend what was to end.
func TestResume(t *testing.T) {
	c := newClocks()
	first, made := c.clock(), c.wall
	c.pass(time.Hour)
	c.set(10 * day)
	if first.Check() != 10*day {
		t.Error("the jump was not seen")
	}
	b, err := first.Save()
	if err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	again := c.clock()
	if !made.Before(again.Before(7 * day)) {
		t.Error("without what was saved the wall clock is believed")
	}
	if err := again.Resume(b); err != nil {
		t.Fatal(err)
	}
	begin, end := c.wall, c.wall.Add(time.Hour)
	c.set(-5 * day)
	if d := again.Resumed(begin, end); again.Left(d) != time.Hour {
		t.Errorf("left %v", again.Left(d))
	}
	c.pass(30 * time.Minute)
	if d := again.Resumed(begin, end); again.Left(d) != 30*time.Minute {
		t.Errorf("left %v", again.Left(d))
	}
	c.pass(time.Hour)
	if !again.Over(again.Resumed(begin, end)) {
		t.Error("a grant was extended by setting the clock back before a start")
	}
	c.boot = time.Minute // it booted
	booted := c.clock()
	if err := booted.Resume(b); err != nil {
		t.Fatal(err)
	}
	if d := booted.Resumed(begin.Add(-time.Hour), begin.Add(-2*time.Minute)); !booted.Over(d) {
		t.Errorf("what was over as the clock was saved goes on for %v", booted.Left(d))
	}
	for _, bad := range []string{"", "{", "[]", `{"boot":-1}`} {
		u := c.clock()
		if err := u.Resume([]byte(bad)); err == nil && bad != `{"boot":-1}` {
			t.Errorf("%q was taken", bad)
		}
		u.Before(day)
	}
}
