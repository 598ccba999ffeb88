package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

const granted = "/agents/web/workspace/p/site"

// grant publishes a grant for guest, who has no other right on web's tree.
func (w *world) grant(id, path, right string) {
	w.t.Helper()
	w.facts.Grants = append(slices.Clone(w.facts.Grants), policy.Grant{ID: id, Agent: "guest", Path: path, Right: right, Expires: time.Now().Add(time.Hour)})
	w.publish()
}

func (w *world) revoke(id string) {
	w.t.Helper()
	w.facts.Grants = slices.DeleteFunc(slices.Clone(w.facts.Grants), func(g policy.Grant) bool { return g.ID == id })
	w.publish()
}

func grantWorld(t testing.TB) *world {
	w := newWorld(t)
	w.write(granted+"/index.html", "index")
	w.write(granted+"/css/main.css", "css")
	w.write(granted+"x/secret", "beside it")
	w.write("/agents/web/workspace/p/notes", "beside it too")
	w.write("/agents/web/workspace/other/f", "elsewhere")
	return w
}

// TestGrantedSubtree: it appears under its real path with nothing beside it.
func TestGrantedSubtree(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "read")
	v := w.open("guest")
	for dir, want := range map[string][]string{
		"/": {"agents", "projects", "users"}, "/agents": {"guest", "web"}, "/agents/web": {"workspace"},
		"/agents/web/workspace": {"p"}, "/agents/web/workspace/p": {"site"},
		granted: {"css", "index.html"}, granted + "/css": {"main.css"},
	} {
		list, err := v.List(nil, w.node(dir))
		if got := names(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s holds %v (%v), want %v", dir, got, err, want)
		}
	}
	created := w.tree.Created()
	for _, dir := range []string{"/agents/web", "/agents/web/workspace", "/agents/web/workspace/p"} {
		a, err := v.Resolve(dir)
		if err != nil || a.Mode != 0o555 || a.Mtime != created || a.Atime != created || a.Ctime != created || a.Btime != created || a.Nlink != 1 {
			t.Errorf("%s is shown as %+v (%v)", dir, a, err)
		}
		if _, err := v.GetXattr(nil, a.Node, "user.warren.created_by"); err == nil {
			t.Errorf("%s tells who made it", dir)
		}
		_, err = v.Mkdir(nil, a.Node, "new", 0o755)
		w.kind(err, backend.Denied, "mkdir in "+dir)
		w.kind(v.Unlink(nil, a.Node, "notes"), backend.NotFound, "unlink of what is hidden in "+dir)
	}
	data, _, err := v.ReadFile(granted+"/index.html", -1)
	if string(data) != "index" || err != nil {
		t.Errorf("read: %q, %v", data, err)
	}
	for _, hidden := range []string{granted + "x", granted + "x/secret", "/agents/web/workspace/p/notes", "/agents/web/workspace/other",
		"/agents/web/workspace/other/f", "/agents/web/notes", "/agents/web/soul.md", "/agents/web/scratch", "/agents/webb", "/agents/we"} {
		_, err := v.Resolve(hidden)
		w.kind(err, backend.NotFound, "resolve "+hidden)
		_, err = v.Getattr(nil, w.node(hidden))
		w.kind(err, backend.NotFound, "getattr of the node of "+hidden)
		_, err = v.Read(nil, w.node(hidden), make([]byte, 9), 0)
		w.kind(err, backend.NotFound, "read of the node of "+hidden)
	}
	f := w.node(granted + "/index.html")
	_, err = v.Write(nil, f, []byte("x"), 0)
	w.kind(err, backend.Denied, "write under a read grant")
	if a, _ := v.Getattr(nil, f); a.Mode&0o222 != 0 {
		t.Errorf("a read-only file is shown with mode %o", a.Mode)
	}
	w.kind(v.Rename(nil, w.node(granted), "index.html", w.node("/agents/web/workspace/p"), "out", 0), backend.Denied, "rename out")
	_, err = v.Resolve("/agents/web/workspace/p/site/../notes")
	w.kind(err, backend.NotFound, "a way around")
	w.revoke("g1")
	for _, gone := range []string{granted, granted + "/index.html", "/agents/web", "/agents/web/workspace"} {
		_, err := v.Getattr(nil, w.node(gone))
		w.kind(err, backend.NotFound, "after the revocation: "+gone)
	}
}

