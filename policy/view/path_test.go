package view_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

func (w *world) symlink(path, target string) backend.NodeID {
	w.t.Helper()
	dir, name, err := w.gaia.ResolveParent(path)
	if err == nil {
		var a backend.Attr
		if a, err = w.gaia.Symlink(nil, dir.Node, name, target); err == nil {
			return a.Node
		}
	}
	w.t.Fatal(err)
	return 0
}

// TestSymlinksOut (failure 34): a soul's symlinks lead nowhere it may not see.
func TestSymlinksOut(t *testing.T) {
	w := newWorld(t)
	w.write("/agents/guest/workspace/secret", "S")
	w.write("/agents/web/workspace/a/b/here", "H")
	w.write("/agents/web/workspace/etc/passwd", "not the host's")
	cases := map[string]struct {
		target string
		kind   backend.Kind
		text   string
	}{
		"up":       {"../../guest/workspace", backend.NotFound, ""},
		"abs":      {"/warren/agents/guest/workspace", backend.NotFound, ""},
		"host":     {"/etc", backend.NotFound, ""},
		"prefix":   {"/warrenx/agents/web/workspace/a/b", backend.NotFound, ""},
		"glued":    {"/warrenagents/web/workspace/a/b/../b", backend.NotFound, ""},
		"rootdir":  {"/warren", backend.NotFound, ""},
		"nothing":  {"gone", backend.NotFound, ""},
		"above":    {"../../../../../../agents/guest/workspace", backend.NotFound, ""},
		"in":       {"a/b", 0, "H"},
		"abs in":   {"/warren/agents/web/workspace/a/b/", 0, "H"},
		"above in": {"../../../../../../agents/web/workspace/a/b", 0, "H"},
		"dots":     {"./a/../a/./b", 0, "H"},
		"twice":    {"in", 0, "H"},
		"loop":     {"loop", backend.Loop, ""},
		"file":     {"a/b/here", backend.NotDir, ""},
	}
	for link, want := range cases {
		w.symlink("/agents/web/workspace/"+link, want.target)
	}
	v := w.open("web")
	for link, want := range cases {
		file := "here"
		if want.kind == backend.NotFound && link != "glued" {
			file = "secret"
		}
		text, _, err := v.ReadFile("/agents/web/workspace/"+link+"/"+file, -1)
		if want.kind == 0 {
			if err != nil || string(text) != want.text {
				t.Errorf("%s: %q, %v", link, text, err)
			}
			continue
		}
		w.kind(err, want.kind, link)
		if err != nil && strings.Contains(err.Error(), "guest") && !strings.Contains(want.target, "guest") {
			t.Errorf("%s: %v", link, err)
		}
		_, err = v.WriteFile("/agents/web/workspace/"+link+"/new", []byte("x"), 0o644)
		if link == "rootdir" { // it leads to "/", which is seen
			w.kind(err, backend.Denied, link+": write")
			continue
		}
		w.kind(err, want.kind, link+": write")
	}
}

