package view_test

import (
	"testing"

	"github.com/warrenfs/warren/backend"
)

// TestCountsTellNothingHidden: metrics may be read by anybody on the host. What
// is counted for a name that is hidden, or for a node's number, is the same as
// for one that does not exist.
func TestCountsTellNothingHidden(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	type counts struct{ refused, hidden, decisions, names, noNames, inodes, noInodes uint64 }
	now := func() counts {
		c, e := w.tree.CacheStats(), w.space.Engine()
		n := counts{decisions: e.Remembered() + e.Evaluations(), names: c.NameHits, noNames: c.NameMisses, inodes: c.InodeHits, noInodes: c.InodeMisses}
		n.refused, n.hidden = w.space.DenialCounts()
		return n
	}
	cost := func(do func() error) counts {
		a := now()
		w.kind(do(), backend.NotFound, "what is hidden or absent")
		b := now()
		return counts{b.refused - a.refused, b.hidden - a.hidden, b.decisions - a.decisions,
			b.names - a.names, b.noNames - a.noNames, b.inodes - a.inodes, b.noInodes - a.noInodes}
	}
	for dir, names := range map[string][]string{"/agents": {"guest", "conc", "none"}, "/users": {"bob"}, "/projects": {"bobs"}} {
		at := w.node(dir)
		look := func(name string) counts {
			return cost(func() error { return second(v.Lookup(nil, at, name)) })
		}
		_ = second(v.List(nil, at)) // what is asked for the first time costs more
		look("no-such")
		want := look("no-such")
		for _, name := range names {
			if got := look(name); got != want {
				t.Errorf("%s in %s counts as %+v, an absent name as %+v", name, dir, got, want)
			}
		}
	}
	hidden := w.node("/agents/conc/workspace")
	want := cost(func() error { return second(v.Getattr(nil, backend.Node(3, 7))) })
	if got := cost(func() error { return second(v.Getattr(nil, hidden)) }); got != want {
		t.Errorf("the number of a hidden node counts as %+v, one of nothing as %+v", got, want)
	}
}
