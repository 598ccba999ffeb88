package view_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// scene is what one operation of the table works on: directory dir with file
// "f", empty directory "d" and symlink "l".
type scene struct {
	dir, file, sub, link backend.NodeID
}

// operation is a method of View, and which of the rights it needs: s(ee),
// r(ead), w(rite), c(reate a name), d(elete a name), m(ove), l(ink).
type operation struct {
	name, needs string
	do          func(v *view.View, s scene) error
}

func second[T any](_ T, err error) error { return err }

// operations are all methods that reach the tree.
var operations = []operation{
	{"lookup", "s", func(v *view.View, s scene) error { return second(v.Lookup(nil, s.dir, "f")) }},
	{"getattr dir", "s", func(v *view.View, s scene) error { return second(v.Getattr(nil, s.dir)) }},
	{"getattr file", "s", func(v *view.View, s scene) error { return second(v.Getattr(nil, s.file)) }},
	{"chmod", "w", func(v *view.View, s scene) error {
		m := uint32(0o640)
		return second(v.Setattr(nil, s.file, backend.SetAttr{Mode: &m}))
	}},
	{"truncate", "w", func(v *view.View, s scene) error {
		n := uint64(1)
		return second(v.Setattr(nil, s.file, backend.SetAttr{Size: &n}))
	}},
	{"utimes dir", "w", func(v *view.View, s scene) error {
		n := backend.Time(1)
		return second(v.Setattr(nil, s.sub, backend.SetAttr{Mtime: &n}))
	}},
	{"readlink", "r", func(v *view.View, s scene) error { return second(v.Readlink(nil, s.link)) }},
	{"mkdir", "c", func(v *view.View, s scene) error { return second(v.Mkdir(nil, s.dir, "new", 0o755)) }},
	{"mknod", "c", func(v *view.View, s scene) error {
		return second(v.Mknod(nil, s.dir, "new", backend.TypeFIFO, 0o644, 0))
	}},
	{"create", "c", func(v *view.View, s scene) error {
		_, _, err := v.Create(nil, s.dir, "new", 0o644, true, view.OpenFlags{Write: true})
		return err
	}},
	{"create existing to read", "r", func(v *view.View, s scene) error {
		_, _, err := v.Create(nil, s.dir, "f", 0o644, false, view.OpenFlags{Read: true})
		return err
	}},
	{"create existing to write", "w", func(v *view.View, s scene) error {
		_, _, err := v.Create(nil, s.dir, "f", 0o644, false, view.OpenFlags{Write: true, Truncate: true})
		return err
	}},
	{"tmpfile", "c", func(v *view.View, s scene) error { return second(v.Tmpfile(nil, s.dir, 0o644)) }},
	{"symlink", "c", func(v *view.View, s scene) error { return second(v.Symlink(nil, s.dir, "new", "f")) }},
	{"link", "cl", func(v *view.View, s scene) error { return second(v.Link(nil, s.file, s.dir, "new")) }},
	{"unlink", "d", func(v *view.View, s scene) error { return v.Unlink(nil, s.dir, "f") }},
	{"rmdir", "d", func(v *view.View, s scene) error { return v.Rmdir(nil, s.dir, "d") }},
	{"rename", "cdm", func(v *view.View, s scene) error { return v.Rename(nil, s.dir, "f", s.dir, "new", 0) }},
	{"rename over", "cdm", func(v *view.View, s scene) error { return v.Rename(nil, s.dir, "f", s.dir, "l", 0) }},
	{"rename into", "cdm", func(v *view.View, s scene) error { return v.Rename(nil, s.dir, "f", s.sub, "f", view.NoReplace) }},
	{"rename with a whiteout", "cdm", func(v *view.View, s scene) error { return v.Rename(nil, s.dir, "f", s.dir, "new", view.Whiteout) }},
	{"exchange", "cdm", func(v *view.View, s scene) error { return v.Rename(nil, s.dir, "f", s.dir, "d", view.Exchange) }},
	{"open to read", "r", func(v *view.View, s scene) error { return second(v.Open(nil, s.file, view.OpenFlags{Read: true})) }},
	{"open to run", "r", func(v *view.View, s scene) error { return second(v.Open(nil, s.file, view.OpenFlags{Exec: true})) }},
	{"open to write", "w", func(v *view.View, s scene) error { return second(v.Open(nil, s.file, view.OpenFlags{Write: true})) }},
	{"open to truncate", "w", func(v *view.View, s scene) error {
		return second(v.Open(nil, s.file, view.OpenFlags{Truncate: true}))
	}},
	{"open dir", "s", func(v *view.View, s scene) error { return second(v.Open(nil, s.dir, view.OpenFlags{Read: true})) }},
	{"read", "r", func(v *view.View, s scene) error { return second(v.Read(nil, s.file, make([]byte, 8), 0)) }},
	{"write", "w", func(v *view.View, s scene) error { return second(v.Write(nil, s.file, []byte("x"), 0)) }},
	{"append", "w", func(v *view.View, s scene) error { return second(v.Append(nil, s.file, []byte("x"))) }},
	{"fsync", "s", func(v *view.View, s scene) error { return v.Fsync(context.Background(), nil, s.file) }},
	{"fallocate", "w", func(v *view.View, s scene) error { return v.Fallocate(nil, s.file, 0, 4096, 0) }},
	{"seek", "r", func(v *view.View, s scene) error { return second(v.Seek(nil, s.file, 0, true)) }},
	{"copy range", "rw", func(v *view.View, s scene) error { return second(v.CopyRange(nil, s.file, 0, s.file, 4, 4)) }},
	{"list", "s", func(v *view.View, s scene) error { return second(v.List(nil, s.dir)) }},
	{"parent", "s", func(v *view.View, s scene) error { return second(v.Parent(nil, s.sub)) }},
	{"getxattr", "r", func(v *view.View, s scene) error { return second(v.GetXattr(nil, s.file, "user.x")) }},
	{"provenance", "s", func(v *view.View, s scene) error { return second(v.GetXattr(nil, s.file, "user.warren.path")) }},
	{"listxattr", "s", func(v *view.View, s scene) error { return second(v.ListXattr(nil, s.file)) }},
	{"setxattr", "w", func(v *view.View, s scene) error {
		return v.SetXattr(nil, s.file, "user.y", []byte("1"), false, false)
	}},
	{"removexattr", "w", func(v *view.View, s scene) error { return v.RemoveXattr(nil, s.file, "user.x") }},
	{"statfs", "s", func(v *view.View, s scene) error { return second(v.Statfs(nil, s.file)) }},
	{"path", "s", func(v *view.View, s scene) error { return second(v.Path(s.file)) }},
}

