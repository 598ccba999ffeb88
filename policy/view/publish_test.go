package view_test

import (
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// audience is some mounts' views that are open while the facts change.
type audience struct {
	*world
	kernels map[string]*kernel
	views   map[string]*view.View
}

func newAudience(t testing.TB, agents ...string) *audience {
	t.Helper()
	a := &audience{newWorld(t), map[string]*kernel{}, map[string]*view.View{}}
	for _, who := range agents {
		a.kernels[who] = &kernel{w: a.world}
		a.views[who] = a.openWith(view.Options{Agent: who, Observer: a.kernels[who]})
	}
	return a
}

// edge is the name at a tree path.
func (w *world) edge(path string) view.Edge {
	w.t.Helper()
	dir, name, err := w.gaia.ResolveParent(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return view.Edge{Parent: dir.Node, Name: name, Node: w.node(path)}
}

// told compares what each mount was told since the last time with want; those
// not in want must have been told nothing.
func (a *audience) told(step string, want map[string]view.Revocation) {
	a.t.Helper()
	for who, k := range a.kernels {
		got := k.takeRevoked()
		r, some := want[who]
		switch {
		case len(got) > 1 || some != (len(got) == 1):
			a.t.Errorf("%s: %s is told %d times, want %v", step, who, len(got), some)
		case some && (!sameSet(got[0].Gone, r.Gone) || !sameSet(got[0].Came, r.Came) || !sameSet(got[0].Changed, r.Changed)):
			a.t.Errorf("%s: %s is told %+v, want %+v", step, who, got[0], r)
		}
	}
}

func sameSet[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

// TestPublishTellsMembers: what a view wins and loses of projects is told to its
// mount, and to no other.
func TestPublishTellsMembers(t *testing.T) {
	w := newAudience(t, "web", "guest", "gaia", "kid")
	site := w.node("/projects/site")
	f := w.write("/projects/site/f", "f")
	projects, toSite, toBobs := w.edge("/projects"), w.edge("/projects/site"), w.edge("/projects/bobs")
	w.publish()
	w.told("nothing new", nil)
	delete(w.facts.Projects["site"], "web")
	w.publish()
	w.told("web leaves its one project", map[string]view.Revocation{"web": {Gone: []view.Edge{projects}}})
	_, err := w.views["web"].Read(nil, f, make([]byte, 1), 0)
	w.kind(err, backend.NotFound, "read by who left")
	w.facts.Projects["site"]["web"] = "read"
	w.publish()
	w.told("web comes back", map[string]view.Revocation{"web": {Came: []view.Edge{projects, toSite}}})
	w.facts.Projects["site"]["web"] = "write"
	w.publish()
	w.told("web may write", map[string]view.Revocation{"web": {Changed: []backend.VolumeID{site.Volume()}}})
	w.facts.Projects["bobs"]["web"] = "write"
	w.publish()
	w.told("one project more", map[string]view.Revocation{"web": {Came: []view.Edge{toBobs}}})
	delete(w.facts.Projects["site"], "web")
	w.publish()
	w.told("one less", map[string]view.Revocation{"web": {Gone: []view.Edge{toSite}}})
}

// TestPublishTellsAccess: an agent that loses all access, and gets some back.
func TestPublishTellsAccess(t *testing.T) {
	w := newAudience(t, "web", "guest")
	f := w.write("/agents/web/workspace/f", "f")
	tops := []view.Edge{w.edge("/agents"), w.edge("/users"), w.edge("/projects")}
	web := w.facts.Agents["web"]
	web.Access = policy.NoAccess
	w.facts.Agents["web"] = web
	w.publish()
	r := w.kernels["web"].takeRevoked()
	if len(r) != 1 || !sameSet(r[0].Gone, tops) || len(r[0].Came)+len(r[0].Changed) != 0 {
		t.Fatalf("access none: %+v", r)
	}
	for _, n := range []backend.NodeID{f, w.node("/agents"), w.node("/users/ada"), 7} {
		if got := r[0].Standing(n); got != view.Hidden {
			t.Errorf("standing of %v is %v", n, got)
		}
	}
	if a, err := w.views["web"].Getattr(nil, w.node("/")); err != nil || a.Mode != 0o555 {
		t.Errorf("the root of a view of nothing: %+v, %v", a, err)
	}
	web.Access = policy.ReadOnly
	w.facts.Agents["web"] = web
	w.publish()
	w.told("access back", map[string]view.Revocation{"web": {Came: append(tops,
		w.edge("/agents/web"), w.edge("/agents/web/workspace"), w.edge("/agents/web/scratch"),
		w.edge("/agents/kid"), w.edge("/agents/kid/workspace"), w.edge("/agents/kid/scratch"),
		w.edge("/users/ada"), w.edge("/projects/site"))}})
}

// TestPublishTellsNames: a change of the deny-list changes modes everywhere and
// makes files unreadable.
func TestPublishTellsNames(t *testing.T) {
	w := newAudience(t, "web", "guest", "gaia")
	f := w.write("/agents/web/workspace/f", "f")
	g := w.write("/agents/web/workspace/g", "g")
	w.settings(policy.Settings{DenyNames: []string{"f"}})
	for who, want := range map[string][2]view.Standing{"web": {view.Unreadable, view.Visible}, "gaia": {view.Unreadable, view.Visible}, "guest": {}} {
		r := w.kernels[who].takeRevoked()
		if len(r) != 1 || len(r[0].Changed) < 2 || len(r[0].Gone)+len(r[0].Came) != 0 {
			t.Errorf("%s is told %+v", who, r)
			continue
		}
		if got := [2]view.Standing{r[0].Standing(f), r[0].Standing(g)}; got != want {
			t.Errorf("%s stands %v to the files, want %v", who, got, want)
		}
	}
}

// TestExceptionsTellWhoSeesThem: an exception to the deny-list costs only the
// mounts that see a volume in which it holds; what another learned by it would be
// that something changed out of its sight.
func TestExceptionsTellWhoSeesThem(t *testing.T) {
	w := newAudience(t, "web", "guest", "conc")
	home, work, scratch := w.node("/agents/web").Volume(), w.node("/agents/web/workspace").Volume(), w.node("/agents/web/scratch").Volume()
	site := w.node("/projects/site").Volume()
	env := func(under ...string) (s policy.Settings) {
		for _, u := range under {
			s.Exceptions = append(s.Exceptions, policy.NameException{Name: ".env", Under: u})
		}
		return s
	}
	w.settings(env("/agents/web/workspace/app"))
	w.told("in web's workspace", map[string]view.Revocation{"web": {Changed: []backend.VolumeID{home, work}}})
	w.settings(env("/agents/web/workspace/app", "/projects/site/"))
	both := view.Revocation{Changed: []backend.VolumeID{site}}
	w.told("in a project of two", map[string]view.Revocation{"web": both, "guest": both})
	w.settings(env("/agents/web/workspace/app", "/agents/webb", "/projects/sites"))
	w.told("no more in the project", map[string]view.Revocation{"web": both, "guest": both})
	w.settings(env("/agents/web/workspace/app", "/agents/web"))
	w.told("in all of web's", map[string]view.Revocation{"web": {Changed: []backend.VolumeID{home, work, scratch}}})
	w.settings(env("/agents/web", "/agents/web/workspace/app"))
	w.told("in another order", nil)
	w.settings(env("/agents/web", "/agents/web/workspace/app", "/"))
	for who, k := range w.kernels {
		if r := k.takeRevoked(); len(r) != 1 || len(r[0].Changed) < 3 {
			t.Errorf("everywhere: %s is told %+v", who, r)
		}
	}
}

// TestVolumesTell: a volume that goes, and one that comes.
func TestVolumesTell(t *testing.T) {
	w := newAudience(t, "web", "guest", "gaia")
	users, ada := w.edge("/users"), w.edge("/users/ada")
	w.views["gaia"].Close()
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindUser, Owner: "ada"}), "remove /users/ada")
	w.told("a removed volume", map[string]view.Revocation{"web": {Gone: []view.Edge{users}}})
	ada.Node = backend.Node(w.volume(view.KindUser, "ada"), backend.RootIno)
	w.told("a new volume", map[string]view.Revocation{"web": {Came: []view.Edge{users, ada}}})
}

