package view_test

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestHereFollowsNoLink: what works "here" goes through no symlink, wherever in the
// path it stands, also one that came between a look and the deed.
func TestHereFollowsNoLink(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace/"
	w.write(base+"real/f", "old")
	w.symlink(base+"via", "real")
	w.symlink(base+"real/l", "f")
	_, err := v.FindHere(base + "via/f")
	w.kind(err, backend.Loop, "find below a link")
	if f, err := v.FindHere(base + "real/l"); err != nil || f.Attr.Type != backend.TypeSymlink {
		t.Errorf("find a link: %+v, %v", f, err)
	}
	_, err = v.MakeHere(base+"via/new", strings.NewReader("x"), 0)
	w.kind(err, backend.Loop, "make below a link")
	_, err = v.MakeHere(base+"real/l", strings.NewReader("x"), 0)
	w.kind(err, backend.Exist, "make over a link")
	_, err = v.AmendFile(base+"via/f", view.AtEnd, []byte("x"), view.Cond{})
	w.kind(err, backend.Loop, "amend below a link")
	_, err = v.AmendFile(base+"real/l", view.AtEnd, []byte("x"), view.Cond{})
	w.kind(err, backend.Invalid, "amend a link")
	w.kind(v.MkdirHere(base+"via/d", 0o755), backend.Loop, "mkdir below a link")
	w.kind(v.MkdirHere(base+"via", 0o755), backend.NotDir, "mkdir where a link is")
	w.kind(v.MkdirHere(base+"no/d", 0o755), backend.NotFound, "mkdir below nothing")
	for range 2 {
		w.ok(v.MkdirHere(base+"real/d", 0o755), "mkdir")
	}
	if _, err := v.MakeHere(base+"real/d/g", strings.NewReader("x"), 0); err != nil {
		t.Error(err)
	}
	if text, _, err := v.ReadFile(base+"real/f", -1); err != nil || string(text) != "old" {
		t.Errorf("the file has %q, %v", text, err)
	}
	list, err := v.List(nil, w.node(base+"real"))
	if err != nil || len(list) != 3 {
		t.Errorf("there is %v, %v", list, err)
	}
}
