package policy

import (
	"slices"
	"testing"
	"time"
)

func TestPlaceOf(t *testing.T) {
	for path, want := range map[string]struct {
		vol Resource
		rel string
		ok  bool
	}{
		"/":                         {},
		"/agents":                   {},
		"/nowhere/x":                {},
		"/agents/web":               {Resource{Zone: ZoneHomeFixed, Owner: "web"}, "", true},
		"/agents/web/notes/a":       {Resource{Zone: ZoneHomeFixed, Owner: "web"}, "notes/a", true},
		"/agents/web/workspace":     {Resource{Zone: ZoneWorkspace, Owner: "web"}, "", true},
		"/agents/web/workspace/a/b": {Resource{Zone: ZoneWorkspace, Owner: "web"}, "a/b", true},
		"/agents/web/workspacex":    {Resource{Zone: ZoneHomeFixed, Owner: "web"}, "workspacex", true},
		"/agents/web/scratch/a":     {Resource{Zone: ZoneScratch, Owner: "web"}, "a", true},
		"/users/ada/a":              {Resource{Zone: ZoneUser, Owner: "ada"}, "a", true},
		"/projects/site":            {Resource{Zone: ZoneProject, Owner: "site"}, "", true},
		"/workspaces/default/a":     {Resource{Zone: ZoneDevice, Owner: "default"}, "a", true},
	} {
		vol, rel, ok := PlaceOf(path)
		if vol != want.vol && ok || rel != want.rel && ok || ok != want.ok {
			t.Errorf("%s: %+v %q %v", path, vol, rel, ok)
		}
	}
}

// TestGrantCoverage: what is covered, what leads there, and that names beside
// it are neither (failures.md, 33).
func TestGrantCoverage(t *testing.T) {
	f := testFacts()
	f.Grants = []Grant{
		{ID: "a", Agent: "web2", Path: "/agents/web/workspace/p/a", Right: "read", Expires: time.Now()},
		{ID: "b", Agent: "web2", Path: "/agents/web/workspace/p/a/in/side", Right: "write", Expires: time.Now()},
		{ID: "h", Agent: "kid", Path: "/agents/ro", Right: "read", Expires: time.Now()},
	}
	e := newEngine(t, f)
	p := principal(t, e, "web2", ReadWrite)
	ws := Resource{Zone: ZoneWorkspace, Owner: "web"}
	g := p.Grants(ws)
	may := func(a Action, rel string) bool {
		r := ws
		r.Grants = g.At(rel)
		return e.Decide(p, a, r).Allow
	}
	for rel, want := range map[string][2]bool{
		"": {}, "p": {}, "p/ab": {}, "p/a.": {}, "q/p/a": {}, "P/a": {},
		"p/a": {true, false}, "p/a/x": {true, false}, "p/a/in": {true, false}, "p/a/in/sideways": {true, false},
		"p/a/in/side": {true, true}, "p/a/in/side/x/y": {true, true},
	} {
		if got := [2]bool{may(Read, rel), may(Write, rel)}; got != want {
			t.Errorf("%q: read and write %v, want %v", rel, got, want)
		}
	}
	leads := func(g *VolumeGrants, rel string) (names []string) {
		for _, l := range g.Leads(rel) {
			names = append(names, l.Name)
		}
		return names
	}
	if got := leads(g, ""); !slices.Equal(slices.Compact(got), []string{"p"}) {
		t.Errorf("the root leads by %v", got)
	}
	if got := leads(g, "p"); !slices.Equal(slices.Compact(got), []string{"a"}) {
		t.Errorf("p leads by %v", got)
	}
	if got := leads(g, "p/ab"); got != nil {
		t.Errorf("p/ab leads by %v", got)
	}
	if got := leads(p.Grants(Resource{Zone: ZoneHomeFixed, Owner: "web"}), ""); !slices.Equal(slices.Compact(got), []string{"workspace"}) {
		t.Errorf("the home leads by %v", got)
	}
	kid := principal(t, e, "kid", ReadWrite)
	for _, z := range []Zone{ZoneHomeFixed, ZoneWorkspace, ZoneScratch} {
		if kid.Grants(Resource{Zone: z, Owner: "ro"}).Whole() == 0 {
			t.Errorf("a grant on a home does not cover zone %v", z)
		}
	}
	if kid.Grants(ws) != nil || p.Grants(Resource{Zone: ZoneWorkspace, Owner: "ro"}) != nil {
		t.Error("a grant touches another agent's or another volume's places")
	}
}

// TestGrantSetOfAnotherEpoch: a set's number never means other grants.
func TestGrantSetOfAnotherEpoch(t *testing.T) {
	f := testFacts()
	f.Grants = []Grant{{ID: "old", Agent: "web2", Path: "/agents/web/workspace", Right: "read", Expires: time.Now()}}
	e := newEngine(t, f)
	p := principal(t, e, "web2", ReadWrite)
	r := Resource{Zone: ZoneWorkspace, Owner: "web"}
	r.Grants = p.Grants(r).Whole()
	if !e.Decide(p, Read, r).Allow {
		t.Fatal("the grant is not in force")
	}
	f.Grants = []Grant{{ID: "new", Agent: "web2", Path: "/agents/ro/workspace", Right: "read", Expires: time.Now()}}
	if err := e.Swap(f); err != nil {
		t.Fatal(err)
	}
	if !e.Decide(p, Read, r).Allow {
		t.Error("what was decided in an epoch changes")
	}
	p = principal(t, e, "web2", ReadWrite)
	if d := e.Decide(p, Read, r); d.Allow {
		t.Errorf("a set of a revoked grant still allows: %+v", d)
	}
	next := Resource{Zone: ZoneWorkspace, Owner: "ro"}
	next.Grants = p.Grants(next).Whole()
	if next.Grants == r.Grants || !e.Decide(p, Read, next).Allow {
		t.Errorf("the new grant: set %d (the old one %d)", next.Grants, r.Grants)
	}
}
