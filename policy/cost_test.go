package policy

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// expertFacts is a store with a file of n policies, of which all may apply to
// whatever anybody does, and each has examples.
func expertFacts(n int) Facts {
	f := testFacts()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `
@id("site/%[1]d")
@reason("rule %[1]d of the site")
@match("web write workspace:web denied; web2 create project:site denied")
@not_match("web write workspace:web; web read user:ada")
forbid (principal, action in Action::"mutate", resource)
when { resource.denied && ["workspace", "project"].contains(resource.zone) }
unless { principal.role == "orchestrator" || resource has project && resource.project == Project::"p-%[1]d" };
`, i)
	}
	f.Extra = []File{{Name: "site.cedar", Text: b.String()}}
	return f
}

// used is the processor time that this process has used: what others on the
// machine do does not count.
func used(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// best is the processor time of fn in the best of some rounds of n.
func best(t testing.TB, rounds, n int, fn func()) time.Duration {
	least := time.Hour
	for range rounds {
		start := used(t)
		for range n {
			fn()
		}
		least = min(least, (used(t)-start)/time.Duration(n))
	}
	return least
}

// TestCostWithExperts holds the figures of the design with 200 policies of
// experts that all must be looked at; the best of several rounds counts.
func TestCostWithExperts(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("figures mean nothing under -race")
	}
	f := expertFacts(200)
	e := newEngine(t, f)
	p := principal(t, e, "web", ReadWrite)
	r := Resource{Zone: ZoneWorkspace, Owner: "web"}
	if !e.Decide(p, Write, r).Allow || e.Decide(p, Write, Resource{Zone: ZoneWorkspace, Owner: "web", Denied: true}).Allow {
		t.Fatal("the rules of the site do not hold")
	}
	if d := best(t, 30, 1000, func() { e.Decide(p, Write, r) }); d > 100*time.Nanosecond {
		t.Errorf("a remembered decision costs %v, want < 100ns", d)
	}
	if d := best(t, 30, 20, func() { p.evaluate(Write, r) }); d > 20*time.Microsecond {
		t.Errorf("a decision from Cedar costs %v, want < 20us", d)
	}
	if d := best(t, 10, 1, func() {
		if err := e.Swap(f); err != nil {
			t.Fatal(err)
		}
	}); d > 50*time.Millisecond {
		t.Errorf("a reload costs %v, want < 50ms", d)
	}
}

// loop is b.Loop that also tells the processor time.
func loop(b *testing.B, fn func()) {
	b.ReportAllocs()
	start := used(b)
	for b.Loop() {
		fn()
	}
	b.ReportMetric(float64(used(b)-start)/float64(b.N), "cpu-ns/op")
}

func BenchmarkDecideExperts(b *testing.B) {
	for _, n := range []int{10, 200} {
		e := newEngine(b, expertFacts(n))
		p := principal(b, e, "web", ReadWrite)
		r := Resource{Zone: ZoneWorkspace, Owner: "web"}
		b.Run(fmt.Sprintf("cedar/%d", n), func(b *testing.B) {
			loop(b, func() { p.evaluate(Write, r) })
		})
		b.Run(fmt.Sprintf("remembered/%d", n), func(b *testing.B) {
			loop(b, func() { e.Decide(p, Write, r) })
		})
	}
}

// BenchmarkReload parses, validates, tries the examples and swaps.
func BenchmarkReload(b *testing.B) {
	for _, n := range []int{10, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e, f := newEngine(b, Facts{}), expertFacts(n)
			loop(b, func() {
				if err := e.Swap(f); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
