package policy

import (
	"strings"
	"testing"
)

// TestNameRules: for everybody under a path, for one agent, for one under a path.
func TestNameRules(t *testing.T) {
	f := testFacts()
	f.Settings = Settings{
		Rules: []NameRule{{Name: "*.pem", Under: "/projects/site/"}, {Name: "Secret*", Agent: "web"},
			{Name: "*.key", Agent: "web", Under: "/agents/web/workspace"}},
		Exceptions: []NameException{{Name: "*.pem", Under: "/projects/site/test"}, {Name: "secret*", Under: "/"}},
	}
	e := newEngine(t, f)
	web, kid := principal(t, e, "web", ReadWrite), principal(t, e, "kid", ReadWrite)
	for file, want := range map[string][3]bool{ // denied to all; barred to web, to kid
		"/projects/site/A.PEM":          {true, false, false},
		"/projects/site/a/b.pem":        {true, false, false},
		"/projects/site/test/a.pem":     {},
		"/projects/sites/a.pem":         {},
		"/projects/site.pem":            {},
		"/agents/web/notes/secret.txt":  {false, true, false},
		"/agents/web/workspace/a.KEY":   {false, true, false},
		"/agents/web/workspaces/a.key":  {},
		"/agents/web/scratch/a.key":     {},
		"/agents/web/workspace/.env":    {true, false, false},
		"/agents/web/workspace/a.pem/x": {},
	} {
		got := [3]bool{web.NameDeniedAt(file), web.NameBarredAt(file), kid.NameBarredAt(file)}
		if got != want {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
		name := file[strings.LastIndexByte(file, '/')+1:]
		if denied, byPath := kid.NameJudged(name); !byPath && denied != want[0] {
			t.Errorf("%s: judged by its name alone: %v", file, denied)
		}
		if barred, byPath := web.NameBarred(name); !byPath && barred != want[1] {
			t.Errorf("%s: barred by its name alone: %v", file, barred)
		}
	}
	if !web.HasOwnNames() || kid.HasOwnNames() || !kid.NamesByPath() {
		t.Error("who has a list of its own")
	}
	place := Resource{Zone: ZoneWorkspace, Owner: "web", Barred: true}
	for a, want := range map[Action]bool{See: true, Remove: true, Read: false, Write: false, Create: false, Move: false, Link: false} {
		if got := e.Decide(web, a, place); got.Allow != want || !want && got.Rule != "deny-names/web" {
			t.Errorf("%v of a barred name: %+v", a, got)
		}
	}
	gaia := principal(t, e, "gaia", ReadWrite)
	if !e.Decide(gaia, Read, place).Allow {
		t.Error("another agent's list holds for gaia")
	}
	if text := e.Show("web"); !strings.Contains(text, `@names("*.key under /agents/web/workspace; Secret*")`) || !strings.Contains(text, "*.pem under /projects/site") {
		t.Errorf("show: %s", text)
	}
	if strings.Contains(e.Show("kid"), "Secret") {
		t.Error("kid is shown web's list")
	}
}

// TestNameRulesRefused: what names no agent, no path or no pattern.
func TestNameRulesRefused(t *testing.T) {
	for _, r := range []NameRule{{Name: "x", Agent: "nobody"}, {Name: "x", Under: "rel"}, {Name: "x", Under: "/a/../b"}, {Name: ""}, {Name: "["}, {Name: "a/b"}} {
		f := testFacts()
		f.Settings.Rules = []NameRule{r}
		if e, _ := New(nil); e.Swap(f) == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}
