package view_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestZonesOfManyNames: what an agent may do with a file of its home follows
// from the strictest of its names, whatever order names come, move and go in.
// ro may write in its caches only, web wherever the home is not fixed.
func TestZonesOfManyNames(t *testing.T) {
	for _, agent := range []string{"web", "ro"} {
		w := newWorld(t)
		v, home := w.open(agent), "/agents/"+agent
		dirs := map[string]backend.NodeID{"": w.node(home)}
		for _, d := range []string{"notes", "caches", "skills", "caches/sub", "notes/sub"} {
			dirs[d] = w.mkdir(home + "/" + d)
		}
		keys := []string{"", "notes", "caches", "skills", "caches/sub", "notes/sub"}
		file := w.write(home+"/caches/start", "x")
		names := [][2]string{{"caches", "start"}}
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 1))
		for step := range 400 {
			dir, i := keys[r.IntN(len(keys))], r.IntN(len(names))
			name := fmt.Sprint("n", step)
			switch op := r.IntN(3); {
			case op == 0 && len(names) < 6:
				_, err := w.gaia.Link(nil, file, dirs[dir], name)
				w.ok(err, "link")
				names = append(names, [2]string{dir, name})
			case op == 1 && len(names) > 1:
				w.ok(w.gaia.Unlink(nil, dirs[names[i][0]], names[i][1]), "unlink")
				names = append(names[:i], names[i+1:]...)
			default:
				w.ok(w.gaia.Rename(nil, dirs[names[i][0]], names[i][1], dirs[dir], name, 0), "rename")
				names[i] = [2]string{dir, name}
			}
			want := true
			for _, n := range names {
				top, _, _ := strings.Cut(n[0], "/")
				want = want && (top == "caches" || agent == "web" && top == "notes")
			}
			_, err := v.Open(nil, file, view.OpenFlags{Write: true})
			if want != (err == nil) || err != nil && !errors.Is(err, backend.Denied) {
				t.Fatalf("%s, seed %d, step %d, names %v: %v", agent, seed, step, names, err)
			}
		}
	}
}

// TestThousandsOfNames in a home cost each the same: links and removals in the
// order of names, with the file asked for after each.
func TestThousandsOfNames(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	w := newWorld(t)
	v := w.open("web")
	file := w.write("/agents/web/caches/first", "x")
	notes := w.node("/agents/web/notes")
	round := func(n int) time.Duration {
		start := time.Now()
		for i := range n {
			_, err := v.Link(nil, file, notes, fmt.Sprintf("%06d", i))
			w.ok(err, "link")
		}
		for i := range n {
			w.ok(v.Unlink(nil, notes, fmt.Sprintf("%06d", i)), "unlink")
			_, err := v.Getattr(nil, file)
			w.ok(err, "getattr")
		}
		return time.Since(start)
	}
	round(100)
	// As many names altogether, in rounds of 1,000 and in one; another process may
	// disturb either, so it counts if it comes out so three times.
	for try := range 3 {
		var few time.Duration
		for range 8 {
			few += round(1000)
		}
		many := round(8000)
		t.Logf("8,000 names, in rounds of 1,000: %v, in one: %v", few, many)
		if many < 4*few+200*time.Millisecond {
			return
		}
		if try == 2 {
			t.Error("a name costs more among more of them")
		}
	}
}
