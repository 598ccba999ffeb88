package view_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// TestMkdirMakesAProject: an orchestrator's, in /projects, and nothing else does.
func TestMkdirMakesAProject(t *testing.T) {
	w := newWorld(t)
	projects := w.node("/projects")
	_, err := w.gaia.Mkdir(nil, projects, "new", 0o755)
	w.kind(err, backend.Denied, "with nobody to make it")
	w.space.SetProjects(func(_ context.Context, slug string) error {
		if !policy.ValidKey(slug) {
			return backend.Invalid
		}
		if w.facts.Projects[slug] != nil {
			return backend.Exist
		}
		w.facts.Projects[slug] = map[string]string{}
		w.volume(view.KindProject, slug)
		w.publish()
		return nil
	})
	k := &kernel{w: w}
	gaia := w.openWith(view.Options{Agent: "gaia", Observer: k})
	a, err := gaia.Mkdir(nil, projects, "new", 0o755)
	if err != nil || !a.IsDir() || a.Node.Ino() != backend.RootIno {
		t.Errorf("mkdir: %+v, %v", a, err)
	}
	_, err = gaia.WriteFile("/projects/new/f", []byte("x"), 0o644)
	w.ok(err, "write in it")
	_, err = gaia.Mkdir(nil, projects, "new", 0o755)
	w.kind(err, backend.Exist, "again")
	_, err = gaia.Mkdir(nil, projects, "No Slug", 0o755)
	w.kind(err, backend.Invalid, "no slug")
	w.kind(gaia.Rmdir(nil, projects, "new"), backend.Denied, "rmdir")
	w.kind(gaia.Rename(nil, projects, "new", projects, "newer", 0), backend.Denied, "rename")
	_, err = gaia.Mknod(nil, projects, "f", backend.TypeRegular, 0o644, 0)
	w.kind(err, backend.Denied, "mknod")
	_, _, err = gaia.Create(nil, projects, "f", 0o644, true, view.OpenFlags{Write: true})
	w.kind(err, backend.Denied, "create")
	_, err = gaia.Symlink(nil, projects, "s", "new")
	w.kind(err, backend.Denied, "symlink")
	_, err = gaia.Tmpfile(nil, projects, 0o644)
	w.kind(err, backend.Denied, "tmpfile")
	_, err = gaia.Mkdir(nil, w.node("/users"), "eve", 0o755)
	w.kind(err, backend.Denied, "mkdir in /users")
	for who, want := range map[string]backend.Kind{"web": backend.Denied, "lim": backend.Denied, "boss": backend.NotFound} {
		_, err := w.open(who).Mkdir(nil, projects, "other", 0o755)
		w.kind(err, want, "mkdir by "+who)
		_, err = w.open(who).Mkdir(nil, projects, "bobs", 0o755) // hidden from web, lim and boss
		w.kind(err, want, "mkdir of what is hidden by "+who)
	}
	if list, err := w.open("web").List(nil, projects); err != nil || slices.Contains(names(list), "new") {
		t.Errorf("who is no member sees it: %v, %v", names(list), err)
	}
}
