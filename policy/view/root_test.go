package view_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

func names(list []view.Dirent) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}

// TestRootListings: what stands above the volumes, by role.
func TestRootListings(t *testing.T) {
	w := newWorld(t)
	agents := []string{"boss", "conc", "gaia", "guest", "kid", "lim", "limbob", "mate", "none", "ro", "we", "web", "webb"}
	for who, want := range map[string]map[string][]string{
		"gaia":     {"/": {"agents", "projects", "users", "workspaces"}, "/agents": agents, "/users": {"ada", "bob"}, "/projects": {"bobs", "site"}, "/workspaces": {"default"}},
		"lim":      {"/": {"agents", "projects", "users"}, "/agents": {"lim", "mate", "none", "ro", "web"}, "/users": {"ada"}, "/projects": {"site"}},
		"web":      {"/": {"agents", "projects", "users"}, "/agents": {"kid", "web"}, "/users": {"ada"}, "/projects": {"site"}},
		"boss":     {"/": {"agents"}, "/agents": {"boss", "kid", "web"}},
		"kid":      {"/": {"agents"}, "/agents": {"kid"}},
		"conc":     {"/": {"agents"}, "/agents": {"conc"}},
		"mate":     {"/": {"agents", "users"}, "/agents": {"mate"}, "/users": {"ada"}},
		"none":     {"/": nil},
		"web none": {"/": nil},
		"web ro":   {"/": {"agents", "projects", "users"}, "/agents": {"kid", "web"}},
	} {
		v := w.openAs(who)
		for dir, names_ := range want {
			list, err := v.List(nil, w.node(dir))
			w.ok(err, who+" lists "+dir)
			if got := names(list); !slices.Equal(got, names_) {
				t.Errorf("%s: %s holds %v, want %v", who, dir, got, names_)
			}
			for _, e := range list { // what is listed can be looked up, as the same node
				a, err := v.Lookup(nil, w.node(dir), e.Name)
				if err != nil || a.Node != e.Node || !a.IsDir() {
					t.Errorf("%s: lookup of %s in %s: %+v, %v", who, e.Name, dir, a, err)
				}
			}
		}
		for _, dir := range []string{"/agents", "/users", "/projects", "/workspaces"} {
			if _, listed := want[dir]; !listed && !slices.Contains(want["/"], dir[1:]) {
				_, err := v.Getattr(nil, w.node(dir))
				w.kind(err, backend.NotFound, who+": getattr "+dir)
				_, err = v.List(nil, w.node(dir))
				w.kind(err, backend.NotFound, who+": list "+dir)
				_, err = v.Lookup(nil, w.node("/"), dir[1:])
				w.kind(err, backend.NotFound, who+": lookup "+dir)
			}
		}
	}
}

// TestRootAttributes: nothing about the directories above the volumes tells of
// what is hidden in them.
func TestRootAttributes(t *testing.T) {
	w := newWorld(t)
	created := w.tree.Created()
	for _, who := range []string{"web", "conc", "lim", "none", "web none"} {
		v := w.openAs(who)
		before, err := v.Getattr(nil, v.Root())
		w.ok(err, "getattr /")
		want := backend.Attr{Node: w.tree.Root(), Type: backend.TypeDir, Mode: 0o555, UID: backend.OwnerID, GID: backend.OwnerID, Nlink: 1, Size: 4096,
			Atime: created, Mtime: created, Ctime: created, Btime: created}
		if before != want {
			t.Errorf("%s: / is %+v, want %+v", who, before, want)
		}
	}
	web := w.open("web")
	dir := w.node("/agents")
	before, err := web.Getattr(nil, dir)
	w.ok(err, "getattr /agents")
	st, err := web.Statfs(nil, dir)
	w.ok(err, "statfs /agents")
	w.facts.Agents["extra"] = policy.Agent{Key: "extra", Role: policy.Soul}
	w.publish()
	w.volume(view.KindHome, "extra")
	after, err := web.Getattr(nil, dir)
	w.ok(err, "getattr /agents")
	if before != after || after.Mode != 0o555 || after.Nlink != 1 || after.Mtime != created {
		t.Errorf("/agents changed from %+v to %+v", before, after)
	}
	if now, err := web.Statfs(nil, dir); err != nil || now.UsedInodes != st.UsedInodes || now.UsedBytes != st.UsedBytes {
		t.Errorf("statfs of /agents changed from %+v to %+v, %v", st, now, err)
	}
	g, err := w.gaia.Getattr(nil, dir)
	w.ok(err, "getattr /agents")
	if g.Mode != 0o555 || g.Mtime == created || g.Node != after.Node {
		t.Errorf("gaia's /agents is %+v", g)
	}
}