// TestWriteGrant: what its owner may do there, nothing outside.
func TestWriteGrant(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "write")
	v := w.open("guest")
	_, err := v.WriteFile(granted+"/new", []byte("new"), 0o644)
	w.ok(err, "write a new file")
	_, err = v.WriteFile(granted+"/index.html", []byte("other"), 0o644)
	w.ok(err, "replace a file")
	w.ok(v.Rename(nil, w.node(granted), "new", w.node(granted+"/css"), "newer", 0), "rename inside")
	w.ok(v.Remove(granted+"/css", true), "remove")
	w.kind(v.Rmdir(nil, w.node("/agents/web/workspace/p"), "site"), backend.Denied, "removing what is granted itself")
	w.kind(v.Rename(nil, w.node(granted), "index.html", w.node(granted+"x"), "i", 0), backend.NotFound, "rename to what is hidden")
	_, err = v.WriteFile("/agents/web/workspace/p/beside", []byte("x"), 0o644)
	w.kind(err, backend.Denied, "a file beside it")
	w.grant("g2", "/agents/mate", "write")
	for path, want := range map[string]backend.Kind{
		"/agents/mate/soul.md": backend.Denied, "/agents/mate/x": backend.Denied, "/agents/mate/session.md": 0,
		"/agents/mate/notes/x": 0, "/agents/mate/workspace/x": 0, "/agents/mate/scratch/x": 0,
	} {
		_, err := v.WriteFile(path, []byte("x"), 0o644)
		if want == 0 {
			w.ok(err, "write "+path)
		} else {
			w.kind(err, want, "write "+path)
		}
	}
}

// TestGrantFollowsLinks: a file is covered while any of its names is inside, and
// its other names are nobody's business.
func TestGrantFollowsLinks(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "read")
	k := &kernel{w: w}
	v := w.openWith(view.Options{Agent: "guest", Observer: k})
	in, out := w.node(granted), w.node("/agents/web/workspace/other")
	f := w.node(granted + "/index.html")
	_, err := w.gaia.Link(nil, f, out, "too")
	w.ok(err, "link")
	_, err = w.gaia.Link(nil, f, in, "again")
	w.ok(err, "link")
	if a, err := v.Getattr(nil, f); err != nil || a.Nlink != 2 {
		t.Errorf("of two names inside and one outside it tells %d (%v)", a.Nlink, err)
	}
	w.ok(w.gaia.Unlink(nil, in, "index.html"), "unlink")
	if p, err := v.Path(f); err != nil || p != granted+"/again" {
		t.Errorf("its path is %q (%v)", p, err)
	}
	if got := k.takeRevoked(); got != nil {
		t.Errorf("told %+v while a name is inside", got)
	}
	_, err = v.Read(nil, f, make([]byte, 5), 0)
	w.ok(err, "read by the other name")
	w.ok(w.gaia.Unlink(nil, in, "again"), "unlink of the last visible name")
	if got := k.takeRevoked(); got != nil {
		t.Errorf("told %+v when the last visible name of a file went that nobody holds", got)
	}
	_, err = v.Read(nil, f, make([]byte, 5), 0)
	w.kind(err, backend.NotFound, "read after the last visible name went")
}