const all, look, nothing = "srwcdml", "sr", ""

// rights is the table: what each view may do at each place.
var rights = []struct {
	place string // directory that the operations work in
	who   map[string]string
}{
	{"/agents/web/skills", map[string]string{"gaia": all, "lim": all, "limbob": nothing, "web": look, "boss": look, "kid": nothing,
		"mate": nothing, "guest": nothing, "conc": nothing, "ro": nothing, "none": nothing, "we": nothing, "webb": nothing, "web ro": look, "gaia ro": look, "web none": nothing}},
	{"/agents/web/notes", map[string]string{"gaia": all, "lim": all, "limbob": nothing, "web": all, "boss": all, "kid": nothing,
		"mate": nothing, "guest": nothing, "conc": nothing, "ro": nothing, "none": nothing, "we": nothing, "webb": nothing, "web ro": look, "gaia ro": look, "web none": nothing}},
	{"/agents/web/workspace", map[string]string{"gaia": all, "lim": all, "limbob": nothing, "web": all, "boss": all, "kid": nothing,
		"mate": nothing, "guest": nothing, "conc": nothing, "ro": nothing, "none": nothing, "we": nothing, "webb": nothing, "web ro": look, "gaia ro": look, "web none": nothing}},
	{"/agents/web/scratch", map[string]string{"gaia": all, "web": all, "boss": all, "kid": nothing, "guest": nothing, "conc": nothing, "web ro": look}},
	{"/agents/kid/workspace", map[string]string{"gaia": all, "lim": nothing, "web": all, "boss": all, "kid": all, "mate": nothing, "conc": nothing}},
	{"/agents/kid/skills", map[string]string{"gaia": all, "lim": nothing, "web": look, "boss": look, "kid": look, "mate": nothing}},
	{"/agents/conc/workspace", map[string]string{"gaia": all, "lim": nothing, "conc": all, "web": nothing, "boss": nothing}},
	{"/agents/gaia/workspace", map[string]string{"gaia": all, "lim": nothing, "web": nothing, "boss": nothing, "conc": nothing}},
	{"/agents/ro/workspace", map[string]string{"gaia": all, "ro": look, "web": nothing}},
	{"/agents/ro/notes", map[string]string{"gaia": all, "ro": look}},
	{"/agents/ro/caches", map[string]string{"gaia": all, "ro": all}},
	{"/agents/ro/scratch", map[string]string{"gaia": all, "ro": all}},
	{"/agents/none/workspace", map[string]string{"gaia": all, "lim": all, "none": nothing}},
	{"/users/ada", map[string]string{"gaia": all, "lim": all, "limbob": nothing, "web": all, "mate": all, "ro": look, "none": nothing,
		"boss": nothing, "kid": nothing, "guest": nothing, "conc": nothing}},
	{"/users/bob", map[string]string{"gaia": all, "lim": nothing, "limbob": all, "guest": all, "web": nothing, "conc": nothing}},
	{"/projects/site", map[string]string{"gaia": all, "lim": all, "limbob": all, "web": all, "guest": look, "mate": nothing, "boss": nothing, "conc": nothing}},
	{"/projects/bobs", map[string]string{"gaia": all, "lim": nothing, "limbob": all, "guest": all, "web": nothing}},
	{"/workspaces/default", map[string]string{"gaia": all, "lim": nothing, "web": nothing, "conc": nothing}},
}

