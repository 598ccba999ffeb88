package workspace_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/workspace"
)

// TestRetentionWithAClockThatWasSet: a wall clock that is ahead for a moment takes
// nothing that is seconds old, and what is old by both clocks goes.
func TestRetentionWithAClockThatWasSet(t *testing.T) {
	d := newDated(t)
	d.write("scratch/new")
	collect := func(set time.Duration) uint64 {
		t.Helper()
		d.set = set
		got, err := d.c.Collect(t.Context(), true)
		if err != nil || got != d.collect() {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Removed
	}
	for _, set := range []time.Duration{10 * 24 * time.Hour, 0, -10 * 24 * time.Hour, 0} {
		if n := collect(set); n != 0 {
			t.Errorf("clock set by %v: %d files are gone that are seconds old", set, n)
		}
	}
	d.past = 17*24*time.Hour + time.Hour
	if n := collect(0); n != 1 {
		t.Errorf("after 17 days: %d files are gone", n)
	}
}

// TestRightsEndThoughTheClockWasSetBack: a grant and a token end after their time,
// also across a start of the daemon; a clock that is ahead ends them as well.
func TestRightsEndThoughTheClockWasSetBack(t *testing.T) {
	w := newWorld(t)
	w.addSoul(t, "a")
	var past, set time.Duration
	begun := time.Now()
	open := func() (*workspace.Registry, *uptime.Clock) {
		t.Helper()
		c := uptime.New(func() time.Time { return begun.Add(past + set) }, func() time.Duration { return time.Hour + past })
		err := workspace.ResumeClock(t.Context(), w.store, c)
		if err != nil {
			t.Fatal(err)
		}
		r, err := workspace.Open(t.Context(), workspace.Options{Store: w.store, Space: w.space, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		return r, c
	}
	reg, _ := open()
	g, err := reg.AddGrant(t.Context(), workspace.Grant{Agent: "a", Path: "/agents/a/workspace", Right: "read"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tok, text, err := reg.CreateToken(t.Context(), "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	holds := func(what string, want bool) {
		t.Helper()
		_, gone := reg.Grant(g.ID)
		_, _, denied := reg.Authenticate(text)
		if (gone == nil) != want || (denied == nil) != want || reg.InForce(g) != want || reg.Expired(&tok) == want {
			t.Errorf("%s: grant %v (in force %v), token %v; want them to hold: %v", what, gone, reg.InForce(g), denied, want)
		}
	}
	holds("at once", true)
	past = 30 * time.Minute
	if err := reg.SaveClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	set = -5 * time.Hour
	holds("set back", true)
	reg, _ = open()
	for _, x := range reg.Grants() {
		g = x
	}
	for _, x := range reg.Tokens() {
		tok = x
	}
	holds("after a start, set back", true)
	past = time.Hour
	holds("an hour has passed", false)
	past, set = 30*time.Minute, 5*time.Hour
	holds("ahead", false)
}

// TestCollectWithAClockThatWasSet: workspaces stay that nobody used for seconds.
func TestCollectWithAClockThatWasSet(t *testing.T) {
	h := newHouse(t)
	var set time.Duration
	begun := time.Now()
	var err error
	h.reg, err = workspace.Open(t.Context(), workspace.Options{Store: h.store, Space: h.space,
		Clock: uptime.New(func() time.Time { return time.Now().Add(set) }, func() time.Duration { return time.Since(begun) })})
	h.ok(err)
	h.layer = workspace.NewLayer(workspace.LayerOptions{Registry: h.reg, Space: h.space, Config: h.config})
	_, err = h.reg.CreateWorkspace(t.Context(), "new", "")
	h.ok(err)
	set = 200 * 24 * time.Hour
	gone, err := h.layer.Collect(t.Context(), h.as("gaia"), 90, false, func(string) bool { return false })
	if err != nil || len(gone) != 0 {
		t.Errorf("collected %v, %v", gone, err)
	}
}

// TestClockRecord: what the clock knew is read again, and a damaged record is an
// error that leaves the clock usable.
func TestClockRecord(t *testing.T) {
	w := newWorld(t)
	if err := w.reg.SaveClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := workspace.ResumeClock(t.Context(), w.store, uptime.System()); err != nil {
		t.Error(err)
	}
	_, err := w.store.Update(t.Context(), func(tx backend.Tx) error { return tx.Set([]byte("guptime/"), []byte("{")) })
	if err != nil {
		t.Fatal(err)
	}
	c := uptime.System()
	if err := workspace.ResumeClock(t.Context(), w.store, c); err == nil || errors.Is(err, backend.NotFound) {
		t.Errorf("a damaged record: %v", err)
	}
	if c.Before(time.Hour).After(time.Now()) {
		t.Error("the clock is unusable")
	}
}
