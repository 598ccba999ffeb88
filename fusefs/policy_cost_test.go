package fusefs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy"
)

// manyPolicies are n policies of experts that all must be looked at for every
// change that is not remembered.
func manyPolicies(n int) []policy.File {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "@id(\"many/%d\")\nforbid (principal, action in Action::\"mutate\", resource) when { resource.denied && resource has project };\n", i)
	}
	return []policy.File{{Name: "many.cedar", Text: b.String()}}
}

// BenchmarkCreateByPolicies makes and closes files in a mount with 10 and with 200
// policies in force, in turns, and tells the median of the pairs of processor
// time: of this process, which is the program and the daemon. In so many turns that
// what a change of rules costs itself is little.
func BenchmarkCreateByPolicies(b *testing.B) {
	const batch = 2000
	s := newStack(b, memDriver)
	dir := s.mount("m", Config{})
	var facts [2]policy.Facts
	for i, n := range []int{10, 200} {
		facts[i] = testFacts()
		facts[i].Extra = manyPolicies(n)
	}
	used := func() time.Duration {
		var ts unix.Timespec
		must(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
		return time.Duration(ts.Nano())
	}
	var ratios []float64
	var sums [2]time.Duration
	round := 0
	for b.Loop() {
		var took [2]time.Duration
		for _, which := range [][]int{{0, 1}, {1, 0}}[round%2] {
			must(b, s.space.Publish(context.Background(), facts[which]))
			start := used()
			for i := range batch {
				fd, err := unix.Open(fmt.Sprint(dir, "/f", round, "-", which, "-", i), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
				must(b, err)
				must(b, unix.Close(fd))
			}
			took[which] = used() - start
			sums[which] += took[which]
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
		round++
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(sums[0].Microseconds())/float64(round*batch), "cpu-us/10")
	b.ReportMetric(float64(sums[1].Microseconds())/float64(round*batch), "cpu-us/200")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
