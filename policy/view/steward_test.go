package view_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

func (w *world) who(v *view.View, path string) (by, at string) {
	w.t.Helper()
	a, err := v.Resolve(path)
	w.ok(err, "resolve "+path)
	made, err := v.GetXattr(nil, a.Node, "user.warren.created_by")
	w.ok(err, "created_by")
	when, err := v.GetXattr(nil, a.Node, "user.warren.created_at")
	w.ok(err, "created_at")
	return string(made), string(when)
}

// TestPutKeepsWhoMadeAFile: a file that is replaced whole keeps its maker and
// the time it was made, whoever replaces it, and has the newest content.
func TestPutKeepsWhoMadeAFile(t *testing.T) {
	w := newWorld(t)
	web, mate := w.open("web"), w.open("mate")
	for _, text := range []string{"one", strings.Repeat("x", 3<<20)} {
		path := "/users/ada/" + text[:1]
		if _, err := web.Put(path, strings.NewReader(text), 0); err != nil {
			t.Fatal(err)
		}
		by, at := w.who(web, path)
		if by != "web" {
			t.Fatalf("made by %q", by)
		}
		f, err := mate.Put(path, strings.NewReader(text+"!"), 0o4755)
		if err != nil {
			t.Fatal(err)
		}
		if f.Attr.Mode&0o6000 != 0 {
			t.Errorf("another agent's content has set-id bits under web's name: %o", f.Attr.Mode)
		}
		if by2, at2 := w.who(web, path); by2 != by || at2 != at {
			t.Errorf("after a replacement: made by %q at %s, was %q at %s", by2, at2, by, at)
		}
		if b, err := web.GetXattr(nil, f.Attr.Node, "user.warren.modified_by"); err != nil || string(b) != "mate" {
			t.Errorf("changed by %q, %v", b, err)
		}
		if got, _, err := web.ReadFile(path, -1); err != nil || string(got) != text+"!" {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestSteward: it reaches what the agent does not see, in the agent's name,
// and the deny-list holds; the shared agent is told who published.
func TestSteward(t *testing.T) {
	w := newWorld(t)
	v, err := w.space.Steward("guest")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/agents/conc/workspace/list"
	if _, err := v.PutHere(path, strings.NewReader("eggs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if by, _ := w.who(w.open("conc"), path); by != "guest" {
		t.Errorf("made by %q", by)
	}
	// In a soul's own tree no such name is given away.
	if _, err := v.PutHere("/agents/webb/workspace/x", strings.NewReader("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if by, _ := w.who(w.open("webb"), "/agents/webb/workspace/x"); by != "unknown" {
		t.Errorf("made by %q", by)
	}
	if _, err := v.PutHere("/agents/conc/workspace/.env", strings.NewReader("x"), 0); !errors.Is(err, backend.Denied) {
		t.Errorf("a name on the deny-list: %v", err)
	}
	if l := w.space.Denials("guest"); len(l) != 1 || l[0].Op != "create" {
		t.Errorf("denials: %+v", l)
	}
	if v.Agent() != "" {
		t.Errorf("agent %q", v.Agent())
	}
}

// TestPutHereFollowsNoLink: what a steward writes stays where it was sent.
func TestPutHereFollowsNoLink(t *testing.T) {
	w := newWorld(t)
	v, err := w.space.Steward("guest")
	if err != nil {
		t.Fatal(err)
	}
	w.write("/agents/gaia/workspace/plan", "secret")
	w.symlink("/agents/conc/workspace/list", "/warren/agents/gaia/workspace/plan")
	w.symlink("/agents/conc/workspace/new", "/warren/agents/gaia/workspace/new")
	for _, name := range []string{"list", "new"} {
		if _, err := v.PutHere("/agents/conc/workspace/"+name, strings.NewReader("x"), 0); !errors.Is(err, backend.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, _, err := w.gaia.ReadFile("/agents/gaia/workspace/plan", -1); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := w.gaia.Resolve("/agents/gaia/workspace/new"); !errors.Is(err, backend.NotFound) {
		t.Errorf("new: %v", err)
	}
}

// TestAllows tells what the door would say, and leaves no trace.
func TestAllows(t *testing.T) {
	w := newWorld(t)
	node := w.node("/agents/web/soul.md")
	for _, c := range []struct {
		agent string
		a     policy.Action
		want  bool
	}{{"gaia", policy.Write, true}, {"web", policy.Read, true}, {"web", policy.Write, false}, {"guest", policy.Read, false}} {
		if got := w.open(c.agent).Allows(c.a, node); got != c.want {
			t.Errorf("%s %v: %v", c.agent, c.a, got)
		}
	}
	for _, agent := range []string{"web", "guest", ""} {
		if l := w.space.Denials(agent); len(l) != 0 {
			t.Errorf("%q: %+v", agent, l)
		}
	}
}