// TestRegistryOnly: nobody changes the directories above the volumes.
func TestRegistryOnly(t *testing.T) {
	w := newWorld(t)
	mode := uint32(0o777)
	for _, who := range []string{"gaia", "gaia ro", "web", "lim"} {
		v := w.openAs(who)
		want := backend.Denied
		if v.Access() == view.ReadOnly {
			want = backend.ReadOnly
		}
		for _, path := range []string{"/", "/agents", "/users", "/projects"} {
			dir := w.node(path)
			_, err := v.Mkdir(nil, dir, "new", 0o755)
			w.kind(err, want, who+": mkdir in "+path)
			_, _, err = v.Create(nil, dir, "new", 0o644, false, view.OpenFlags{Write: true})
			w.kind(err, want, who+": create in "+path)
			_, err = v.Symlink(nil, dir, "new", "x")
			w.kind(err, want, who+": symlink in "+path)
			_, err = v.Tmpfile(nil, dir, 0o644)
			w.kind(err, want, who+": tmpfile in "+path)
			_, err = v.Setattr(nil, dir, backend.SetAttr{Mode: &mode})
			w.kind(err, want, who+": chmod "+path)
			err = v.SetXattr(nil, dir, "user.x", nil, false, false)
			w.kind(err, want, who+": setxattr "+path)
		}
		w.kind(v.Rmdir(nil, w.node("/"), "agents"), want, who+": rmdir /agents")
		w.kind(v.Rmdir(nil, w.node("/agents"), "web"), want, who+": rmdir /agents/web")
		w.kind(v.Rename(nil, w.node("/agents"), "web", w.node("/agents"), "bew", 0), want, who+": rename /agents/web")
		w.kind(v.Rename(nil, w.node("/"), "agents", w.node("/"), "b", 0), want, who+": rename /agents")
		if err := v.Rename(nil, w.node("/agents"), "web", w.node("/agents/web/notes"), "x", 0); !errors.Is(err, backend.CrossVolume) {
			t.Errorf("%s: rename out of /agents: %v", who, err)
		}
	}
}

// TestHome: to the soul its home is 0555, with places in it that are free.
func TestHome(t *testing.T) {
	w := newWorld(t)
	web, home := w.open("web"), w.node("/agents/web")
	a, err := web.Getattr(nil, home)
	w.ok(err, "getattr home")
	if a.Mode != 0o555 {
		t.Errorf("home is %o to the soul", a.Mode)
	}
	if g, _ := w.gaia.Getattr(nil, home); g.Mode != 0o755 {
		t.Errorf("home is %o to gaia", g.Mode)
	}
	for path, want := range map[string]uint32{"soul.md": 0o444, "session.md": 0o644, "skills": 0o555, "notes": 0o755, "workspace": 0o755, "scratch": 0o755} {
		a, err := web.Resolve("/agents/web/" + path)
		if err != nil || a.Mode != want {
			t.Errorf("%s is %o to the soul, want %o (%v)", path, a.Mode, want, err)
		}
	}
	session, soul := w.node("/agents/web/session.md"), w.node("/agents/web/soul.md")
	_, err = web.Write(nil, session, []byte("hello"), 0)
	w.ok(err, "write session.md")
	_, err = web.WriteFile("/agents/web/session.md", []byte("hi"), 0)
	w.ok(err, "replace session.md")
	if text, a, err := w.gaia.ReadFile("/agents/web/session.md", -1); string(text) != "hi" || a.Node != session || err != nil {
		t.Errorf("session.md holds %q as %v, %v", text, a.Node, err)
	}
	if d := w.space.Denials("web"); len(d) != 0 {
		t.Errorf("writing session.md left denials: %v", d)
	}
	_, err = web.WriteFile("/agents/web/soul.md", []byte("hi"), 0)
	w.kind(err, backend.Denied, "replace soul.md")
	notes := w.node("/agents/web/notes")
	w.kind(web.Unlink(nil, home, "session.md"), backend.Denied, "unlink session.md")
	w.kind(web.Rename(nil, home, "session.md", notes, "s", 0), backend.Denied, "rename session.md")
	w.kind(web.Rename(nil, notes, "x", home, "session.md", 0), backend.Denied, "rename over session.md")
	w.kind(web.Rmdir(nil, home, "notes"), backend.Denied, "rmdir notes")
	w.kind(web.Rmdir(nil, home, "workspace"), backend.Denied, "rmdir workspace")
	w.kind(w.gaia.Rmdir(nil, home, "workspace"), backend.Busy, "gaia: rmdir workspace")
	w.kind(w.gaia.Rename(nil, home, "workspace", home, "w", 0), backend.Busy, "gaia: rename workspace")
	// A second name in the free part would make the fixed part writable.
	for _, n := range []backend.NodeID{soul, session} {
		_, err = web.Link(nil, n, notes, "alias")
		w.kind(err, backend.Denied, "link out of the fixed part")
	}
	_, err = w.gaia.Link(nil, soul, notes, "alias")
	w.ok(err, "gaia: link soul.md")
	_, err = web.Write(nil, soul, []byte("x"), 0)
	w.kind(err, backend.Denied, "write soul.md through the number")
	if a, err := web.Lookup(nil, notes, "alias"); err != nil || a.Mode&0o222 != 0 {
		t.Errorf("alias of soul.md is shown %o, %v", a.Mode, err)
	}
	_, err = web.Open(nil, w.node("/agents/web/notes/alias"), view.OpenFlags{Write: true})
	w.kind(err, backend.Denied, "write soul.md through an alias")
	w.ok(web.Unlink(nil, notes, "alias"), "unlink the alias")
	// Gaia may put into the fixed part what is then fixed, and take it back.
	w.write("/agents/web/notes/n", "n")
	n := w.node("/agents/web/notes/n")
	_, err = web.Write(nil, n, []byte("1"), 0)
	w.ok(err, "write a note")
	w.ok(w.gaia.Rename(nil, notes, "n", home, "n", 0), "gaia: move a note into the home")
	_, err = web.Write(nil, n, []byte("2"), 0)
	w.kind(err, backend.Denied, "write a note that became fixed")
	w.ok(w.gaia.Rename(nil, home, "n", w.node("/agents/web/memory"), "n", 0), "gaia: move it back")
	_, err = web.Write(nil, n, []byte("3"), 0)
	w.ok(err, "write it again")
	// The same for a directory: what is below goes with it.
	w.write("/agents/web/notes/d/e/f", "f")
	f := w.node("/agents/web/notes/d/e/f")
	_, err = web.Write(nil, f, []byte("1"), 0)
	w.ok(err, "write below a directory")
	w.ok(w.gaia.Rename(nil, notes, "d", w.node("/agents/web/skills"), "d", 0), "gaia: move the directory into skills")
	_, err = web.Write(nil, f, []byte("2"), 0)
	w.kind(err, backend.Denied, "write below a directory that became fixed")
}

