package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// armory is a shared project with views of several agents and a file in it that
// web made and armed.
type armory struct {
	*world
	web, guest, gaia *view.View
	dir              backend.NodeID
}

func newArmory(t *testing.T) *armory {
	w := newWorld(t)
	w.facts.Projects["site"]["guest"] = "write"
	w.publish()
	return &armory{w, w.openWith(view.Options{Agent: "web", UID: 1000, GID: 1000}),
		w.openWith(view.Options{Agent: "guest", UID: 1001, GID: 1001}),
		w.openWith(view.Options{Agent: "gaia", UID: 50, GID: 50}), w.node("/projects/site")}
}

// arm makes a file as web, with set-id bits and capabilities.
func (w *armory) arm(name string) backend.NodeID {
	w.t.Helper()
	a, _, err := w.web.Create(nil, w.dir, name, 0o755, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = w.web.Write(nil, a.Node, []byte("text"), 0)
	w.ok(err, "write")
	w.chmod(w.web, a.Node, 0o6755, 0o6755)
	w.ok(w.web.SetXattr(nil, a.Node, "security.capability", []byte("caps"), false, false), "set capabilities")
	w.ok(w.web.SetXattr(nil, a.Node, "user.x", []byte("x"), false, false), "set an attribute")
	w.shows(w.web, a.Node, 0o6755, true)
	return a.Node
}

func (w *armory) chmod(v *view.View, n backend.NodeID, mode, want uint32) {
	w.t.Helper()
	if a, err := v.Setattr(nil, n, backend.SetAttr{Mode: &mode}); err != nil || a.Mode != want {
		w.t.Errorf("%s: chmod %o is answered %o, want %o (%v)", v.Agent(), mode, a.Mode, want, err)
	}
}

func (w *armory) shows(v *view.View, n backend.NodeID, mode uint32, caps bool) {
	w.t.Helper()
	a, err := v.Getattr(nil, n)
	if err != nil || a.Mode != mode || a.UID != v.UID() {
		w.t.Errorf("%s sees %o of %d, want %o (%v)", v.Agent(), a.Mode, a.UID, mode, err)
	}
	_, err = v.GetXattr(nil, n, "security.capability")
	if caps {
		w.ok(err, "capabilities in "+v.Agent()+"'s view")
	} else {
		w.kind(err, backend.NoData, "capabilities in "+v.Agent()+"'s view")
	}
	names, err := v.ListXattr(nil, n)
	if err != nil || slices.Contains(names, "security.capability") != caps || !slices.Contains(names, "user.x") {
		w.t.Errorf("%s lists %v, %v", v.Agent(), names, err)
	}
}

// TestSetIDIsTheMakers: what would give rights of the mount's user is shown to
// the agent that made the file and to no other, by whatever answer.
func TestSetIDIsTheMakers(t *testing.T) {
	w := newArmory(t)
	f := w.arm("f")
	for _, v := range []*view.View{w.guest, w.gaia} {
		w.shows(v, f, 0o755, false)
		if a, err := v.Lookup(nil, w.dir, "f"); err != nil || a.Mode != 0o755 {
			t.Errorf("%s looks up %o, %v", v.Agent(), a.Mode, err)
		}
		if a, err := v.Open(nil, f, view.OpenFlags{Read: true, Write: true}); err != nil || a.Mode != 0o755 {
			t.Errorf("%s opens %o, %v", v.Agent(), a.Mode, err)
		}
	}
	w.shows(w.web, f, 0o6755, true)
	_, err := w.gaia.Link(nil, f, w.dir, "g")
	w.ok(err, "link")
	w.ok(w.gaia.Rename(nil, w.dir, "f", w.dir, "h", 0), "rename")
	w.shows(w.web, f, 0o6755, true)
	// A number that is not the owner's is no way around it.
	root, _, err := w.web.Create(&view.Request{}, w.dir, "root", 0o4755, true, view.OpenFlags{Write: true})
	w.ok(err, "create as root")
	if a, err := w.gaia.Getattr(nil, root.Node); err != nil || a.Mode != 0o755 || a.UID != 0 {
		t.Errorf("gaia sees %o of %d, %v", a.Mode, a.UID, err)
	}
	// Of a directory they mean something else.
	d, err := w.web.Mkdir(nil, w.dir, "d", 0o2775)
	w.ok(err, "mkdir")
	if a, err := w.gaia.Getattr(nil, d.Node); err != nil || a.Mode != 0o2775 {
		t.Errorf("gaia sees a directory as %o, %v", a.Mode, err)
	}
}

// TestSetIDOfOthersIsNotSet: nobody else can arm the file.
func TestSetIDOfOthersIsNotSet(t *testing.T) {
	w := newArmory(t)
	a, _, err := w.web.Create(nil, w.dir, "f", 0o755, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	for _, v := range []*view.View{w.guest, w.gaia} {
		w.chmod(v, a.Node, 0o6711, 0o711)
		w.kind(v.SetXattr(nil, a.Node, "security.capability", []byte("caps"), false, false), backend.NotPermitted, "set capabilities")
		w.ok(v.SetXattr(nil, a.Node, "user.x", nil, false, false), "set an attribute")
		w.shows(w.web, a.Node, 0o711, false)
	}
}

// TestModeOfOthersIsExact: a mode set by another agent is what the file has
// then, in every view; what does not set one leaves the bits.
func TestModeOfOthersIsExact(t *testing.T) {
	w := newArmory(t)
	f := w.arm("f")
	now := backend.Time(7)
	_, err := w.gaia.Setattr(nil, f, backend.SetAttr{Mtime: &now})
	w.ok(err, "set times")
	w.shows(w.web, f, 0o6755, true)
	w.chmod(w.gaia, f, 0o775, 0o775) // chmod g+w of the 0755 that is shown
	w.shows(w.gaia, f, 0o775, false)
	w.shows(w.web, f, 0o775, true)
	w.chmod(w.web, f, 0o4775, 0o4775)
	w.shows(w.web, f, 0o4775, true)
}

// TestContentOfOthersDisarms: what another agent wrote has no rights of the
// maker's.
func TestContentOfOthersDisarms(t *testing.T) {
	w := newArmory(t)
	zero := uint64(0)
	src := w.write("/projects/site/src", "source")
	for name, do := range map[string]func(backend.NodeID) error{
		"write":  func(f backend.NodeID) error { return second(w.guest.Write(nil, f, []byte("evil"), 0)) },
		"append": func(f backend.NodeID) error { return second(w.guest.Append(nil, f, []byte("evil"))) },
		"open": func(f backend.NodeID) error {
			return second(w.guest.Open(nil, f, view.OpenFlags{Write: true, Truncate: true}))
		},
		"truncate":  func(f backend.NodeID) error { return second(w.guest.Setattr(nil, f, backend.SetAttr{Size: &zero})) },
		"fallocate": func(f backend.NodeID) error { return w.guest.Fallocate(nil, f, 0, 2, 3) },
		"copy":      func(f backend.NodeID) error { return second(w.guest.CopyRange(nil, src, 0, f, 0, 6)) },
		"put": func(f backend.NodeID) error {
			return second(w.guest.WriteFile("/projects/site/put", []byte("evil"), 0))
		},
	} {
		f := w.arm(name)
		w.ok(do(f), name)
		if a, err := w.web.Lookup(nil, w.dir, name); err != nil || a.Mode != 0o755 {
			t.Errorf("%s by another leaves %o, %v", name, a.Mode, err)
		} else if name != "put" {
			w.shows(w.web, f, 0o755, false)
		}
		// The maker's own changes take nothing but what Linux takes: capabilities.
		f = w.arm(name + "2")
		_, err := w.web.Write(nil, f, []byte("mine"), 0)
		w.ok(err, "write")
		w.shows(w.web, f, 0o6755, false)
	}
}

// TestCapabilitiesGoWithAnyChange: the maker's own write, append, truncation and
// chown take a file's capabilities away, and so does another agent's chown.
func TestCapabilitiesGoWithAnyChange(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	a, _, err := web.Create(nil, w.node("/agents/web/workspace"), "cap", 0o755, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	uid, size := uint32(4711), uint64(1)
	for what, change := range map[string]func() error{
		"write":    func() error { return second(web.Write(nil, a.Node, []byte("x"), 0)) },
		"truncate": func() error { return second(web.Setattr(nil, a.Node, backend.SetAttr{Size: &size})) },
		"chown":    func() error { return second(web.Setattr(nil, a.Node, backend.SetAttr{UID: &uid})) },
		"gaia's chown": func() error {
			return second(w.gaia.Setattr(nil, a.Node, backend.SetAttr{UID: &uid}))
		},
	} {
		w.ok(web.SetXattr(nil, a.Node, "security.capability", []byte("caps"), false, false), "set capabilities")
		w.ok(change(), what)
		_, err := web.GetXattr(nil, a.Node, "security.capability")
		w.kind(err, backend.NoData, "capabilities after "+what)
	}
	w.ok(web.SetXattr(nil, a.Node, "security.capability", []byte("caps"), false, false), "set capabilities")
	mode := uint32(0o700)
	w.ok(second(web.Setattr(nil, a.Node, backend.SetAttr{Mode: &mode})), "chmod")
	_, err = web.GetXattr(nil, a.Node, "security.capability")
	w.ok(err, "capabilities after chmod")
}

// TestReusedKeyIsAnotherAgent: an agent that has the key of a removed one gets
// nothing of the bits and the authorship of its files.
func TestReusedKeyIsAnotherAgent(t *testing.T) {
	w := newArmory(t)
	f := w.arm("f")
	next := w.facts.Agents["web"]
	next.Since = time.Now()
	w.facts.Agents["web"] = next
	w.publish()

	for _, what := range []string{"created_by", "modified_by"} {
		if b, err := w.guest.GetXattr(nil, f, "user.warren."+what); err != nil || string(b) != "unknown" {
			t.Errorf("guest is told %s %q, %v", what, b, err)
		}
	}
	w.shows(w.web, f, 0o755, false)
	w.chmod(w.web, f, 0o4755, 0o755)
	w.kind(w.web.SetXattr(nil, f, "security.capability", []byte("caps"), false, false), backend.NotPermitted, "set capabilities")
	if b, err := w.gaia.GetXattr(nil, f, "user.warren.created_by"); err != nil || string(b) != "web" {
		t.Errorf("gaia, who sees all agents, is told %q, %v", b, err)
	}
	// What the new one makes is its own.
	g := w.arm("g")
	if b, err := w.guest.GetXattr(nil, g, "user.warren.created_by"); err != nil || string(b) != "web" {
		t.Errorf("guest is told %q, %v", b, err)
	}
}