// openAs opens "agent" or "agent access".
func (w *world) openAs(who string) *view.View {
	agent, access, _ := strings.Cut(who, " ")
	o := view.Options{Agent: agent}
	switch access {
	case "ro":
		o.Access = view.ReadOnly
	case "none":
		o.Access = view.None
	}
	return w.openWith(o)
}

// stage makes a fresh scene in a directory of place.
func (w *world) stage(place string, n int) scene {
	w.t.Helper()
	base := fmt.Sprintf("%s/case%d", place, n)
	s := scene{dir: w.mkdir(base)}
	s.file = w.write(base+"/f", "0123456789")
	s.sub = w.mkdir(base + "/d")
	a, err := w.gaia.Symlink(nil, s.dir, "l", "f")
	if err == nil {
		s.link = a.Node
		err = w.gaia.SetXattr(nil, s.file, "user.x", []byte("1"), false, false)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// TestOperationRolePlace tries every operation of every role at every place,
// with node numbers that hidden roles could only guess.
func TestOperationRolePlace(t *testing.T) {
	w := newWorld(t)
	n := 0
	for _, row := range rights {
		for who, have := range row.who {
			v := w.openAs(who)
			for _, op := range operations {
				n++
				s := w.stage(row.place, n)
				before := w.shape(s.dir)
				err := op.do(v, s)
				what := fmt.Sprintf("%s: %s in %s", who, op.name, row.place)
				switch {
				case have == nothing:
					if !reflect.DeepEqual(err, backend.NotFound) {
						t.Errorf("%s: %#v, want plain NotFound", what, err)
					}
				case hasAll(have, op.needs):
					w.ok(err, what)
				case v.Access() == view.ReadOnly && who != "ro":
					w.kind(err, backend.ReadOnly, what)
				default:
					w.kind(err, backend.Denied, what)
				}
				if err != nil && before != w.shape(s.dir) {
					t.Errorf("%s: refused, but something changed: %s, then %s", what, before, w.shape(s.dir))
				}
			}
		}
	}
	t.Logf("%d operations", n)
}

func hasAll(have, needs string) bool {
	for _, r := range needs {
		if !strings.ContainsRune(have, r) {
			return false
		}
	}
	return true
}

// shape tells all that an operation of the table could have changed.
func (w *world) shape(dir backend.NodeID) string {
	w.t.Helper()
	list, err := w.gaia.List(nil, dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range list {
		a, err := w.gaia.Getattr(nil, e.Node)
		if err != nil {
			w.t.Fatal(err)
		}
		names, err := w.gaia.ListXattr(nil, e.Node)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %+v %v; ", e.Name, a, names)
	}
	return b.String()
}

// TestHiddenIsAbsent compares every operation on what is hidden with the same
// on what is not there: a free number of a hidden volume, and a volume that
// does not exist.
func TestHiddenIsAbsent(t *testing.T) {
	w := newWorld(t)
	s := w.stage("/agents/guest/workspace", 0)
	free := backend.Node(s.dir.Volume(), 1<<30)
	var noVolume backend.VolumeID = 1
	for {
		if _, taken := w.tree.Volume(noVolume); !taken {
			break
		}
		noVolume++
	}
	absent := []scene{
		{free, free + 1, free + 2, free + 3},
		{backend.Node(noVolume, 1), backend.Node(noVolume, 2), backend.Node(noVolume, 3), backend.Node(noVolume, 4)},
		{0, 0, 0, 0},
		{1, 1, 1, 1},
		{^backend.NodeID(0), ^backend.NodeID(0), ^backend.NodeID(0), ^backend.NodeID(0)},
	}
	for _, who := range []string{"web", "conc", "lim", "boss", "none", "web ro"} {
		v := w.openAs(who)
		for _, op := range operations {
			hidden := op.do(v, s)
			for i, a := range absent {
				if err := op.do(v, a); !reflect.DeepEqual(err, hidden) || !reflect.DeepEqual(err, backend.NotFound) {
					t.Errorf("%s: %s: hidden %#v, absent (%d) %#v", who, op.name, hidden, i, err)
				}
			}
		}
		if d := w.space.Denials(v.Agent()); len(d) != 0 {
			t.Errorf("%s is told of %v", who, d)
		}
	}
	if len(w.space.Denials("")) == 0 {
		t.Error("the administrator is told of nothing")
	}
}

// TestHiddenNames does the same by name, in every directory above a volume.
func TestHiddenNames(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ dir, hidden, absent string }{
		{"/agents", "guest", "nobody"}, {"/agents", "we", "w"}, {"/agents", "webb", "webbb"},
		{"/users", "bob", "eve"}, {"/projects", "bobs", "nope"},
		{"/", "workspaces", "elsewhere"},
	} {
		dir := w.node(c.dir)
		for _, who := range []string{"web", "web ro"} {
			v := w.openAs(who)
			for name, op := range map[string]func(string) error{
				"lookup":  func(n string) error { return second(v.Lookup(nil, dir, n)) },
				"mkdir":   func(n string) error { return second(v.Mkdir(nil, dir, n, 0o755)) },
				"symlink": func(n string) error { return second(v.Symlink(nil, dir, n, "x")) },
				"create": func(n string) error {
					_, _, err := v.Create(nil, dir, n, 0o644, false, view.OpenFlags{Read: true})
					return err
				},
				"create excl": func(n string) error {
					_, _, err := v.Create(nil, dir, n, 0o644, true, view.OpenFlags{Read: true})
					return err
				},
				"unlink": func(n string) error { return v.Unlink(nil, dir, n) },
				"rmdir":  func(n string) error { return v.Rmdir(nil, dir, n) },
				"rename": func(n string) error { return v.Rename(nil, dir, n, dir, "x", 0) },
				"rename to": func(n string) error {
					return v.Rename(nil, dir, "agents", dir, n, view.NoReplace)
				},
				"resolve": func(n string) error { return second(v.Resolve(c.dir + "/" + n)) },
				"read":    func(n string) error { _, _, err := v.ReadFile(c.dir+"/"+n+"/x", -1); return err },
				"write":   func(n string) error { return second(v.WriteFile(c.dir+"/"+n+"/x", nil, 0o644)) },
				"remove":  func(n string) error { return v.Remove(c.dir+"/"+n, true) },
			} {
				h, a := op(c.hidden), op(c.absent)
				if h == nil || a == nil || strings.ReplaceAll(h.Error(), c.hidden, "@") != strings.ReplaceAll(a.Error(), c.absent, "@") ||
					!errors.Is(h, backend.KindOf(a)) {
					t.Errorf("%s: %s in %s: hidden %q: %v, absent %q: %v", who, name, c.dir, c.hidden, h, c.absent, a)
				}
			}
			list, err := v.List(nil, dir)
			w.ok(err, "list")
			for _, e := range list {
				if e.Name == c.hidden {
					t.Errorf("%s lists %s in %s", who, c.hidden, c.dir)
				}
			}
		}
	}
}