// TestHeldFileKeepsItsRights: a file that the mount holds when its last visible name
// is removed is one without a name to that view, with the rights of the place where
// it stood; a rename out of the view, a revocation and the end of the hold end it.
func TestHeldFileKeepsItsRights(t *testing.T) {
	for _, right := range []string{"read", "write"} {
		w := grantWorld(t)
		w.grant("g1", granted, right)
		k := &kernel{w: w}
		v := w.openWith(view.Options{Agent: "guest", Observer: k})
		twin := w.openWith(view.Options{Agent: "guest", Observer: k})
		in, out := w.node(granted), w.node("/agents/web/workspace/other")
		f := w.node(granted + "/index.html")
		_, err := w.gaia.Link(nil, f, out, "too")
		w.ok(err, "link")
		w.hub.hold(f, true)
		w.ok(w.gaia.Unlink(nil, in, "index.html"), "unlink")
		if got := k.takeRevoked(); got != nil {
			t.Errorf("told %+v", got)
		}
		if a, err := v.Getattr(nil, f); err != nil || a.Nlink != 0 {
			t.Errorf("it has %d links (%v), want 0", a.Nlink, err)
		}
		if p, err := v.Path(f); err == nil {
			t.Errorf("its path is %q", p)
		}
		_, err = v.Read(nil, f, make([]byte, 5), 0)
		w.ok(err, "read")
		_, err = v.Open(nil, f, view.OpenFlags{Read: true})
		w.ok(err, "open again")
		_, err = v.Write(nil, f, []byte("x"), 0)
		if want := backend.Denied; right == "read" {
			w.kind(err, want, "write")
		} else {
			w.ok(err, "write")
			_, err = v.Link(nil, f, in, "back")
			w.kind(err, backend.NotFound, "link")
		}
		_, err = v.Lookup(nil, in, "index.html")
		w.kind(err, backend.NotFound, "lookup of its name")
		w.hub.hold(f, false)
		_, err = v.Read(nil, f, make([]byte, 5), 0)
		w.kind(err, backend.NotFound, "read when the mount does not hold it any more")
		w.hub.hold(f, true)
		w.revoke("g1")
		_, err = v.Read(nil, f, make([]byte, 5), 0)
		w.kind(err, backend.NotFound, "read after the revocation")
		w.grant("g1", granted, right)
		_, err = twin.Read(nil, f, make([]byte, 5), 0)
		w.ok(err, "read when granted again")
		// It comes back by a name, and is moved out by it.
		w.ok(w.gaia.Rename(nil, out, "too", in, "too", 0), "rename in")
		w.ok(w.gaia.Rename(nil, in, "too", out, "too", 0), "rename out")
		if got := k.takeRevoked(); len(got) == 0 || got[len(got)-1].Standing(f) != view.Hidden {
			t.Errorf("told %+v when it was moved out", got)
		}
		_, err = v.Read(nil, f, make([]byte, 5), 0)
		w.kind(err, backend.NotFound, "read after it was moved out")
		// The last of all names goes while another mount holds it: nothing comes back.
		w.ok(w.gaia.Unlink(nil, out, "too"), "unlink outside")
		_, err = v.Read(nil, f, make([]byte, 5), 0)
		w.kind(err, backend.NotFound, "read when it has no name at all")
		w.hub.hold(f, false)
		w.space.Dropped(f)
	}
}

// TestNamelessUnderAGrant: an open file that is removed is read on by who saw it,
// and by nobody else.
func TestNamelessUnderAGrant(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "read")
	v := w.open("guest")
	in, beside := w.node(granted+"/index.html"), w.node(granted+"x/secret")
	w.hub.hold(in, true)
	w.hub.hold(beside, true)
	w.ok(w.gaia.Unlink(nil, w.node(granted), "index.html"), "unlink inside")
	w.ok(w.gaia.Unlink(nil, w.node(granted+"x"), "secret"), "unlink beside it")
	_, err := v.Read(nil, in, make([]byte, 5), 0)
	w.ok(err, "read what was inside")
	_, err = v.Read(nil, beside, make([]byte, 5), 0)
	w.kind(err, backend.NotFound, "read what was beside it")
	w.revoke("g1")
	_, err = v.Read(nil, in, make([]byte, 5), 0)
	w.kind(err, backend.NotFound, "read after the revocation")
	w.hub.hold(in, false)
	w.hub.hold(beside, false)
	w.space.Dropped(in)
	w.space.Dropped(beside)
}

// TestRenameAcrossAGrant: what leaves is gone at once, what comes in appears; the
// way there may move, too.
func TestRenameAcrossAGrant(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "read")
	k := &kernel{w: w}
	v := w.openWith(view.Options{Agent: "guest", Observer: k})
	f, css, p, ws := w.node(granted+"/index.html"), w.node(granted+"/css"), w.node("/agents/web/workspace/p"), w.node("/agents/web/workspace")
	site := w.node(granted)
	move := func(what string, dir backend.NodeID, name string, to backend.NodeID, toName string, gone bool) {
		t.Helper()
		edge := view.Edge{Parent: dir, Name: name}
		a, err := w.gaia.Lookup(nil, dir, name)
		w.ok(err, what)
		edge.Node = a.Node
		w.ok(w.gaia.Rename(nil, dir, name, to, toName, 0), what)
		got := k.takeRevoked()
		switch {
		case gone && (len(got) == 0 || !slices.Equal(got[0].Gone, []view.Edge{edge})):
			t.Errorf("%s: told %+v, want %+v gone", what, got, edge)
		case !gone && len(got) > 0 && len(got[0].Gone) > 0:
			t.Errorf("%s: told %+v", what, got)
		}
	}
	reads := func(want bool, what string) {
		t.Helper()
		_, err := v.Read(nil, f, make([]byte, 5), 0)
		if want {
			w.ok(err, what)
		} else {
			w.kind(err, backend.NotFound, what)
		}
	}
	move("inside", site, "index.html", css, "i", false)
	reads(true, "moved inside")
	move("a directory out", site, "css", p, "css", true)
	reads(false, "with its directory out")
	move("and in", p, "css", site, "css", false)
	reads(true, "and in again")
	move("a file out", css, "i", p, "i", true)
	reads(false, "the file out")
	move("the file in", p, "i", site, "i", false)
	reads(true, "the file in")
	move("a directory above it", ws, "p", ws, "q", true)
	reads(false, "with a directory above it elsewhere")
	if _, err := v.Resolve("/agents/web/workspace/q"); err == nil {
		t.Error("where it went is seen")
	}
	move("and back", ws, "q", ws, "p", false)
	reads(true, "back again")
	move("something beside it", ws, "other", p, "other", false)
	_, err := v.Lookup(nil, p, "other")
	w.kind(err, backend.NotFound, "what came beside it")
}