func TestResolve(t *testing.T) {
	w := newWorld(t)
	f := w.write("/agents/web/workspace/d/f", "f")
	w.symlink("/agents/web/workspace/ld", "d")
	l := w.symlink("/agents/web/workspace/lf", "d/f")
	chain := "/agents/web/workspace/d/f"
	for i := range 41 {
		name := fmt.Sprintf("/agents/web/workspace/chain%d", i)
		w.symlink(name, chain[strings.LastIndexByte(chain, '/')+1:])
		if i == 0 {
			w.ok(w.gaia.Remove(name, false), "remove")
			w.symlink(name, "d/f")
		}
		chain = name
	}
	v := w.open("web")
	for path, want := range map[string]any{
		"/agents/web/workspace/d/f":            f,
		"//agents//web/./workspace/d//f":       f,
		"/agents/web/workspace/ld/f":           f,
		"/agents/web/workspace/lf":             f,
		"/agents/web/workspace/d/../ld/../d/f": f,
		"/../../agents/web/workspace/d/f":      f,
		"/":                                    v.Root(),
		"/..":                                  v.Root(),
		"/agents/web/workspace/d/f/":           backend.NotDir,
		"/agents/web/workspace/d/f/.":          backend.NotDir,
		"/agents/web/workspace/lf/":            backend.NotDir,
		"/agents/web/workspace/d/./f":          f,
		"/agents/web/workspace/d/f/x":          backend.NotDir,
		"/agents/web/workspace/d/f/..":         backend.NotDir,
		"/agents/web/workspace/chain39":        f,
		"/agents/web/workspace/chain40":        backend.Loop,
		"/agents/we":                           backend.NotFound,
		"/agents/webb":                         backend.NotFound,
		"/agents/web/workspace/" + longName:    backend.NameTooLong,
		"agents/web":                           backend.Invalid,
		"":                                     backend.Invalid,
		"/agents/web\x00":                      backend.Invalid,
		"/agents/web/../guest/workspace":       backend.NotFound,
		"/agents/web/workspace/../../guest":    backend.NotFound,
	} {
		a, err := v.Resolve(path)
		switch want := want.(type) {
		case backend.NodeID:
			if err != nil || a.Node != want {
				t.Errorf("%q: %v, %v", path, a.Node, err)
			}
		case backend.Kind:
			w.kind(err, want, path)
		}
	}
	for path, want := range map[string]any{
		"/agents/web/workspace/d/new":  "new",
		"/agents/web/workspace/ld/new": "new",
		"/agents/web/workspace/d/f/":   "f",
		"/agents":                      "agents",
		"/":                            backend.Invalid,
		"":                             backend.Invalid,
		"/agents/..":                   backend.Invalid,
		"/agents/guest/x":              backend.NotFound,
		"/agents/web/workspace/d/f/x":  backend.NotDir,
	} {
		_, name, err := v.ResolveParent(path)
		switch want := want.(type) {
		case string:
			if err != nil || name != want {
				t.Errorf("%q: %q, %v", path, name, err)
			}
		case backend.Kind:
			w.kind(err, want, path)
		}
	}
	if target, err := v.Readlink(nil, l); err != nil || target != "d/f" {
		t.Errorf("readlink: %q, %v", target, err)
	}
}

var longName = strings.Repeat("n", 256)

// TestBadNames: a request that can be no name is refused before anything else.
func TestBadNames(t *testing.T) {
	w := newWorld(t)
	v, hidden := w.open("web"), w.node("/agents/guest/workspace")
	for name, want := range map[string]backend.Kind{"": backend.Invalid, ".": backend.Invalid, "..": backend.Invalid,
		"a/b": backend.Invalid, "a\x00": backend.Invalid, longName: backend.NameTooLong} {
		for _, dir := range []backend.NodeID{w.node("/agents/web/workspace"), hidden, v.Root()} {
			for what, err := range map[string]error{
				"lookup":    second(v.Lookup(nil, dir, name)),
				"mkdir":     second(v.Mkdir(nil, dir, name, 0o755)),
				"create":    second3(v.Create(nil, dir, name, 0o644, false, view.OpenFlags{})),
				"symlink":   second(v.Symlink(nil, dir, name, "x")),
				"link":      second(v.Link(nil, dir, dir, name)),
				"unlink":    v.Unlink(nil, dir, name),
				"rmdir":     v.Rmdir(nil, dir, name),
				"rename":    v.Rename(nil, dir, name, dir, "x", 0),
				"rename to": v.Rename(nil, dir, "x", dir, name, 0),
			} {
				if !errors.Is(err, want) {
					t.Errorf("%s %q: %v, want %v", what, name, err, want)
				}
			}
		}
	}
	w.kind(v.Rename(nil, w.node("/agents/web/workspace"), "a", w.node("/agents/web/workspace"), "b", 8), backend.Invalid, "rename flags")
	w.kind(v.Rename(nil, w.node("/agents/web/workspace"), "a", w.node("/agents/web/workspace"), "b", view.Exchange|view.Whiteout), backend.Invalid, "rename flags")
	w.kind(v.Rename(nil, w.node("/agents/web/workspace"), "a", w.node("/agents/web/workspace"), "b", 3), backend.Invalid, "rename flags")
	_, err := v.Mknod(nil, w.node("/agents/web/workspace"), "a", backend.TypeDir, 0o755, 0)
	w.kind(err, backend.Invalid, "mknod of a directory")
}

