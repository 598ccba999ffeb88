package view_test

import (
	"errors"
	"fmt"
	"path"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// TestOwnDenyList: it holds for its agent in every way to a file's content, and
// for nobody else; no other name of the agent's making leads around it.
func TestOwnDenyList(t *testing.T) {
	w := newWorld(t)
	const work = "/agents/web/workspace/"
	w.write(work+"a.pem", "secret")
	w.write(work+"b.txt", "text")
	w.mkdir(work + "d")
	w.settings(policy.Settings{Rules: []policy.NameRule{{Name: "*.pem", Agent: "web"}, {Name: "*.key", Agent: "web", Under: work + "d"}}})
	web, dir, pem, txt := w.openAs("web"), w.node(work), w.node(work+"a.pem"), w.node(work+"b.txt")
	read := func(v *view.View, path string) error { _, _, err := v.ReadFile(path, -1); return err }

	w.kind(read(web, work+"a.pem"), backend.Denied, "read it")
	w.ok(read(w.gaia, work+"a.pem"), "another reads it")
	_, err := web.WriteFile(work+"c.PEM", []byte("x"), 0o644)
	w.kind(err, backend.Denied, "make one")
	_, err = web.Link(nil, pem, dir, "free.txt")
	w.kind(err, backend.Denied, "another name for it")
	_, err = web.Link(nil, txt, dir, "c.pem")
	w.kind(err, backend.Denied, "its name for another")
	w.kind(web.Rename(nil, dir, "a.pem", dir, "free.txt", 0), backend.Denied, "rename it")
	w.kind(web.Rename(nil, dir, "a.pem", dir, "b.txt", view.Exchange), backend.Denied, "exchange it")
	w.kind(web.Rename(nil, dir, "b.txt", dir, "c.pem", 0), backend.Denied, "rename to it")

	// Under a path: with the directory that moves there.
	w.mkdir(work + "e")
	w.write(work+"e/x.key", "k")
	w.ok(read(web, work+"e/x.key"), "outside of the path")
	w.ok(web.Rename(nil, dir, "e", w.node(work+"d"), "e", 0), "move the directory in")
	w.kind(read(web, work+"d/e/x.key"), backend.Denied, "inside of the path")

	// Another gives the file such a name: it is lost, and comes back.
	w.ok(w.gaia.Rename(nil, dir, "b.txt", dir, "b.pem", 0), "rename by another")
	w.kind(read(web, work+"b.pem"), backend.Denied, "renamed by another")
	w.ok(w.gaia.Rename(nil, dir, "b.pem", dir, "b.txt", 0), "rename back")
	w.ok(read(web, work+"b.txt"), "renamed back")

	for action, want := range map[policy.Action]bool{policy.See: true, policy.Read: false, policy.Create: false} {
		x, err := w.space.Explain("web", action, work+"a.pem")
		if err != nil || x.Allow != want || !want && x.Rules[0].ID != "deny-names/web" {
			t.Errorf("explain %v: %+v, %v", action, x, err)
		}
	}
	if a, err := web.Resolve(work + "a.pem"); err != nil || a.Size != 6 {
		t.Errorf("it is seen: %+v, %v", a, err)
	}
	w.ok(web.Unlink(nil, dir, "a.pem"), "remove it")
}

// TestDenyListUnderAPath holds for everybody there, and sticks to a file that
// lost the name.
func TestDenyListUnderAPath(t *testing.T) {
	w := newWorld(t)
	const work = "/agents/web/workspace/"
	w.mkdir(work + "in/side")
	w.write(work+"x.pem", "x")
	w.settings(policy.Settings{Rules: []policy.NameRule{{Name: "*.pem", Under: work + "in"}},
		Exceptions: []policy.NameException{{Name: "ca.pem", Under: work + "in/side"}}})
	for _, who := range []string{"web", "gaia"} {
		v := w.openAs(who)
		_, err := v.WriteFile(work+"in/"+who+".pem", []byte("x"), 0o644)
		w.kind(err, backend.Denied, who+" makes one there")
		_, err = v.WriteFile(work+who+".pem", []byte("x"), 0o644)
		w.ok(err, who+" makes one elsewhere")
		_, err = v.WriteFile(work+"in/side/ca.pem", []byte("x"), 0o644)
		w.ok(err, who+" makes the excepted one")
		w.kind(v.Rename(nil, w.node(work), "x.pem", w.node(work+"in"), "x.pem", 0), backend.Denied, who+" moves one there")
	}
}

// TestDirectoriesStayOnTheDenyList: files do not come off it with the directory that
// they are in, out of a rule's path, neither for an agent nor for the orchestrator;
// an exception holds for what comes to its place.
func TestDirectoriesStayOnTheDenyList(t *testing.T) {
	w := newWorld(t)
	const work = "/agents/web/workspace/"
	w.settings(policy.Settings{DenyNames: []string{}})
	w.write(work+"in/d/deep/x.pem", "secret")
	w.write(work+"out/e/.env", "secret")
	w.write(work+"out/plain/f", "f")
	w.mkdir(work + "ok")
	w.settings(policy.Settings{Rules: []policy.NameRule{{Name: "*.pem", Under: work + "in"}},
		Exceptions: []policy.NameException{{Name: ".env", Under: work + "ok"}, {Name: "x.*", Under: work + "ok"}}})
	for _, who := range []string{"web", "gaia"} {
		v := w.open(who)
		move := func(from, to string, f view.RenameFlags) error {
			return v.Rename(nil, w.node(path.Dir(work+from)), path.Base(from), w.node(path.Dir(work+to)), path.Base(to), f)
		}
		for _, c := range []struct {
			from, to string
			flags    view.RenameFlags
			of       string
		}{
			{"in/d", "out/d", 0, "in/d/deep/x.pem"}, {"in/d/deep", "deep", 0, "in/d/deep/x.pem"}, {"in", "in2", 0, "in/d/deep/x.pem"},
			{"in/d", "out/plain", view.Exchange, "in/d/deep/x.pem"}, {"out/plain", "in/d", view.Exchange, "in/d/deep/x.pem"},
		} {
			err := move(c.from, c.to, c.flags)
			var e *backend.Error
			if !errors.Is(err, backend.Denied) || !errors.As(err, &e) || e.Path != work+c.of {
				t.Errorf("%s moves %s to %s: %v", who, c.from, c.to, err)
			}
		}
		for _, c := range [][2]string{{"in/d", "in/d2"}, {"in/d2", "in/d"}, {"in", "ok/in"}, {"ok/in", "in"}, {"out/e", "ok/e"}, {"ok/e", "out/e"}, {"out/plain", "in/plain"}, {"in/plain", "out/plain"},
			{"out", "out2"}, {"out2", "out"}, {"ok", "ok2"}, {"ok2", "ok"}} {
			w.ok(move(c[0], c[1], 0), who+" moves "+c[0]+" to "+c[1])
		}
	}
	if testing.Short() {
		return
	}
	for i := range 10_001 {
		w.write(fmt.Sprintf("%sin/many/%d", work, i), "")
	}
	dir, many := w.node(work+"in"), w.node(work)
	w.kind(w.gaia.Rename(nil, dir, "many", many, "many", 0), backend.CrossVolume, "more than are looked at")
	w.ok(w.gaia.Unlink(nil, w.node(work+"in/many"), "7"), "remove one")
	w.ok(w.gaia.Rename(nil, dir, "many", many, "many", 0), "as many as are looked at")
}

// TestOwnDenyListWithoutNames: a denied name is not taken from a file that has
// others by whom it is denied to; a file without a name is judged by its last.
func TestOwnDenyListWithoutNames(t *testing.T) {
	w := newWorld(t)
	const work = "/agents/web/workspace/"
	w.settings(policy.Settings{Rules: []policy.NameRule{{Name: "*.key", Agent: "web"}}})
	web, dir := w.open("web"), w.node(work)
	node := w.write(work+"f", "x")
	w.hub.hold(node, true)
	for _, name := range []string{"a.key", "b.key"} {
		_, err := w.gaia.Link(nil, node, dir, name)
		w.ok(err, "link")
	}
	w.ok(web.Unlink(nil, dir, "a.key"), "another denied one stays")
	w.kind(web.Unlink(nil, dir, "b.key"), backend.Denied, "none stays")
	if x, err := web.Ask("remove", work+"b.key"); err != nil || x.Allow {
		t.Errorf("asked: %+v, %v", x, err)
	}
	w.ok(web.Unlink(nil, dir, "f"), "the one that is not denied")
	if x, err := web.Ask("remove", work+"b.key"); err != nil || !x.Allow {
		t.Errorf("asked about the last: %+v, %v", x, err)
	}
	w.ok(web.Unlink(nil, dir, "b.key"), "the last")
	read := func(v *view.View) error { _, err := v.Read(nil, node, make([]byte, 1), 0); return err }
	w.kind(read(web), backend.Denied, "read without a name")
	w.ok(read(w.gaia), "another reads it")
	_, err := web.Link(nil, node, dir, "free")
	w.kind(err, backend.Denied, "give it a name")
	w.space.Dropped(node)

	// A symlink may have such a name, but not in the place of such a file.
	node = w.write(work+"f", "x")
	_, err = w.gaia.Link(nil, node, dir, "a.key")
	w.ok(err, "link")
	_, err = web.Symlink(nil, dir, "l", "f")
	w.ok(err, "symlink")
	w.kind(web.Rename(nil, dir, "l", dir, "a.key", 0), backend.Denied, "a symlink in its place")
	w.ok(web.Rename(nil, dir, "l", dir, "b.key", 0), "a symlink of such a name")
	w.ok(web.Unlink(nil, dir, "f"), "the name that is not denied")
	w.ok(web.Rename(nil, dir, "b.key", dir, "a.key", 0), "a symlink in the place of the last")
}
