package attack

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
)

// samples is how many answers of each kind TestTimes takes at each door. Times
// depend on what else the machine does, so it is not part of the suite; what finds
// a difference is (TestADifferenceIsFound).
var samples = flag.Int("times", 0, "how many times to measure hidden and absent paths at each door; 0: do not")

// How two kinds of answers are told apart: samples are taken in turn, in random
// order, and ranked together. If both come from one distribution the rank sum
// (Mann and Whitney's U) is normal, and its z is within threshold but for 7 runs
// in a million. Two runs of one door must both be outside to count: another
// process of the machine can disturb one.
const threshold = 4.5

// contest compares two samples: z is positive where the first is slower, chance
// is how often one of the first is slower than one of the second, and median is by
// how much its median is.
func contest(a, b []time.Duration) (z, chance float64, median time.Duration) {
	type sample struct {
		d     time.Duration
		first bool
	}
	both := make([]sample, 0, len(a)+len(b))
	for _, d := range a {
		both = append(both, sample{d, true})
	}
	for _, d := range b {
		both = append(both, sample{d, false})
	}
	slices.SortFunc(both, func(x, y sample) int { return cmp.Compare(x.d, y.d) })
	ranks, ties := 0.0, 0.0
	for i := 0; i < len(both); {
		j := i
		for j < len(both) && both[j].d == both[i].d {
			j++
		}
		for k := i; k < j; k++ {
			if both[k].first {
				ranks += float64(i+j+1) / 2
			}
		}
		n := float64(j - i)
		ties += n*n*n - n
		i = j
	}
	na, nb, n := float64(len(a)), float64(len(b)), float64(len(both))
	u := ranks - na*(na+1)/2
	sigma := math.Sqrt(na * nb / 12 * (n + 1 - ties/(n*(n-1))))
	slices.Sort(a)
	slices.Sort(b)
	return (u - na*nb/2) / sigma, u / (na * nb), a[len(a)/2] - b[len(b)/2]
}

// race takes n samples each of two kinds, in turn and in random order.
func race(n int, first, second func(i int)) (a, b []time.Duration) {
	took := func(do func(int), i int) time.Duration {
		start := time.Now()
		do(i)
		return time.Since(start)
	}
	for i := range n {
		if rand.IntN(2) == 0 {
			a = append(a, took(first, i))
			b = append(b, took(second, i))
		} else {
			b = append(b, took(second, i))
			a = append(a, took(first, i))
		}
	}
	return a, b
}

// TestADifferenceIsFound: in times as answers have them, with their long tail,
// a difference of a fiftieth is found, and none where there is none.
func TestADifferenceIsFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	draw := func(n int, more time.Duration) (out []time.Duration) {
		for range n {
			d := 40_000 * math.Exp(rnd.NormFloat64()*0.2)
			if rnd.IntN(50) == 0 { // preempted
				d += 2e6 * rnd.Float64()
			}
			out = append(out, time.Duration(d)+more)
		}
		return out
	}
	for range 20 {
		if z, chance, _ := contest(draw(5000, 0), draw(5000, 0)); math.Abs(z) > threshold {
			t.Errorf("equal samples: z %.1f, %.3f", z, chance)
		}
		if z, chance, _ := contest(draw(20_000, 0), draw(20_000, 800)); z > -threshold || chance > 0.5 {
			t.Errorf("the second is slower by 0.8 us of 40: z %.1f, %.3f", z, chance)
		}
	}
	same := make([]time.Duration, 100)
	if z, chance, median := contest(same, slices.Clone(same)); !(z == 0 || math.IsNaN(z)) || chance != 0.5 || median != 0 {
		t.Errorf("all the same: %v %v %v", z, chance, median)
	}
	// And what takes the samples keeps them apart.
	calls := [2]int{}
	a, b := race(500, func(int) { calls[0]++ }, func(int) { calls[1]++; time.Sleep(50 * time.Microsecond) })
	if z, _, _ := contest(a, b); z > -threshold || calls != [2]int{500, 500} {
		t.Errorf("a sleep is not found: z %.1f, %v calls", z, calls)
	}
}

// door is a way to ask about a path. ask must end as for what does not exist.
type door struct {
	name string
	each int // how many different paths it needs before it may ask one again
	ask  func(path string) error
	next func() // before the first, and when all its paths were asked about; or nil

	again bool // everything is asked about once before it counts
}

// prey is the directory whose entries hidden and absent are told apart in: the
// thief sees it as the way to what is granted to it below.
const prey = "/agents/web_designer/workspace/prey"

const preyNames = 2000

