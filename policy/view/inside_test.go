package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestPathInsideTheRoot: a file with a name outside a view's root is called by
// the one inside, wherever a path is told.
func TestPathInsideTheRoot(t *testing.T) {
	w := newWorld(t)
	sub := w.mkdir("/agents/web/workspace/app/src")
	f := w.write("/agents/web/workspace/app/secret-name", "out")
	_, err := w.gaia.Link(nil, f, sub, "alias")
	w.ok(err, "link")
	const want = "/agents/web/workspace/app/src/alias"
	for _, access := range []view.Access{view.ReadWrite, view.ReadOnly} {
		v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/app/src", Access: access})
		if path, err := v.Path(f); err != nil || path != want {
			t.Errorf("path %q, %v", path, err)
		}
		if path, err := v.GetXattr(nil, f, "user.warren.path"); err != nil || string(path) != want {
			t.Errorf("user.warren.path is %q, %v", path, err)
		}
		if access == view.ReadOnly {
			_, err = v.Write(nil, f, []byte("x"), 0)
			w.kind(err, backend.ReadOnly, "write")
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-name") {
				t.Errorf("the refusal says %v", err)
			}
		}
		// The name inside goes: with it all that could be told.
		if access == view.ReadOnly {
			w.ok(w.gaia.Unlink(nil, sub, "alias"), "unlink")
			_, err = v.GetXattr(nil, f, "user.warren.path")
			w.kind(err, backend.NotFound, "user.warren.path of what is outside")
		}
	}
	if path, err := w.open("web").Path(f); err != nil || path != "/agents/web/workspace/app/secret-name" {
		t.Errorf("to a view of everything it is %q, %v", path, err)
	}
}

// TestLinkCountInsideTheRoot: names outside a view's root are not counted.
func TestLinkCountInsideTheRoot(t *testing.T) {
	w := newWorld(t)
	sub, out := w.mkdir("/agents/web/workspace/app/src"), w.mkdir("/agents/web/workspace/out")
	f := w.write("/agents/web/workspace/app/src/f", "x")
	v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/app/src"})
	want := func(step string, inside, all uint32) {
		t.Helper()
		_, err := w.gaia.Setattr(nil, f, backend.SetAttr{})
		w.ok(err, step)
		a, err := v.Getattr(nil, f)
		w.ok(err, step)
		b, err := w.open("web").Getattr(nil, f)
		w.ok(err, step)
		if l, err := v.Lookup(nil, sub, "f"); err != nil || l.Nlink != inside {
			t.Errorf("%s: looked up, %d names, %v", step, l.Nlink, err)
		}
		if a.Nlink != inside || b.Nlink != all {
			t.Errorf("%s: %d names in the view and %d in all, want %d and %d", step, a.Nlink, b.Nlink, inside, all)
		}
	}
	link := func(dir backend.NodeID, name string) {
		t.Helper()
		_, err := w.gaia.Link(nil, f, dir, name)
		w.ok(err, "link "+name)
	}
	want("one name", 1, 1)
	link(out, "a")
	want("one outside", 1, 2)
	link(sub, "b")
	want("two inside", 2, 3)
	for i := range 998 {
		link(out, fmt.Sprint("more", i))
	}
	want("too many to count", 1, 1001)
	w.ok(w.gaia.Unlink(nil, out, "a"), "unlink")
	want("just few enough", 2, 1000)
}

// TestRootPathFollowsRenames of the view's root.
func TestRootPathFollowsRenames(t *testing.T) {
	w := newWorld(t)
	w.mkdir("/agents/web/workspace/app/src")
	v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/app/src"})
	if got := v.RootPath(); got != "/agents/web/workspace/app/src" {
		t.Errorf("root %q", got)
	}
	ws := w.node("/agents/web/workspace")
	w.ok(w.gaia.Rename(nil, ws, "app", ws, "old", 0), "rename")
	if got := v.RootPath(); got != "/agents/web/workspace/old/src" {
		t.Errorf("root after a rename %q", got)
	}
	if got := w.open("web").RootPath(); got != "/" {
		t.Errorf("root of all %q", got)
	}
}

// TestProvenanceNamesWhomOneSees: the agents in a file's provenance are named
// to those who see them, and as long as they see the file themselves; others
// only to those who see all.
func TestProvenanceNamesWhomOneSees(t *testing.T) {
	w := newWorld(t)
	w.facts.Projects["site"]["guest"] = "write"
	w.publish()
	a, _, err := w.open("guest").Create(nil, w.node("/projects/site"), "f", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = w.open("web").Write(nil, a.Node, []byte("x"), 0)
	w.ok(err, "write")
	by := func(step string, want map[string][2]string) {
		t.Helper()
		for who, names := range want {
			v := w.open(who)
			for i, what := range []string{"created_by", "modified_by"} {
				if b, err := v.GetXattr(nil, a.Node, "user.warren."+what); err != nil || string(b) != names[i] {
					t.Errorf("%s: %s to %s is %q, want %q (%v)", step, what, who, b, names[i], err)
				}
			}
		}
	}
	by("at first", map[string][2]string{"web": {"guest", "web"}, "guest": {"guest", "web"}, "gaia": {"guest", "web"}, "lim": {"guest", "web"}})
	delete(w.facts.Projects["site"], "guest")
	w.publish()
	by("guest is no member", map[string][2]string{"web": {"unknown", "web"}, "gaia": {"guest", "web"}, "lim": {"unknown", "web"}})
	delete(w.facts.Agents, "guest")
	delete(w.facts.Projects["bobs"], "guest")
	w.publish()
	by("guest is gone", map[string][2]string{"web": {"unknown", "web"}, "gaia": {"guest", "web"}})
}
