package view_test

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestAsk: a view's answers are what then happens, of what is seen; of what is
// hidden they are those of what is not there.
func TestAsk(t *testing.T) {
	w := newWorld(t)
	const work = "/agents/web/workspace/"
	w.write(work+"f", "text")
	w.write("/agents/guest/workspace/hers", "text")
	web, gaia := w.openAs("web"), w.gaia
	ro := w.openWith(view.Options{Agent: "web", Access: view.ReadOnly})
	ask := func(v *view.View, action, path string) view.Answer {
		t.Helper()
		a, err := v.Ask(action, path)
		w.ok(err, action+" "+path)
		return a
	}
	for _, c := range []struct {
		v            *view.View
		action, path string
		allow        bool
		note         string
	}{
		{web, "read", work + "f", true, "permits"},
		{web, "write", "/agents/web/soul.md", false, "denies"},
		{web, "create", work + "new", true, "permits"},
		{web, "create", work + ".env", false, "denies"},
		{web, "create", work + "none/new", false, "not exist"},
		{web, "read", work + "new", false, "not exist"},
		{web, "read", work + "f/x", false, "not exist"},
		{web, "see", "/agents", true, "permits"},
		{web, "remove", "/agents/web", false, "denies"},
		{ro, "read", work + "f", true, "permits"},
		{ro, "write", work + "f", false, "denies"},
		{gaia, "write", "/agents/web/soul.md", true, "permits"},
	} {
		a := ask(c.v, c.action, c.path)
		if a.Allow != c.allow || !strings.Contains(a.Note, c.note) || len(a.Rules) > 0 != (c.v == gaia) {
			t.Errorf("%s %s: %+v", c.action, c.path, a)
		}
	}
	for _, action := range []string{"see", "read", "write", "create", "remove", "move", "link"} {
		for _, hidden := range []string{"/agents/guest", "/agents/guest/workspace/hers", "/agents/gaia/soul.md", "/agents/guest/workspace/new"} {
			none := strings.NewReplacer("guest", "nobody", "gaia", "nobody").Replace(hidden)
			got, want := ask(web, action, hidden), ask(web, action, none)
			got.Path, want.Path = "", ""
			if got.Allow || got.Note != want.Note {
				t.Errorf("%s %s: %+v, of what is not there %+v", action, hidden, got, want)
			}
		}
	}
	_, err := web.Ask("fly", work)
	w.kind(err, backend.Invalid, "no action")
	_, err = web.Ask("read", "f")
	w.kind(err, backend.Invalid, "no tree path")
}