// TestGrantRevocations: what mounts are told when grants come and go.
func TestGrantRevocations(t *testing.T) {
	a := newAudience(t, "guest", "web", "boss")
	a.write(granted+"/index.html", "index")
	a.write("/agents/web/workspace/p/sub/f", "sub")
	home, ws, p, site := a.edge("/agents/web"), a.edge("/agents/web/workspace"), a.edge("/agents/web/workspace/p"), a.edge(granted)
	vol := a.node("/agents/web/workspace").Volume()
	a.grant("g1", granted, "read")
	a.told("a grant", map[string]view.Revocation{"guest": {Came: []view.Edge{home, ws, p, site}}})
	a.grant("g2", "/agents/web/workspace/p/sub", "read")
	sub := a.edge("/agents/web/workspace/p/sub")
	homeVol := a.node("/agents/web").Volume()
	a.told("another in the same volume", map[string]view.Revocation{"guest": {Came: []view.Edge{sub}, Changed: []backend.VolumeID{vol, homeVol}}})
	a.grant("g3", granted, "write")
	a.told("a wider one", map[string]view.Revocation{"guest": {Changed: []backend.VolumeID{vol, homeVol}}})
	a.revoke("g3")
	a.told("which goes again", map[string]view.Revocation{"guest": {Changed: []backend.VolumeID{vol, homeVol}}})
	a.revoke("g2")
	a.told("one is revoked", map[string]view.Revocation{"guest": {Gone: []view.Edge{sub}, Changed: []backend.VolumeID{vol, homeVol}}})
	a.grant("whole", "/agents/web/workspace", "read")
	got := a.kernels["guest"].takeRevoked()
	if len(got) != 1 || !got[0].Names {
		t.Errorf("told %+v when a whole volume is granted of which a part was", got)
	}
	a.revoke("g1")
	a.kernels["guest"].takeRevoked()
	a.revoke("whole")
	a.told("the last is revoked", map[string]view.Revocation{"guest": {Gone: []view.Edge{home}}})
}

// TestGrantAtARoot: a view that is rooted in what is granted loses it all.
func TestGrantAtARoot(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "read")
	v := w.openWith(view.Options{Agent: "guest", Root: granted})
	if list, err := v.List(nil, v.Root()); err != nil || !slices.Equal(names(list), []string{"css", "index.html"}) {
		t.Errorf("holds %v (%v)", names(list), err)
	}
	w.revoke("g1")
	a, err := v.Getattr(nil, v.Root())
	if list, _ := v.List(nil, v.Root()); err != nil || a.Mode != 0o555 || len(list) != 0 {
		t.Errorf("after the revocation the root is %+v (%v) and holds %v", a, err, names(list))
	}
	_, err = v.Lookup(nil, v.Root(), "index.html")
	w.kind(err, backend.NotFound, "lookup after the revocation")
}

// TestGranteeIsNamed: who wrote by a grant is known to the owner of the tree, who
// sees both; who made what is granted, to the grantee, who sees whose it is.
func TestGranteeIsNamed(t *testing.T) {
	w := grantWorld(t)
	web := w.open("web")
	_, err := web.WriteFile(granted+"/webs", []byte("x"), 0o644)
	w.ok(err, "web writes")
	w.grant("g1", granted, "write")
	v := w.open("guest")
	_, err = v.WriteFile(granted+"/guests", []byte("x"), 0o644)
	w.ok(err, "guest writes")
	for _, c := range []struct {
		v    *view.View
		path string
		want string
	}{{web, granted + "/guests", "guest"}, {v, granted + "/webs", "web"}} {
		got, err := c.v.GetXattr(nil, w.node(c.path), "user.warren.created_by")
		if string(got) != c.want || err != nil {
			t.Errorf("%s: made by %q (%v), want %q", c.path, got, err, c.want)
		}
	}
}
