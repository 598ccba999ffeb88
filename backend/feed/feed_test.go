package feed_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/scripts/waits"
)

// clock is one that tests set.
type clock struct {
	now backend.Time
	set time.Duration // by how much the wall clock alone was set
}

// moved returns a clock that follows c.
func (c *clock) moved() *uptime.Clock {
	return uptime.New(func() time.Time { return c.now.Time().Add(c.set) }, func() time.Duration { return time.Duration(c.now) })
}

func open(t *testing.T, s backend.Store, o feed.Options) *feed.Feed {
	t.Helper()
	f, err := feed.Open(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func read(t *testing.T, f *feed.Feed, after uint64) (out []feed.Event) {
	t.Helper()
	_, err := f.Read(t.Context(), after, 1<<20, func(e *feed.Event) error {
		out = append(out, *e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func add(t *testing.T, f *feed.Feed, e feed.Event) uint64 {
	t.Helper()
	if err := f.Add(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	return e.Seq
}

// TestOrderAcrossRestarts: numbers go on, nothing is lost or told twice, bytes are
// kept as they are.
func TestOrderAcrossRestarts(t *testing.T) {
	s := mem.New(mem.Options{})
	var want []string
	last := uint64(0)
	for round := range 3 {
		f := open(t, s, feed.Options{})
		if f.Last() != last {
			t.Fatalf("round %d goes on after %d, want %d", round, f.Last(), last)
		}
		for i := range 100 {
			path := fmt.Sprintf("/a/%d/%d\n\xff", round, i)
			want = append(want, path)
			seq := add(t, f, feed.Event{Op: "write", Agent: "web", Mount: "/mnt", Path: path, To: "/to", Rule: "r", Node: 7})
			if seq <= last {
				t.Fatalf("event %d follows %d", seq, last)
			}
			last = seq
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := read(t, open(t, s, feed.Options{}), 0)
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, e := range got {
		if e.Path != want[i] || e.Op != "write" || e.Agent != "web" || e.Mount != "/mnt" || e.To != "/to" || e.Rule != "r" || e.Node != 7 || e.Count != 1 {
			t.Fatalf("event %d is %+v, want path %q", i, e, want[i])
		}
	}
}

// TestReadGoesOn: by any limit, each event once.
func TestReadGoesOn(t *testing.T) {
	f := open(t, mem.New(mem.Options{}), feed.Options{})
	for i := range 50 {
		add(t, f, feed.Event{Op: "write", Path: fmt.Sprint(i)})
	}
	for _, limit := range []int{1, 7, 50, 1000} {
		var got []string
		for after := uint64(0); ; {
			next, err := f.Read(t.Context(), after, limit, func(e *feed.Event) error { got = append(got, e.Path); return nil })
			if err != nil {
				t.Fatal(err)
			}
			if next == after {
				break
			}
			after = next
		}
		if len(got) != 50 || got[49] != "49" {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
}

// TestFresh: a change is told again when a reader was given it, or after a second.
func TestFresh(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	f := open(t, mem.New(mem.Options{}), feed.Options{Clock: c.moved()})
	e := feed.Event{Op: "write", Agent: "web", Node: 7}
	if f.Fresh(7, "web", "write") {
		t.Error("fresh before the first")
	}
	add(t, f, e)
	if !f.Fresh(7, "web", "write") || f.Fresh(7, "web", "attr") || f.Fresh(7, "other", "write") || f.Fresh(8, "web", "write") {
		t.Error("after the first: one more is as good, of just this")
	}
	read(t, f, 0)
	if f.Fresh(7, "web", "write") {
		t.Error("what a reader was given is fresh")
	}
	add(t, f, e)
	c.now += backend.Time(2 * time.Second)
	if f.Fresh(7, "web", "write") {
		t.Error("fresh after two seconds")
	}
}

// TestFreshAfterCreation: what the creator does to a new node at once belongs to
// the event of its creation.
func TestFreshAfterCreation(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	f := open(t, mem.New(mem.Options{}), feed.Options{Clock: c.moved()})
	made := feed.Event{Op: "create", Agent: "web", Node: 7, Created: true}
	add(t, f, made)
	if !f.Fresh(7, "web", "write") || !f.Fresh(7, "web", "attr") || f.Fresh(7, "other", "write") || f.Fresh(8, "web", "write") {
		t.Error("after the creation: of this node by its creator nothing more is told")
	}
	f.Last()
	if f.Fresh(7, "web", "write") {
		t.Error("fresh after a reader took the place to go on from")
	}
	made.Node = 9
	add(t, f, made)
	c.now += backend.Time(2 * time.Second)
	if f.Fresh(9, "web", "write") {
		t.Error("fresh two seconds after the creation")
	}
}

// TestDenialsAreCounted and bounded: a loop fills nothing.
func TestDenialsAreCounted(t *testing.T) {
	f := open(t, mem.New(mem.Options{}), feed.Options{})
	for i := range 50_000 {
		f.Note(feed.Event{Op: "open", Agent: "web", Path: "/a"})
		f.Note(feed.Event{Op: "open", Agent: "bad", Path: fmt.Sprint("/", i)})
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, web, bad := read(t, f, 0), uint64(0), uint64(0)
	for _, e := range got {
		if e.Flags&feed.Denied == 0 {
			t.Errorf("no denial: %+v", e)
		}
		if e.Agent == "web" {
			web += e.Count
		} else {
			bad += e.Count
		}
	}
	if web != 50_000 || bad != 50_000 {
		t.Errorf("counted %d and %d", web, bad)
	}
	if len(got) > 5_000 { // some 100 for each agent and flush
		t.Errorf("%d events for a loop", len(got))
	}
}

// TestDenialsWhileTheyAreWritten: denials are noted while others are written,
// and while there are none; all are counted.
func TestDenialsWhileTheyAreWritten(t *testing.T) {
	f := open(t, mem.New(mem.Options{}), feed.Options{})
	const agents, each = 4, 2000
	var noters sync.WaitGroup
	for a := range agents {
		noters.Go(func() {
			for i := range each {
				f.Note(feed.Event{Op: "open", Agent: fmt.Sprint("a", a), Path: fmt.Sprint("/", i%10)})
			}
		})
	}
	done := make(chan struct{})
	go func() { noters.Wait(); close(done) }()
	for end := false; !end; {
		select {
		case <-done:
			end = true
		default:
		}
		for range 2 { // the second time, most often, with nothing noted
			if err := f.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	total := uint64(0)
	for _, e := range read(t, f, 0) {
		total += e.Count
	}
	if total != agents*each {
		t.Errorf("counted %d, want %d", total, agents*each)
	}
}

// TestTrim: by age and by number; readers go on.
func TestTrim(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	f := open(t, mem.New(mem.Options{}), feed.Options{MaxAge: time.Minute, MaxEvents: 30, Clock: c.moved()})
	for i := range 20 {
		add(t, f, feed.Event{Op: "old", Path: fmt.Sprint(i)})
	}
	c.now += backend.Time(2 * time.Minute)
	for i := range 10 {
		add(t, f, feed.Event{Op: "new", Path: fmt.Sprint(i)})
	}
	trim := func() []feed.Event {
		t.Helper()
		if err := f.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		return read(t, f, 5)
	}
	if got := trim(); len(got) != 10 || got[0].Op != "new" {
		t.Errorf("by age %d are left", len(got))
	}
	for i := range 100 {
		add(t, f, feed.Event{Op: "more", Path: fmt.Sprint(i)})
	}
	if got := trim(); len(got) != 30 || got[29].Path != "99" {
		t.Errorf("by number %d are left", len(got))
	}
}

// TestTrimAfterTheClockWasSet: a wall clock that is ahead for a moment takes no
// event, and one that was set back makes none fresh for longer.
func TestTrimAfterTheClockWasSet(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	f := open(t, mem.New(mem.Options{}), feed.Options{MaxAge: time.Minute, Clock: c.moved()})
	e := feed.Event{Op: "write", Agent: "web", Node: 7}
	for _, step := range []struct {
		past, set time.Duration
		left      int
	}{{0, 0, 1}, {time.Second, 10 * 24 * time.Hour, 1}, {time.Second, 0, 1}, {30 * time.Second, -time.Hour, 1}, {2 * time.Minute, 0, 1}, {2 * time.Minute, 0, 0}} {
		if step.past == 0 {
			add(t, f, e)
		}
		c.now, c.set = c.now+backend.Time(step.past), step.set
		if err := f.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(read(t, f, 0)); got != step.left {
			t.Errorf("%+v: %d events are left", step, got)
		}
	}
	c.set = 0
	add(t, f, feed.Event{Op: "write", Agent: "web", Node: 8})
	c.now, c.set = c.now+backend.Time(2*time.Second), -time.Hour
	if f.Fresh(8, "web", "write") {
		t.Error("fresh after two seconds, with the clock set back")
	}
}

// TestSince finds a time among numbers with holes.
func TestSince(t *testing.T) {
	c := clock{}
	f := open(t, mem.New(mem.Options{}), feed.Options{MaxEvents: 70, Clock: c.moved()})
	for i := range 100 {
		c.now = backend.Time(1000 + 10*i)
		add(t, f, feed.Event{Op: "x"})
	}
	if err := f.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[backend.Time]backend.Time{0: 1300, 1300: 1300, 1301: 1310, 1555: 1560, 1990: 1990} {
		after, err := f.Since(t.Context(), at)
		got := read(t, f, after)
		if err != nil || len(got) == 0 || got[0].Time != want {
			t.Errorf("since %d: after %d, %v", at, after, err)
		}
	}
	if after, err := f.Since(t.Context(), 5000); err != nil || after != f.Last() {
		t.Errorf("since later than all: %d, %v", after, err)
	}
}

// TestWait ends with an event, or with its context.
func TestWait(t *testing.T) {
	f := open(t, mem.New(mem.Options{}), feed.Options{})
	got, last := make(chan error, 1), f.Last()
	go func() { got <- f.Wait(context.Background(), last) }()
	add(t, f, feed.Event{Op: "x"})
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-waits.After(t, time.Minute):
		t.Fatal("it waits on")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := f.Wait(ctx, f.Last()); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}
