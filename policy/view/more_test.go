package view_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// TestStrictestName: a file of a home with several names is judged by the
// strictest place, whichever name is the first.
func TestStrictestName(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	notes, skills := w.node("/agents/web/notes"), w.node("/agents/web/skills")
	n := w.write("/agents/web/notes/n", "n")
	_, err := web.Write(nil, n, []byte("1"), 0)
	w.ok(err, "write a note")
	_, err = w.gaia.Link(nil, n, skills, "n")
	w.ok(err, "gaia: link it into skills")
	_, err = web.Write(nil, n, []byte("2"), 0)
	w.kind(err, backend.Denied, "write a note that is a skill too")
	_, _, err = web.Create(nil, notes, "x", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	w.kind(web.Rename(nil, notes, "n", notes, "m", 0), backend.Denied, "rename it")
	w.kind(web.Rename(nil, notes, "x", notes, "n", view.Exchange), backend.Denied, "exchange with it")
	w.ok(web.Unlink(nil, notes, "n"), "unlink the note")
	_, err = web.Write(nil, n, []byte("3"), 0)
	w.kind(err, backend.Denied, "write the skill")
}

// TestMadeAgain: what gaia makes anew in a home is what its name says.
func TestMadeAgain(t *testing.T) {
	w := newWorld(t)
	web, home := w.open("web"), w.node("/agents/web")
	w.ok(w.gaia.Rmdir(nil, home, "memory"), "rmdir")
	dir, err := w.gaia.Mkdir(nil, home, "memory", 0o755)
	w.ok(err, "mkdir")
	_, _, err = web.Create(nil, dir.Node, "m", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create in the new memory")
	w.ok(w.gaia.Unlink(nil, home, "session.md"), "unlink")
	a, _, err := w.gaia.Create(nil, home, "session.md", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = web.Write(nil, a.Node, []byte("x"), 0)
	w.ok(err, "write the new session.md")
	a, _, err = w.gaia.Create(nil, home, "extra.md", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = web.Write(nil, a.Node, []byte("x"), 0)
	w.kind(err, backend.Denied, "write what gaia put into the home")
}

// TestReplacingNeedsRemove: a rename over a name takes that name away.
func TestReplacingNeedsRemove(t *testing.T) {
	w := newWorld(t)
	w.facts.Extra = []policy.File{{Name: "keep.cedar", Text: `
@id("keep-notes") @reason("notes are kept")
@match("web remove tree:web") @not_match("web create tree:web; web remove caches:web")
forbid (principal, action == Action::"remove", resource) when { resource.zone == "tree" };`}}
	w.publish()
	web := w.open("web")
	w.write("/agents/web/caches/a", "a")
	w.write("/agents/web/caches/b", "b")
	w.write("/agents/web/notes/old", "old")
	caches, notes := w.node("/agents/web/caches"), w.node("/agents/web/notes")
	w.kind(web.Unlink(nil, notes, "old"), backend.Denied, "unlink")
	w.kind(web.Rename(nil, caches, "a", notes, "old", 0), backend.Denied, "rename over")
	w.kind(web.Rename(nil, caches, "a", notes, "old", view.Exchange), backend.Denied, "exchange")
	w.ok(web.Rename(nil, caches, "a", notes, "a", 0), "rename to a new name")
	if d := w.space.Denials("web"); len(d) == 0 || d[0].Rule != "keep-notes" {
		t.Errorf("noted as %+v", d)
	}
}

// TestOneViewFollowsTheFacts: what a view remembered of the directories above
// volumes goes with the facts and with the volumes.
func TestOneViewFollowsTheFacts(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	see := func(name string, want bool) {
		t.Helper()
		_, err := web.Lookup(nil, web.Root(), name)
		if want {
			w.ok(err, "lookup of /"+name)
		} else {
			w.kind(err, backend.NotFound, "lookup of /"+name)
		}
	}
	see("projects", true)
	delete(w.facts.Projects["site"], "web")
	w.publish()
	see("projects", false)
	w.facts.Projects["site"]["web"] = "read"
	w.publish()
	see("projects", true)
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindProject, Owner: "site"}), "remove /projects/site")
	see("projects", false)
	w.volume(view.KindProject, "site")
	see("projects", true)
}

// TestPublishWaits: an operation that decided by the old facts ends before
// Publish returns.
func TestPublishWaits(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	f := w.write("/projects/site/f", "f")
	entered, leave := make(chan struct{}), make(chan struct{})
	w.hub.mu.Lock()
	w.hub.inside = func() { close(entered); <-leave }
	w.hub.mu.Unlock()
	written := make(chan error, 1)
	go func() { written <- second(web.Write(nil, f, []byte("x"), 0)) }()
	<-entered // decided and done, its lock held
	published := make(chan error, 1)
	delete(w.facts.Projects["site"], "web")
	go func() { published <- w.space.Publish(t.Context(), w.facts) }()
	select {
	case <-published:
		t.Error("Publish returned with an operation by the old facts under way")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	w.ok(<-written, "write")
	w.ok(<-published, "publish")
	w.hub.inside = nil
	_, err := web.Write(nil, f, []byte("x"), 0)
	w.kind(err, backend.NotFound, "write after it")
}

// TestAbsentNumber: a number that names nothing in a volume one sees.
func TestAbsentNumber(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	free := backend.Node(w.node("/agents/web/workspace").Volume(), 1<<30)
	for _, op := range operations {
		if err := op.do(web, scene{free, free, free, free}); err != backend.NotFound {
			t.Errorf("%s: %#v", op.name, err)
		}
	}
	s := w.stage("/agents/web/workspace", 0)
	_, err := web.Open(nil, s.dir, view.OpenFlags{Write: true})
	w.kind(err, backend.IsDir, "open a directory to write")
	_, err = web.Open(nil, s.link, view.OpenFlags{Read: true})
	w.kind(err, backend.Loop, "open a symlink")
	_, err = web.Lookup(nil, s.file, "x")
	w.kind(err, backend.NotDir, "lookup in a file")
	_, err = web.List(nil, s.file)
	w.kind(err, backend.NotDir, "list a file")
}

// TestRootIsLost: a mount whose root is not in the view any more shows an
// empty directory.
func TestRootIsLost(t *testing.T) {
	w := newWorld(t)
	w.write("/projects/site/src/f", "f")
	site, src := w.node("/projects/site"), w.node("/projects/site/src")
	f := w.node("/projects/site/src/f")
	views := map[backend.NodeID]*view.View{
		site: w.openWith(view.Options{Agent: "web", Root: "/projects/site"}),
		src:  w.openWith(view.Options{Agent: "web", Root: "/projects/site/src"}),
	}
	delete(w.facts.Projects["site"], "web")
	w.publish()
	for root, v := range views {
		a, err := v.Getattr(nil, root)
		if err != nil || a.Node != root || a.Mode != 0o555 || a.Nlink != 1 || a.Mtime != w.tree.Created() {
			t.Errorf("the lost root: %+v, %v", a, err)
		}
		if list, err := v.List(nil, root); err != nil || len(list) != 0 {
			t.Errorf("the lost root lists %v, %v", names(list), err)
		}
		for _, name := range []string{"src", "f", "nope"} {
			if _, err := v.Lookup(nil, root, name); err != backend.NotFound {
				t.Errorf("lookup in the lost root: %v", err)
			}
		}
		_, err = v.Mkdir(nil, root, "new", 0o755)
		w.kind(err, backend.Denied, "mkdir in the lost root")
		w.kind(v.Unlink(nil, root, "f"), backend.NotFound, "unlink in the lost root")
		_, err = v.ListXattr(nil, root)
		w.ok(err, "listxattr of the lost root")
		_, err = v.Statfs(nil, root)
		w.ok(err, "statfs of the lost root")
		if _, err := v.Read(nil, f, make([]byte, 1), 0); err != backend.NotFound {
			t.Errorf("read below the lost root: %v", err)
		}
	}
	w.facts.Projects["site"]["web"] = "read"
	w.publish()
	for root, v := range views {
		if list, err := v.List(nil, root); err != nil || len(list) != 1 {
			t.Errorf("the root that is back lists %v, %v", names(list), err)
		}
	}
}

// TestSiblingPrefixes (failure 33): agents, users and projects whose names
// start alike have nothing to do with each other.
func TestSiblingPrefixes(t *testing.T) {
	w := newWorld(t)
	keys := []string{"we", "web", "webb"}
	for _, a := range keys {
		v := w.open(a)
		for _, b := range keys {
			_, err := v.Resolve("/agents/" + b + "/workspace")
			if a == b {
				w.ok(err, a+" sees its own")
			} else {
				w.kind(err, backend.NotFound, a+" looks at "+b)
			}
		}
	}
}

// TestStatfsAndSize: the numbers of a volume are its own.
func TestStatfsOfHiddenNeighbours(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	n := w.node("/agents/web/workspace")
	before, err := web.Statfs(nil, n)
	w.ok(err, "statfs")
	for i := range 20 {
		w.write(fmt.Sprintf("/agents/guest/workspace/f%d", i), "0123456789")
	}
	after, err := web.Statfs(nil, n)
	if err != nil || before.UsedBytes != after.UsedBytes || before.UsedInodes != after.UsedInodes || before.FilesystemN != after.FilesystemN {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}

// TestFreshFiles: what is made can be used at once and is shown as it was made,
// at every place.
func TestFreshFiles(t *testing.T) {
	w := newWorld(t)
	for _, row := range rights {
		for who, have := range row.who {
			if have != all {
				continue
			}
			v, dir := w.openAs(who), w.node(row.place)
			a, _, err := v.Create(nil, dir, "fresh-"+who, 0o640, true, view.OpenFlags{Write: true})
			if err != nil || a.Mode != 0o640 {
				t.Errorf("%s creates in %s: %o, %v", who, row.place, a.Mode, err)
				continue
			}
			_, err = v.Write(nil, a.Node, []byte("x"), 0)
			w.ok(err, who+" writes what it made in "+row.place)
			d, err := v.Mkdir(nil, dir, "freshdir-"+who, 0o750)
			if err != nil || d.Mode != 0o750 {
				t.Errorf("%s mkdirs in %s: %o, %v", who, row.place, d.Mode, err)
			}
			_, err = v.Mkdir(nil, d.Node, "sub", 0o755)
			w.ok(err, who+" mkdirs in what it made in "+row.place)
			if got, err := w.gaia.Getattr(nil, a.Node); err != nil || got.Mode != 0o640 || got.Size != 1 {
				t.Errorf("gaia sees %+v, %v", got, err)
			}
		}
	}
}

// TestMovesThatShift: a directory that moves between places with other rules
// takes what is below with it; the mounts are told, since no node below changed.
func TestMovesThatShift(t *testing.T) {
	w := newWorld(t)
	k, other := &kernel{w: w}, &kernel{w: w}
	w.openWith(view.Options{Agent: "web", Observer: k})
	w.openWith(view.Options{Agent: "guest", Observer: other})
	notes, skills, home := w.node("/agents/web/notes"), w.node("/agents/web/skills"), w.node("/agents/web")
	work := w.mkdir("/agents/web/workspace")
	told := func(what string, vol backend.VolumeID, want bool) {
		t.Helper()
		r := k.takeRevoked()
		if (len(r) == 1 && len(r[0].Changed) == 1 && r[0].Changed[0] == vol && len(r[0].Gone)+len(r[0].Came) == 0) != want || !want && r != nil {
			t.Errorf("%s: told %+v", what, r)
		}
		if r := other.takeRevoked(); r != nil {
			t.Errorf("%s: who does not see it is told %+v", what, r)
		}
	}
	w.write("/agents/web/notes/d/f", "f")
	w.mkdir("/agents/web/workspace/a/d")
	w.ok(w.gaia.Rename(nil, notes, "d", skills, "d", 0), "rename")
	told("from notes to skills", home.Volume(), true)
	w.ok(w.gaia.Rename(nil, skills, "d", skills, "e", 0), "rename")
	told("within skills", home.Volume(), false)
	w.ok(w.gaia.Rename(nil, skills, "e", home, "memory2", 0), "rename")
	told("from skills to the home", home.Volume(), false)
	w.ok(w.gaia.Rename(nil, home, "memory2", home, "mcp", 0), "rename over an empty directory")
	told("from the home to mcp", home.Volume(), true)
	w.write("/agents/web/notes/f", "f")
	w.ok(w.gaia.Rename(nil, notes, "f", skills, "f", 0), "rename")
	told("a file", home.Volume(), false)
	a := w.node("/agents/web/workspace/a")
	w.ok(w.gaia.Rename(nil, a, "d", work, "d", 0), "rename")
	told("within the workspace", work.Volume(), false)
	w.settings(policy.Settings{Exceptions: []policy.NameException{{Name: ".env", Under: "/agents/web/workspace/a"}}})
	k.takeRevoked()
	other.takeRevoked()
	w.ok(w.gaia.Rename(nil, work, "d", a, "d", 0), "rename")
	told("where there are exceptions", work.Volume(), true)
}