func TestCrossVolume(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	s := w.stage("/agents/web/workspace", 0)
	scratch, hidden := w.node("/agents/web/scratch"), w.node("/agents/guest/scratch")
	other := w.write("/agents/web/scratch/o", "o")
	w.kind(v.Rename(nil, s.dir, "f", scratch, "f", 0), backend.CrossVolume, "rename")
	_, err := v.Link(nil, s.file, scratch, "f")
	w.kind(err, backend.CrossVolume, "link")
	n, err := v.CopyRange(nil, s.file, 0, other, 1, 1) // bytes are shared by all volumes
	got, want := make([]byte, 3), make([]byte, 1)
	size, rerr := v.Read(nil, other, got, 0)
	_, werr := v.Read(nil, s.file, want, 0)
	if errors.Join(err, rerr, werr) != nil || n != 1 || string(got[:size]) != "o"+string(want) {
		t.Errorf("copy into another volume: %d, %v, %v, %v, %q", n, err, rerr, werr, got[:size])
	}
	for i, err := range []error{
		v.Rename(nil, s.dir, "f", hidden, "f", 0), v.Rename(nil, hidden, "f", s.dir, "f", 0),
		second(v.Link(nil, s.file, hidden, "f")), second(v.Link(nil, hidden, s.dir, "x")),
		second(v.CopyRange(nil, s.file, 0, hidden, 0, 1)), second(v.CopyRange(nil, hidden, 0, s.file, 0, 1)),
	} {
		if err != backend.NotFound {
			t.Errorf("%d: across to a hidden volume: %v", i, err)
		}
	}
}

// TestRootedView: a view that starts below "/" shows what is below, by name
// and by number, and has no way up.
func TestRootedView(t *testing.T) {
	w := newWorld(t)
	sub := w.mkdir("/agents/web/workspace/app/src")
	in := w.write("/agents/web/workspace/app/src/in", "in")
	out := w.write("/agents/web/workspace/app/out", "out")
	w.write("/agents/web/workspace/app2/f", "2")
	scratch := w.write("/agents/web/scratch/f", "s")
	w.symlink("/agents/web/workspace/app/src/up", "../out")
	w.symlink("/agents/web/workspace/app/src/abs", "/warren/agents/web/workspace/app/out")
	w.symlink("/agents/web/workspace/app/src/self", "/warren/agents/web/workspace/app/src/in")
	v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/app/src/"})
	if v.Root() != sub || v.RootPath() != "/agents/web/workspace/app/src" {
		t.Errorf("root %v at %q", v.Root(), v.RootPath())
	}
	if up, err := v.Parent(nil, sub); err != nil || up != sub {
		t.Errorf("parent of the root: %v, %v", up, err)
	}
	if up, err := v.Parent(nil, in); err != nil || up != sub {
		t.Errorf("parent: %v, %v", up, err)
	}
	for _, n := range []backend.NodeID{out, w.node("/agents/web/workspace"), w.node("/agents/web/workspace/app"), w.node("/agents/web/workspace/app2/f"),
		scratch, w.node("/agents/web"), w.node("/agents/web/soul.md"), w.node("/agents"), w.node("/"), w.node("/users/ada")} {
		if _, err := v.Getattr(nil, n); err != backend.NotFound {
			t.Errorf("%v outside: %v", n, err)
		}
		if _, err := v.Write(nil, n, []byte("x"), 0); err != backend.NotFound {
			t.Errorf("write to %v outside: %v", n, err)
		}
	}
	w.kind(v.Rename(nil, sub, "in", w.node("/agents/web/workspace"), "in", 0), backend.NotFound, "rename out")
	_, err := v.Link(nil, out, sub, "l")
	w.kind(err, backend.NotFound, "link in")
	for path, want := range map[string]backend.Kind{
		"/agents/web/workspace/app/src/up": backend.NotFound, "/agents/web/workspace/app/src/abs": backend.NotFound,
		"/agents/web/workspace/app/out": backend.NotFound, "/": backend.NotFound, "/agents/web/workspace/app/src/../out": backend.NotFound,
		"/agents/web/workspace/app/srcs": backend.NotFound,
	} {
		_, err := v.Resolve(path)
		w.kind(err, want, path)
	}
	a, err := v.Resolve("/agents/web/workspace/app/src/self")
	if err != nil || a.Node != in {
		t.Errorf("a link to itself: %v, %v", a.Node, err)
	}
	// A file with a second name inside is inside.
	_, err = w.gaia.Link(nil, out, sub, "alias")
	w.ok(err, "link")
	_, err = v.Read(nil, out, make([]byte, 1), 0)
	w.ok(err, "read by a name inside")

	for root, want := range map[string]backend.Kind{"/agents/guest": backend.NotFound, "/agents/nobody": backend.NotFound, "/agents/web/soul.md": backend.NotDir,
		"agents": backend.Invalid, "/projects/bobs": backend.NotFound} {
		_, err := w.space.Open(view.Options{Agent: "web", Root: root})
		w.kind(err, want, "open at "+root)
	}
	_, err = w.space.Open(view.Options{Agent: "nobody"})
	w.kind(err, backend.NotFound, "open of an unknown agent")
	_, err = w.space.Open(view.Options{Agent: "web", Root: "/agents/web", Access: view.None})
	w.kind(err, backend.NotFound, "open of nothing, below")

	home := w.openWith(view.Options{Agent: "web", Root: "/agents/web"})
	if up, err := home.Parent(nil, w.node("/agents/web/workspace")); err != nil || up != home.Root() {
		t.Errorf("parent of a volume: %v, %v", up, err)
	}
	_, err = home.Read(nil, scratch, make([]byte, 1), 0)
	w.ok(err, "read in an inner volume")
	_, err = home.Getattr(nil, w.node("/agents/kid/workspace"))
	w.kind(err, backend.NotFound, "a sibling of the root")
	agents := w.openWith(view.Options{Agent: "web", Root: "/agents"})
	if list, err := agents.List(nil, agents.Root()); err != nil || fmt.Sprint(names(list)) != "[kid web]" {
		t.Errorf("/agents as a root: %v, %v", names(list), err)
	}
	_, err = agents.Getattr(nil, w.node("/users/ada"))
	w.kind(err, backend.NotFound, "beside /agents")
	_, err = agents.Read(nil, scratch, make([]byte, 1), 0)
	w.ok(err, "read two volumes down")
}