// TestOrphansInHome: an open file that lost its last name stays what it was.
func TestOrphansInHome(t *testing.T) {
	w := newWorld(t)
	ro, web := w.open("ro"), w.open("web")
	dir := w.node("/agents/ro/caches")
	a, _, err := ro.Create(nil, dir, "tmp", 0o600, true, view.OpenFlags{Read: true, Write: true})
	w.ok(err, "create")
	w.hub.hold(a.Node, true)
	w.ok(ro.Unlink(nil, dir, "tmp"), "unlink")
	_, err = ro.Write(nil, a.Node, []byte("x"), 0)
	w.ok(err, "write to an unlinked file")
	tmp, err := ro.Tmpfile(nil, dir, 0o600)
	w.ok(err, "tmpfile")
	_, err = ro.Write(nil, tmp.Node, []byte("x"), 0)
	w.ok(err, "write to a nameless file")
	_, err = ro.Tmpfile(nil, w.node("/agents/ro/notes"), 0o600)
	w.kind(err, backend.Denied, "tmpfile in notes")
	_, err = ro.Link(nil, tmp.Node, w.node("/agents/ro/notes"), "x")
	w.kind(err, backend.Denied, "link into notes")
	_, err = ro.Link(nil, tmp.Node, dir, "named")
	w.ok(err, "link into caches")
	// soul.md that gaia replaced is still no file of the soul's.
	soul := w.node("/agents/web/soul.md")
	w.hub.hold(soul, true)
	w.write("/agents/web/soul.md", "new")
	_, err = web.Write(nil, soul, []byte("x"), 0)
	w.kind(err, backend.Denied, "write to the old soul.md")
	if _, err := web.Read(nil, soul, make([]byte, 4), 0); err != nil {
		t.Errorf("read of the old soul.md: %v", err)
	}
	_, err = w.open("guest").Read(nil, soul, make([]byte, 4), 0)
	w.kind(err, backend.NotFound, "another's orphan")
	for _, n := range []backend.NodeID{a.Node, soul} {
		w.hub.hold(n, false)
		w.space.Dropped(n)
	}
}

// TestStaleNumbers: numbers from before a rename, a removal, a removed volume.
func TestStaleNumbers(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	f := w.write("/agents/web/workspace/a/f", "text")
	w.ok(w.gaia.Rename(nil, w.node("/agents/web/workspace/a"), "f", w.node("/agents/web/workspace"), "g", 0), "rename")
	if path, err := web.Path(f); err != nil || path != "/agents/web/workspace/g" {
		t.Errorf("the renamed file is at %q, %v", path, err)
	}
	w.ok(w.gaia.Unlink(nil, w.node("/agents/web/workspace"), "g"), "unlink")
	for _, op := range operations {
		if err := op.do(web, scene{f, f, f, f}); err == nil && op.name != "statfs" && op.name != "fsync" {
			// The reclaimer may not have come by yet: a nameless file may
			// still answer, but nothing may be made in or of it.
			if a, err := web.Getattr(nil, f); err == nil && a.Nlink != 0 {
				t.Errorf("%s on a removed file: links %d", op.name, a.Nlink)
			}
		}
	}
	p := w.write("/projects/site/f", "text")
	_, err := web.Read(nil, p, make([]byte, 4), 0)
	w.ok(err, "read a project's file")
	if err := w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindProject, Owner: "site"}); err != nil {
		t.Fatal(err)
	}
	for _, op := range operations {
		if err := op.do(web, scene{p, p, p, p}); !reflect.DeepEqual(err, backend.NotFound) {
			t.Errorf("%s in a removed volume: %v", op.name, err)
		}
	}
	if list, _ := web.List(nil, w.node("/")); slices.Contains(names(list), "projects") {
		t.Error("/projects is still there, with nothing in it")
	}
}