// TestVolumesTellWhoSeesThem: a volume that comes into the root volume, and
// goes, is told to the mounts whose views see it. Nobody else is told that
// there was anything.
func TestVolumesTellWhoSeesThem(t *testing.T) {
	w := newAudience(t, "web", "boss", "gaia", "conc")
	w.hub.reset()
	w.facts.Agents["extra"] = policy.Agent{Key: "extra", Role: policy.Soul, Parent: "boss"}
	w.facts.Users["eve"] = true
	w.publish()
	w.told("an agent without a home", nil)
	home := w.volume(view.KindHome, "extra")
	came := view.Revocation{Came: []view.Edge{w.edge("/agents/extra")}}
	w.told("a home", map[string]view.Revocation{"gaia": came, "boss": came})
	w.volume(view.KindUser, "eve")
	toEve := w.edge("/users/eve")
	w.told("a user", map[string]view.Revocation{"gaia": {Came: []view.Edge{toEve}}})
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindUser, Owner: "eve"}), "remove the user")
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindHome, Owner: "extra"}), "remove the home")
	gone := view.Revocation{Gone: came.Came}
	for who, want := range map[string][]view.Revocation{"gaia": {{Gone: []view.Edge{toEve}}, gone}, "boss": {gone}} {
		got := w.kernels[who].takeRevoked()
		if len(got) != len(want) {
			t.Errorf("%s is told %d times, want %d", who, len(got), len(want))
			continue
		}
		for i := range want {
			if !sameSet(got[i].Gone, want[i].Gone) || len(got[i].Came)+len(got[i].Changed) > 0 {
				t.Errorf("%s is told %+v, want %+v", who, got[i], want[i])
			}
		}
	}
	w.told("all gone", nil)
	_, sets := w.hub.events()
	for _, set := range sets {
		for _, c := range set {
			if c.Node.Volume() == w.tree.Root().Volume() || c.Child == backend.Node(home, backend.RootIno) {
				t.Errorf("every mount was asked about %+v", c)
			}
		}
	}
}

// TestLastVolumeOfADirectory: a directory above volumes that a view sees
// whatever is in it stays when the last of them goes.
func TestLastVolumeOfADirectory(t *testing.T) {
	w := newAudience(t, "gaia", "web")
	users, toAda, toBob := w.edge("/users"), w.edge("/users/ada"), w.edge("/users/bob")
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindUser, Owner: "bob"}), "remove /users/bob")
	w.told("one of two", map[string]view.Revocation{"gaia": {Gone: []view.Edge{toBob}}})
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindUser, Owner: "ada"}), "remove /users/ada")
	w.told("the last", map[string]view.Revocation{"gaia": {Gone: []view.Edge{toAda}}, "web": {Gone: []view.Edge{users}}})
}