// TestRootedViewLoses: what is renamed out of a rooted view is revoked there; what
// only loses its last name in it stays with the mounts that hold it.
func TestRootedViewLoses(t *testing.T) {
	w := newWorld(t)
	sub := w.mkdir("/agents/web/workspace/src")
	work := w.node("/agents/web/workspace")
	in := w.write("/agents/web/workspace/src/in", "in")
	deep := w.write("/agents/web/workspace/src/d/e/f", "f")
	k := &kernel{w: w}
	v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/src", Observer: k})
	lost := func(what string, n backend.NodeID, want view.Edge) {
		t.Helper()
		r := k.takeRevoked()
		if len(r) != 1 || len(r[0].Gone) != 1 || r[0].Gone[0] != want || r[0].Standing(n) != view.Hidden || r[0].Standing(sub) != view.Visible {
			t.Errorf("%s: told %+v", what, r)
		}
		_, err := v.Read(nil, n, make([]byte, 1), 0)
		w.kind(err, backend.NotFound, what)
	}
	w.ok(w.gaia.Rename(nil, sub, "in", sub, "in2", 0), "rename inside")
	if r := k.takeRevoked(); r != nil {
		t.Errorf("told of a rename inside: %+v", r)
	}
	w.ok(w.gaia.Rename(nil, sub, "in2", work, "in", 0), "rename out")
	lost("rename out", in, view.Edge{Parent: sub, Name: "in2", Node: in})
	d := w.node("/agents/web/workspace/src/d")
	w.ok(w.gaia.Rename(nil, sub, "d", work, "d", 0), "rename of a directory out")
	lost("rename of a directory out", deep, view.Edge{Parent: sub, Name: "d", Node: d})
	_, err := w.gaia.Link(nil, in, sub, "alias")
	w.ok(err, "link")
	_, err = v.Read(nil, in, make([]byte, 1), 0)
	w.ok(err, "read by the alias")
	w.ok(w.gaia.Unlink(nil, sub, "alias"), "unlink")
	_, err = v.Read(nil, in, make([]byte, 1), 0)
	w.kind(err, backend.NotFound, "read of what nobody held when its last name inside went")
	_, err = w.gaia.Link(nil, in, sub, "alias")
	w.ok(err, "link again")
	w.hub.hold(in, true)
	w.ok(w.gaia.Unlink(nil, sub, "alias"), "unlink of what is held")
	if r := k.takeRevoked(); r != nil {
		t.Errorf("told of the last name inside: %+v", r)
	}
	_, err = v.Read(nil, in, make([]byte, 1), 0)
	w.ok(err, "read of what was held")
	w.hub.hold(in, false)
	x := w.write("/agents/web/workspace/src/x", "x")
	w.ok(w.gaia.Rename(nil, sub, "x", work, "in", view.Exchange), "exchange")
	lost("exchange", x, view.Edge{Parent: sub, Name: "x", Node: x})
	_, err = v.Read(nil, in, make([]byte, 1), 0)
	w.ok(err, "read of what came in")
	w.ok(w.gaia.Unlink(nil, sub, "x"), "unlink for good")
	if r := k.takeRevoked(); r != nil {
		t.Errorf("told of a plain unlink: %+v", r)
	}
}

