package policy

import (
	"fmt"
	"testing"
	"time"
)

// bigFacts is a store with n souls, each in one of n/10 projects.
func bigFacts(n int) Facts {
	f := testFacts()
	for i := range n {
		key := fmt.Sprintf("soul-%d", i)
		f.Agents[key] = Agent{Key: key, Role: Soul, User: "ada", Parent: "web"}
		slug := fmt.Sprintf("project-%d", i/10)
		if f.Projects[slug] == nil {
			f.Projects[slug] = map[string]string{}
		}
		f.Projects[slug][key] = "write"
	}
	return f
}

func TestRememberedDecisionAllocatesNothing(t *testing.T) {
	e := newEngine(t, bigFacts(50))
	p := principal(t, e, "soul-7", ReadWrite)
	r := Resource{Zone: ZoneProject, Owner: "project-0"}
	if !e.Decide(p, Write, r).Allow {
		t.Fatal("a member may not write")
	}
	if n := testing.AllocsPerRun(1000, func() { e.Decide(p, Write, r) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if n := testing.AllocsPerRun(1000, func() { e.NameDenied("index.html") }); n != 0 {
		t.Errorf("NameDenied: %v allocations, want none", n)
	}
}

// TestDecisionCost holds the figures of the design with room for a busy
// machine: the best of several rounds counts.
func TestDecisionCost(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("figures mean nothing under -race")
	}
	e := newEngine(t, bigFacts(200))
	p := principal(t, e, "soul-7", ReadWrite)
	r := Resource{Zone: ZoneProject, Owner: "project-0"}
	best := func(n int, fn func()) time.Duration {
		least := time.Hour
		for range 100 {
			start := time.Now()
			for range n {
				fn()
			}
			least = min(least, time.Since(start)/time.Duration(n))
		}
		return least
	}
	if d := best(1000, func() { e.Decide(p, Write, r) }); d > 100*time.Nanosecond {
		t.Errorf("a remembered decision costs %v, want < 100ns", d)
	}
	if d := best(50, func() { p.evaluate(Write, r) }); d > 20*time.Microsecond {
		t.Errorf("a decision from Cedar costs %v, want < 20us", d)
	}
}

func BenchmarkDecideRemembered(b *testing.B) {
	e := newEngine(b, bigFacts(200))
	p := principal(b, e, "soul-7", ReadWrite)
	r := Resource{Zone: ZoneProject, Owner: "project-0"}
	b.ReportAllocs()
	for b.Loop() {
		e.Decide(p, Write, r)
	}
}

func BenchmarkDecideCedar(b *testing.B) {
	e := newEngine(b, bigFacts(200))
	p := principal(b, e, "soul-7", ReadWrite)
	r := Resource{Zone: ZoneProject, Owner: "project-0"}
	b.ReportAllocs()
	for b.Loop() {
		p.evaluate(Write, r)
	}
}

func BenchmarkSwap(b *testing.B) {
	e := newEngine(b, Facts{})
	f := bigFacts(1000)
	for b.Loop() {
		if err := e.Swap(f); err != nil {
			b.Fatal(err)
		}
	}
}