// TestTimes: neither a mount nor the API lets what is hidden and what does not
// exist be told apart by time: not right after rules changed, and not later.
func TestTimes(t *testing.T) {
	if *samples == 0 {
		t.Skip("measures time; run it with -times 20000")
	}
	s := shared.Running(t)
	r := newRevoker(t, s)
	must(t, os.MkdirAll(s.Gaia+prey+"/site", 0o755))
	for i := range preyNames {
		must(t, os.WriteFile(s.Gaia+prey+name("h", i), []byte("secret"), 0o644))
	}
	const projects = 30
	for i := range projects {
		_, err := r.CreateProject(r.ctx, control.ProjectSpec{Slug: name("h", i)[1:]})
		must(t, err)
	}
	must(t, member("read")(r))
	_, err := r.Client.Grant(r.ctx, control.GrantSpec{Agent: soul, Path: prey + "/site", Right: "read", TTL: "24h"})
	must(t, err)
	token, err := r.CreateToken(r.ctx, control.TokenSpec{Agent: soul})
	must(t, err)
	api := control.NewClient(filepath.Join(s.Dir, "run", "agent.sock"), token.Text)
	t.Cleanup(api.Close)
	for _, d := range r.doors(api) {
		measure(t, d, "in a granted directory's parent", func(kind string, i int) string { return prey + name(kind, i%preyNames) })
		d.each = min(d.each, projects)
		measure(t, d, "in /projects", func(kind string, i int) string { return "/projects" + name(kind, i%projects) })
	}
}

// name is that of the i-th entry of a kind: hidden "h", absent "a" or "b". All
// are of one length.
func name(kind string, i int) string {
	return fmt.Sprintf("/%s%08d", kind, uint32(i)*2654435761%100_000_000)
}

func (r *revoker) doors(api *control.Client) []door {
	gone := func(err error) error {
		if control.KindOf(err) == control.KindNotFound {
			return nil
		}
		return fmt.Errorf("%v, want that it is not found", err)
	}
	mounted := ""
	remount := func() { // a kernel that has nothing, and rules that are new
		must(r.t, access("ro")(r))
		must(r.t, access("rw")(r))
		if mounted != "" {
			_, err := r.s.Try("umount", mounted)
			must(r.t, err)
		}
		var err error
		mounted, err = os.MkdirTemp(r.s.Dir, "times")
		must(r.t, err)
		_, err = r.s.Try("mount", "--agent", soul, mounted)
		must(r.t, err)
		_, err = os.ReadDir(mounted + prey)
		must(r.t, err)
		_, err = os.ReadDir(mounted + "/projects") // it has one
		must(r.t, err)
	}
	r.t.Cleanup(func() {
		if mounted != "" {
			_, _ = r.s.Try("umount", mounted)
		}
	})
	lstat := func(path string) error {
		if _, err := os.Lstat(mounted + path); !os.IsNotExist(err) {
			return fmt.Errorf("%v, want that it does not exist", err)
		}
		return nil
	}
	return []door{
		{name: "lstat, asked the first time", each: preyNames, ask: lstat, next: remount},
		{name: "lstat, asked again", each: 1000, ask: lstat, again: true},
		{name: "API stat", each: math.MaxInt, ask: func(p string) error { _, err := api.Stat(r.ctx, "", p, false); return gone(err) }},
		{name: "API read", each: math.MaxInt, ask: func(p string) error { return gone(api.Read(r.ctx, "", p+"/x", io.Discard)) }},
		{name: "API explain", each: math.MaxInt, ask: func(p string) error {
			x, err := api.Explain(r.ctx, soul, "read", p)
			if err == nil && x.Note != "it does not exist" {
				err = fs.ErrExist
			}
			return err
		}},
	}
}

// measure compares hidden with absent names at a door, absent with absent ones,
// and, so that a result says something, absent with absent ones that take a
// microsecond longer.
func measure(t *testing.T, d door, where string, path func(kind string, i int) string) {
	t.Helper()
	ask := func(kind string, spin time.Duration) func(int) {
		return func(i int) {
			p := path(kind, i)
			if err := d.ask(p); err != nil {
				t.Errorf("%s: %s: %v", d.name, p, err)
			}
			for end := time.Now().Add(spin); spin > 0 && time.Now().Before(end); {
			}
		}
	}
	run := func(first, second string, spin time.Duration) (z, chance float64, median time.Duration) {
		var a, b []time.Duration
		for len(a) < *samples && !t.Failed() {
			if d.next != nil {
				d.next()
			}
			n := min(d.each, *samples-len(a), 2000)
			if d.again {
				race(n, ask(first, 0), ask(second, 0))
			}
			x, y := race(n, ask(first, 0), ask(second, spin))
			if t.Failed() {
				return 0, 0, 0
			}
			a, b = append(a, x...), append(b, y...)
		}
		return contest(a, b)
	}
	z, chance, median := run("h", "a", 0)
	if math.Abs(z) > threshold {
		t.Logf("%s %s: z %.1f, %.4f, median %v; once more", d.name, where, z, chance, median)
		var again float64
		if again, chance, median = run("h", "a", 0); math.Abs(again) > threshold && again*z > 0 {
			t.Errorf("%s %s: hidden and absent are told apart by time, z %.1f and %.1f", d.name, where, z, again)
		}
		z = again
	}
	z0, chance0, median0 := run("b", "a", 0)
	z1, chance1, _ := run("b", "a", time.Microsecond)
	t.Logf("%-28s %-32s hidden-absent z %5.1f (%.4f, median %v); absent-absent z %5.1f (%.4f, median %v); a microsecond more: z %5.1f (%.4f)",
		d.name, where, z, chance, median, z0, chance0, median0, z1, chance1)
}
