package view_test

import (
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

const (
	webID   = 0x70000001
	guestID = 0x70000002
	gaiaID  = 0x70000003
	no      = 65534
)

// shownWorld is a world whose agents have uids, with views that show them.
type shownWorld struct {
	*world
	web, guest, gaia *view.View
	site             backend.NodeID
}

func newShownWorld(t *testing.T) *shownWorld {
	w := newWorld(t)
	for key, id := range map[string]uint32{"web": webID, "guest": guestID, "gaia": gaiaID} {
		a := w.facts.Agents[key]
		a.UID = id
		w.facts.Agents[key] = a
	}
	w.facts.Projects["site"]["guest"] = "write"
	w.publish()
	open := func(key string, id uint32) *view.View {
		return w.openWith(view.Options{Agent: key, UID: id, GID: id, Owners: true})
	}
	return &shownWorld{w, open("web", 1000), open("guest", 1001), open("gaia", 50), w.node("/projects/site")}
}

// shows checks whose a node is in three views.
func (w *shownWorld) owners(what string, n backend.NodeID, web, guest, gaia uint32) {
	w.t.Helper()
	for _, c := range []struct {
		v    *view.View
		want uint32
	}{{w.web, web}, {w.guest, guest}, {w.gaia, gaia}} {
		a, err := c.v.Getattr(nil, n)
		if err != nil || a.UID != c.want || a.GID != c.want {
			w.t.Errorf("%s: %s sees %d:%d, want %d (%v)", what, c.v.Agent(), a.UID, a.GID, c.want, err)
		}
	}
}

func (w *shownWorld) file(v *view.View, name string) backend.NodeID {
	w.t.Helper()
	a, _, err := v.Create(nil, w.site, name, 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	return a.Node
}

func (w *shownWorld) dir(v *view.View, name string) backend.NodeID {
	w.t.Helper()
	a, err := v.Mkdir(nil, w.site, name, 0o755)
	w.ok(err, "mkdir")
	return a.Node
}

// TestOwnersInAProject: files are the agent's that made them, or nobody's where another has
// had a part in them.
func TestOwnersInAProject(t *testing.T) {
	w := newShownWorld(t)
	f := w.file(w.web, "f")
	w.owners("a file", f, 1000, webID, webID)
	d := w.dir(w.web, "d")
	w.owners("a directory", d, no, webID, webID)
	_, err := w.guest.Write(nil, f, []byte("x"), 0)
	w.ok(err, "write")
	w.owners("a file that another wrote to", f, no, webID, webID)
	_, err = w.gaia.Write(nil, w.file(w.web, "g"), []byte("x"), 0)
	w.ok(err, "write")
	w.owners("a file that the orchestrator wrote to", w.node("/projects/site/g"), 1000, webID, webID)

	w.facts.Projects["site"]["guest"] = "read"
	w.publish()
	w.owners("a directory where another only reads", d, 1000, webID, webID)
}

// TestTrust: members that trust each other see files as their own, others do not.
func TestTrust(t *testing.T) {
	w := newShownWorld(t)
	f, d := w.file(w.web, "f"), w.dir(w.web, "d")
	w.facts.Trust = map[string][]string{"site": {"guest"}}
	w.publish()
	w.owners("a file, trusted by one", f, 1000, 1001, webID)
	w.owners("a directory, trusted by one", d, no, 1001, webID)
	w.facts.Trust["site"] = []string{policy.Everyone}
	w.publish()
	w.owners("a directory, trusted by the members", d, 1000, 1001, webID)
	w.facts.Trust["site"] = []string{"gaia"}
	w.publish()
	w.owners("a directory, trusted by the orchestrator", d, no, webID, 50)
	delete(w.facts.Trust, "site")
	f = w.file(w.guest, "guests")
	delete(w.facts.Agents, "guest")
	delete(w.facts.Projects["site"], "guest")
	delete(w.facts.Projects["bobs"], "guest")
	w.publish()
	for _, v := range []*view.View{w.web, w.gaia} {
		if a, err := v.Getattr(nil, f); err != nil || a.UID != no {
			t.Errorf("%s sees a removed agent's file as %d's, want %d (%v)", v.Agent(), a.UID, no, err)
		}
	}
}

// TestGivenOwners: an owner that is set is shown as it was set, also where it is an agent's.
func TestGivenOwners(t *testing.T) {
	w := newShownWorld(t)
	give := func(v *view.View, n backend.NodeID, id uint32) {
		t.Helper()
		a, err := v.Setattr(nil, n, backend.SetAttr{UID: &id, GID: &id})
		if err != nil || a.UID != id || a.GID != id {
			t.Errorf("%s gives it to %d: it is %d:%d's (%v)", v.Agent(), id, a.UID, a.GID, err)
		}
	}
	f := w.file(w.web, "f")
	give(w.gaia, f, 1234)
	w.owners("a file of a stranger", f, 1234, 1234, 1234)
	give(w.gaia, f, webID)
	w.owners("a file that was given back", f, 1000, webID, webID)
	give(w.gaia, f, guestID)
	w.owners("a file that was given to another", f, guestID, 1001, guestID)
	give(w.gaia, f, 50)
	w.owners("a file that was taken", f, gaiaID, gaiaID, 50)
}
