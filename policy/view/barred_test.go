package view_test

import (
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