// TestRootedViewLosesForGood: what left a rooted view does not come back by
// losing its last name, while a mount still holds it. What loses it inside stays.
func TestRootedViewLosesForGood(t *testing.T) {
	w := newWorld(t)
	sub := w.mkdir("/agents/web/workspace/src")
	work := w.node("/agents/web/workspace")
	out := w.write("/agents/web/workspace/src/out", "out")
	deep := w.write("/agents/web/workspace/src/d/f", "f")
	over := w.write("/agents/web/workspace/src/over", "over")
	in, back := w.write("/agents/web/workspace/src/in", "in"), w.write("/agents/web/workspace/src/back", "back")
	gone, empty := w.mkdir("/agents/web/workspace/src/gone"), w.mkdir("/agents/web/workspace/src/empty")
	v := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/src", Observer: &kernel{w: w}})
	all := w.open("web")
	held := []backend.NodeID{out, deep, over, in, back, gone, empty}
	for _, n := range held {
		w.hub.hold(n, true)
	}
	for _, name := range []string{"out", "d", "over", "gone", "back"} {
		w.ok(w.gaia.Rename(nil, sub, name, work, name, 0), "rename out")
	}
	w.ok(w.gaia.Unlink(nil, work, "out"), "unlink")
	w.ok(w.gaia.Unlink(nil, w.node("/agents/web/workspace/d"), "f"), "unlink")
	w.write("/agents/web/workspace/new", "new")
	w.ok(w.gaia.Rename(nil, work, "new", work, "over", 0), "rename over")
	w.ok(w.gaia.Rmdir(nil, work, "gone"), "rmdir")
	w.ok(w.gaia.Unlink(nil, sub, "in"), "unlink inside")
	w.ok(w.gaia.Rmdir(nil, sub, "empty"), "rmdir inside")
	for _, n := range []backend.NodeID{out, deep, over} {
		_, err := v.Read(nil, n, make([]byte, 1), 0)
		w.kind(err, backend.NotFound, "read of what left")
		_, err = all.Read(nil, n, make([]byte, 1), 0)
		w.ok(err, "read in a view of everything")
	}
	_, err := v.Getattr(nil, gone)
	w.kind(err, backend.NotFound, "a directory that left")
	_, err = v.Getattr(nil, empty)
	w.ok(err, "a directory removed inside")
	_, err = v.Read(nil, in, make([]byte, 1), 0)
	w.ok(err, "read of what was unlinked inside")
	// What came back by another name is of the inside again.
	_, err = w.gaia.Link(nil, back, sub, "alias")
	w.ok(err, "link")
	w.ok(w.gaia.Unlink(nil, work, "back"), "unlink")
	w.ok(w.gaia.Unlink(nil, sub, "alias"), "unlink inside")
	_, err = v.Read(nil, back, make([]byte, 1), 0)
	w.ok(err, "read of what came back and was unlinked")
	for _, n := range held {
		w.hub.hold(n, false)
		w.space.Dropped(n)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace/"
	big := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB: several writes
	a, err := v.WriteFile(base+"big", big, 0o600)
	if err != nil || a.Size != uint64(len(big)) || a.Mode != 0o600 || a.Nlink != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	b, err := v.WriteFile(base+"big", []byte("small"), 0o644)
	if err != nil || b.Size != 5 || b.Mode != 0o600 || b.Node != a.Node || b.Btime != a.Btime || b.Nlink != 1 {
		t.Errorf("replaced: %+v, %v", b, err)
	}
	w.symlink(base+"link", "big")
	_, err = v.WriteFile(base+"link", []byte("through"), 0)
	w.ok(err, "write through a symlink")
	if text, _, err := v.ReadFile(base+"big", 7); err != nil || string(text) != "through" {
		t.Errorf("%q, %v", text, err)
	}
	_, _, err = v.ReadFile(base+"big", 6)
	w.kind(err, backend.TooBig, "over the limit")
	_, _, err = v.ReadFile(base, -1)
	w.kind(err, backend.IsDir, "read a directory")
	_, err = v.WriteFile(base, nil, 0)
	w.kind(err, backend.IsDir, "write a directory")
	_, err = v.WriteFile(base+"no/such/dir/f", nil, 0)
	w.kind(err, backend.NotFound, "write below nothing")
	w.ok(v.MkdirAll(base+"p/q/r", 0o700), "mkdir -p")
	w.ok(v.MkdirAll(base+"p/q/r/", 0o700), "mkdir -p again")
	w.ok(v.MkdirAll("/agents/web/workspace", 0o700), "mkdir -p of a volume")
	w.kind(v.MkdirAll(base+"big", 0o700), backend.NotDir, "mkdir -p over a file")
	w.kind(v.MkdirAll(base+"big/x", 0o700), backend.NotDir, "mkdir -p below a file")
	w.kind(v.MkdirAll("/agents/guest/x", 0o700), backend.Denied, "mkdir -p in what is hidden")
	_, err = v.WriteFile(base+"p/q/r/f", []byte("f"), 0o644)
	w.ok(err, "write")
	w.symlink(base+"p/out", "../big")
	w.kind(v.Remove(base+"p", false), backend.NotEmpty, "remove a full directory")
	w.ok(v.Remove(base+"p", true), "remove all")
	w.ok(v.Remove(base+"link", true), "remove a symlink")
	if _, err := v.Resolve(base + "big"); err != nil {
		t.Errorf("removing symlinks removed what they lead to: %v", err)
	}
	w.kind(v.Remove(base+"p", true), backend.NotFound, "remove again")
	w.kind(v.Remove("/", true), backend.Invalid, "remove /")
	w.kind(v.Remove("/agents/web/workspace", true), backend.Denied, "remove a volume")
	_, err = w.open("guest").WriteFile(base+"big", []byte("x"), 0)
	w.kind(err, backend.NotFound, "write to another's")
	if st, err := v.Statfs(nil, w.node(base)); err != nil || st.UsedInodes > 3 {
		t.Logf("inodes left to the reclaimer: %d, %v", st.UsedInodes, err)
	}
}

// TestPathsAreBounded, as in system calls: what is asked for by one costs no more than
// its length squared.
func TestPathsAreBounded(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace"
	fits := base + strings.Repeat("/a", (4096-len(base))/2)
	w.ok(v.MkdirAll(fits, 0o755), "a path of 4,096 bytes")
	_, err := v.Resolve(fits)
	w.ok(err, "resolve it")
	for _, long := range []string{fits + "/a", fits + "//", base + strings.Repeat("/a", 100_000)} {
		w.kind(v.MkdirAll(long, 0o755), backend.NameTooLong, "mkdir")
		_, err := v.Resolve(long)
		w.kind(err, backend.NameTooLong, "resolve")
		_, err = v.Put(long, strings.NewReader("x"), 0)
		w.kind(err, backend.NameTooLong, "put")
	}
}

// TestMkdirAll makes what is missing, through symlinks too, but not where one leads
// to nothing.
func TestMkdirAll(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace/"
	w.mkdir(base + "real/deep")
	w.write(base+"f", "x")
	w.symlink(base+"via", "real/deep")
	w.symlink(base+"nowhere", "gone/x")
	w.symlink(base+"twice", "via/../new/none")
	for path, want := range map[string]error{
		"a/b/c/": nil, "a/b": nil, "via/x/y": nil, "./m/./n/../o": nil, "via": nil,
		"f": backend.NotDir, "f/x": backend.NotDir, "nowhere": backend.NotFound, "nowhere/x": backend.NotFound, "twice/y": backend.NotFound,
	} {
		if err := v.MkdirAll(base+path, 0o700); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	for path, there := range map[string]bool{"a/b/c": true, "real/deep/x/y": true, "m/n": true, "m/o": true, "gone": false, "real/new": false} {
		if _, err := v.Resolve(base + path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	w.kind(v.MkdirAll("/agents/guest/workspace/x", 0o755), backend.Denied, "where something is hidden")
	w.kind(v.MkdirAll("/agents/nobody/workspace/x", 0o755), backend.Denied, "where nothing is")
}

// TestRemoveUntil: who gives up removing a directory finds the rest of it there.
func TestRemoveUntil(t *testing.T) {
	w := newWorld(t)
	dir := "/agents/web/workspace/d"
	for i := range 20 {
		w.write(fmt.Sprintf("%s/%d/f", dir, i), "x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.hub.inside = cancel // at the first change
	if err := w.open("web").RemoveUntil(ctx, dir, true); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	w.hub.inside = nil
	list, err := w.gaia.List(nil, w.node(dir))
	if err != nil || len(list) < 19 {
		t.Errorf("%d directories are left, %v", len(list), err)
	}
}
