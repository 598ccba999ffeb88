package view_test

import (
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestHiddenCostsWhatAbsentDoes: no door answers for what is hidden with fewer
// or more decisions than for what does not exist: not after new facts, not
// after listings and volumes that came, and not the second time.
func TestHiddenCostsWhatAbsentDoes(t *testing.T) {
	w := newAudience(t, "web", "guest")
	hidden := map[string][]string{
		"/agents":   {"guest", "conc", "none", "ro", "boss", "gaia"},
		"/users":    {"bob"},
		"/projects": {"bobs"},
	}
	volumes := []backend.NodeID{w.node("/agents/guest"), w.node("/agents/conc/workspace"), w.node("/agents/none")}
	v := w.views["web"]
	warm := func() {
		for dir := range hidden {
			second(v.List(nil, w.node("/")))
			second(v.List(nil, w.node(dir)))
			second(v.Lookup(nil, w.node("/"), dir[1:]))
			second(v.Getattr(nil, w.node(dir)))
		}
	}
	// cost counts decisions, remembered or not. Two resources may share a slot of
	// the memory and push each other out, so how many were not remembered may
	// differ; but it is never none.
	cost := func(do func() error) uint64 {
		e := w.space.Engine()
		fresh, known := e.Evaluations(), e.Remembered()
		w.kind(do(), backend.NotFound, "what is hidden or absent")
		if fresh == e.Evaluations() {
			t.Error("what is hidden or absent is remembered")
		}
		return e.Evaluations() - fresh + e.Remembered() - known
	}
	check := func(step string) {
		t.Helper()
		warm()
		for dir, names := range hidden {
			at := w.node(dir)
			for range 2 {
				want := cost(func() error { return second(v.Lookup(nil, at, "no-such")) })
				for _, name := range names {
					if got := cost(func() error { return second(v.Lookup(nil, at, name)) }); got != want {
						t.Errorf("%s: %s in %s costs %d decisions, an absent name %d", step, name, dir, got, want)
					}
				}
			}
		}
		for range 2 {
			want := cost(func() error { return second(v.Getattr(nil, backend.Node(3, 7))) })
			for _, n := range volumes {
				if got := cost(func() error { return second(v.Getattr(nil, n)) }); got != want {
					t.Errorf("%s: the number of a hidden node costs %d decisions, one of nothing %d", step, got, want)
				}
			}
		}
	}
	check("at first")
	w.publish()
	check("after new facts")
	w.facts.Users["eve"] = true
	w.publish()
	w.volume(view.KindUser, "eve")
	hidden["/users"] = append(hidden["/users"], "eve")
	check("after a new volume")
}
