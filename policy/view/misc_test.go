package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// TestOwners: the mount's own user is "the owner" in every view.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	web := w.openWith(view.Options{Agent: "web", UID: 1000, GID: 1000})
	gaia := w.openWith(view.Options{Agent: "gaia", UID: 1001, GID: 1001})
	dir := w.node("/agents/web/workspace")
	owners := func(v *view.View, n backend.NodeID, uid, gid uint32) {
		t.Helper()
		a, err := v.Getattr(nil, n)
		if err != nil || a.UID != uid || a.GID != gid {
			t.Errorf("%s sees %d:%d, want %d:%d (%v)", v.Agent(), a.UID, a.GID, uid, gid, err)
		}
	}
	own, err := web.Mkdir(nil, dir, "own", 0o700)
	w.ok(err, "mkdir without a request")
	owners(web, own.Node, 1000, 1000)
	owners(gaia, own.Node, 1001, 1001)
	mine, err := web.Mkdir(&view.Request{UID: 1000, GID: 50}, dir, "mine", 0o700)
	w.ok(err, "mkdir as the mount's user")
	if mine.UID != 1000 || mine.GID != 50 {
		t.Errorf("answered %d:%d", mine.UID, mine.GID)
	}
	owners(gaia, mine.Node, 1001, 50)
	root, err := web.Mkdir(&view.Request{}, dir, "root", 0o700)
	w.ok(err, "mkdir as root")
	owners(web, root.Node, 0, 0)
	owners(gaia, root.Node, 0, 0)
	uid, gid := uint32(1000), uint32(1000)
	a, err := web.Setattr(nil, root.Node, backend.SetAttr{UID: &uid, GID: &gid})
	if err != nil || a.UID != 1000 || uid != 1000 {
		t.Errorf("chown to the mount's user: %+v, %v", a, err)
	}
	owners(gaia, root.Node, 1001, 1001)
	_, err = gaia.Setattr(nil, root.Node, backend.SetAttr{UID: &uid})
	w.ok(err, "chown to another's number")
	owners(gaia, root.Node, 1000, 1001)
	owners(web, root.Node, 1000, 1000)
}

func TestWarrenXattrs(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	start := time.Now().Add(-time.Second)
	dir := w.node("/agents/web/workspace")
	a, _, err := web.Create(nil, dir, "f", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = w.gaia.Write(nil, a.Node, []byte("x"), 0)
	w.ok(err, "write")
	get := func(what string) string {
		t.Helper()
		b, err := web.GetXattr(nil, a.Node, "user.warren."+what)
		w.ok(err, what)
		return string(b)
	}
	if p := get("path"); p != "/agents/web/workspace/f" {
		t.Errorf("path %q", p)
	}
	if c, m := get("created_by"), get("modified_by"); c != "web" || m != "gaia" { // who sees it too
		t.Errorf("created by %q, modified by %q", c, m)
	}
	if b, err := w.gaia.GetXattr(nil, a.Node, "user.warren.modified_by"); string(b) != "gaia" {
		t.Errorf("to gaia it is modified by %q, %v", b, err)
	}
	for _, what := range []string{"created_at", "modified_at"} {
		if at, err := time.Parse(time.RFC3339Nano, get(what)); err != nil || at.Before(start) || at.After(time.Now()) {
			t.Errorf("%s: %v, %v", what, at, err)
		}
	}
	if names, err := web.ListXattr(nil, a.Node); err != nil || len(names) != 0 {
		t.Errorf("listed: %v, %v", names, err)
	}
	for _, name := range []string{"user.warren.path", "user.warren.created_by", "user.warren.x"} {
		w.kind(web.SetXattr(nil, a.Node, name, []byte("x"), false, false), backend.NotPermitted, "set "+name)
		w.kind(w.gaia.RemoveXattr(nil, a.Node, name), backend.NotPermitted, "remove "+name)
	}
	for name, want := range map[string]backend.Kind{"user.warren.x": backend.NoData, "user.none": backend.NoData, "system.posix_acl_access": backend.Unsupported,
		"other.x": backend.Unsupported, "": backend.Invalid, "user." + longName: backend.Range} {
		_, err := web.GetXattr(nil, a.Node, name)
		w.kind(err, want, "get "+name)
	}
	for path, want := range map[string]string{"/": "/", "/agents": "/agents", "/agents/web": "/agents/web", "/agents/web/scratch": "/agents/web/scratch"} {
		b, err := web.GetXattr(nil, w.node(path), "user.warren.path")
		if err != nil || string(b) != want {
			t.Errorf("path of %s: %q, %v", path, b, err)
		}
		_, err = web.GetXattr(nil, w.node(path), "security.capability")
		w.kind(err, backend.NoData, "security.capability of "+path)
	}
	_, err = web.GetXattr(nil, w.node("/agents"), "user.warren.created_by")
	w.kind(err, backend.NoData, "provenance of /agents")
	if d := w.space.Denials("web"); len(d) != 0 {
		t.Errorf("reading attributes was refused: %v", d)
	}
}

// TestDenialsAreBounded: a loop of refusals counts, and a flood of different
// ones drops the oldest.
func TestDenialsAreBounded(t *testing.T) {
	w := newWorld(t)
	web, home := w.open("web"), w.node("/agents/web")
	for range 500 {
		w.kind(web.Unlink(nil, home, "soul.md"), backend.Denied, "unlink")
	}
	d := w.space.Denials("web")
	if len(d) != 1 || d[0].Count != 500 || d[0].Path != "/agents/web/soul.md" || d[0].Op != "unlink" || d[0].Agent != "" || time.Since(d[0].Time) > time.Minute {
		t.Fatalf("%+v", d)
	}
	for i := range 1500 {
		_, err := web.Mkdir(nil, home, fmt.Sprintf("d%d", i), 0o755)
		w.kind(err, backend.Denied, "mkdir")
	}
	w.kind(web.Unlink(nil, home, "soul.md"), backend.Denied, "unlink")
	d = w.space.Denials("web")
	if len(d) != 1000 || d[998].Path != "/agents/web/d1499" || d[999].Path != "/agents/web/soul.md" || d[999].Count != 1 {
		t.Errorf("%d kept, the last are %+v", len(d), d[len(d)-2:])
	}
	_, err := web.Mkdir(nil, w.node("/agents"), "guest", 0o755)
	w.kind(err, backend.Denied, "mkdir of what is hidden")
	_, err = web.Lookup(nil, w.node("/agents"), "guest")
	w.kind(err, backend.NotFound, "lookup of what is hidden")
	hidden := 0
	for _, x := range w.space.Denials("web") {
		if x.Op == "lookup" {
			t.Errorf("told of what is hidden: %+v", x)
		}
	}
	for _, x := range w.space.Denials("") {
		if x.Op == "lookup" && x.Agent == "web" && x.Path == "/agents/guest" {
			hidden++
		}
	}
	if hidden != 1 {
		t.Errorf("the administrator is told of it %d times", hidden)
	}
	if len(w.space.Denials("guest")) != 0 {
		t.Error("another agent is told")
	}
	deep := "/agents/web/skills"
	for range 20 {
		deep += "/" + strings.Repeat("d", 200)
	}
	n := w.mkdir(deep)
	_, err = web.Mkdir(nil, n, "x", 0o755)
	w.kind(err, backend.Denied, "mkdir deep down")
	d = w.space.Denials("web")
	if last := d[len(d)-1]; len(last.Path) > 1100 || !strings.HasPrefix(last.Path, "/agents/web/skills/dd") {
		t.Errorf("a path of %d bytes is kept", len(last.Path))
	}
}

// TestExplainAgrees: what is explained is what happens.
func TestExplainAgrees(t *testing.T) {
	w := newWorld(t)
	for i, row := range rights {
		s := w.stage(row.place, i)
		dir, err := w.gaia.Path(s.dir)
		w.ok(err, "path")
		for who, have := range row.who {
			if strings.Contains(who, " ") {
				continue
			}
			for action, letter := range map[policy.Action]string{policy.See: "s", policy.Read: "r", policy.Write: "w", policy.Create: "c", policy.Remove: "d"} {
				path := dir + "/f"
				if action == policy.Create {
					path = dir + "/new"
				}
				x, err := w.space.Explain(who, action, path)
				if want := strings.Contains(have, letter); err != nil || x.Allow != want {
					t.Errorf("%s %v %s: %+v, %v; want %v", who, action, path, x, err, want)
				} else if want && len(x.Rules) == 0 {
					t.Errorf("%s %v %s: allowed by nothing", who, action, path)
				}
			}
		}
	}
	for _, c := range []struct {
		agent  string
		action policy.Action
		path   string
		allow  bool
		rule   policy.RuleID
	}{
		{"web", policy.See, "/", true, "root-directory"},
		{"web", policy.See, "/users", true, "user-space"},
		{"kid", policy.See, "/users", false, ""},
		{"gaia", policy.See, "/users", true, "orchestrator"},
		{"gaia", policy.Create, "/projects/new", true, "orchestrator"},
		{"gaia", policy.Create, "/users/new", false, "registry-only"},
		{"web", policy.Create, "/agents/web/workspace/.env", false, "deny-names"},
		{"web", policy.Create, "/agents/web/x", false, ""},
		{"web", policy.Remove, "/agents/web/session.md", false, ""},
		{"web", policy.Write, "/agents/web/session.md", true, "own-session"},
		{"none", policy.See, "/agents/none/workspace", false, "access/none"},
	} {
		x, err := w.space.Explain(c.agent, c.action, c.path)
		if err != nil || x.Allow != c.allow || (c.rule == "") != (len(x.Rules) == 0) || c.rule != "" && x.Rules[0].ID != c.rule {
			t.Errorf("%s %v %s: %+v, %v", c.agent, c.action, c.path, x, err)
		}
	}
	_, err := w.space.Explain("nobody", policy.See, "/")
	w.kind(err, backend.NotFound, "unknown agent")
	_, err = w.space.Explain("web", policy.See, "/agents/web/workspace/nope")
	w.kind(err, backend.NotFound, "nothing there")
	_, err = w.space.Explain("web", policy.See, "x")
	w.kind(err, backend.Invalid, "relative path")
}

// TestEnsureVolumeAgain: it may be called again, changes nothing then, and
// refuses what has no place.
func TestEnsureVolumeAgain(t *testing.T) {
	w := newWorld(t)
	home := w.node("/agents/web")
	w.write("/agents/web/soul.md", "changed")
	w.ok(w.gaia.Unlink(nil, home, "config.toml"), "unlink")
	if id := w.volume(view.KindHome, "web", stock()...); id != home.Volume() {
		t.Error("another volume was made")
	}
	if text, _, err := w.gaia.ReadFile("/agents/web/soul.md", -1); err != nil || string(text) != "changed" {
		t.Errorf("soul.md: %q, %v", text, err)
	}
	if a, err := w.gaia.Resolve("/agents/web/config.toml"); err != nil || a.Size != 0 || a.Mode != 0o644 {
		t.Errorf("config.toml: %+v, %v", a, err)
	}
	for label, want := range map[view.Label]backend.Kind{
		{Kind: view.KindWorkspace, Owner: "ghost"}: backend.NotFound,
		{Kind: view.KindHome, Owner: ""}:           backend.Invalid,
		{Kind: view.KindHome, Owner: "a/b"}:        backend.Invalid,
		{Kind: 99, Owner: "x"}:                     backend.Invalid,
	} {
		_, err := w.space.EnsureVolume(t.Context(), view.VolumeSpec{Label: label})
		w.kind(err, want, fmt.Sprint(label))
	}
	w.kind(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindHome, Owner: "web"}), backend.Busy, "remove a home with volumes in it")
	w.ok(w.space.RemoveVolume(t.Context(), view.Label{Kind: view.KindUser, Owner: "nobody"}), "remove what is not there")
}

// TestAgentGone: the view of an agent that was removed shows nothing.
func TestAgentGone(t *testing.T) {
	w := newWorld(t)
	v := w.open("we")
	n := w.node("/agents/we/workspace")
	_, err := v.Getattr(nil, n)
	w.ok(err, "getattr")
	delete(w.facts.Agents, "we")
	w.publish()
	for _, op := range operations {
		if err := op.do(v, scene{n, n, n, n}); err != backend.NotFound {
			t.Errorf("%s: %v", op.name, err)
		}
	}
	if list, err := v.List(nil, v.Root()); err != nil || len(list) != 0 {
		t.Errorf("/: %v, %v", list, err)
	}
	if v.Access() != view.None || v.Role() != "" || v.User() != "" {
		t.Errorf("%v %q %q", v.Access(), v.Role(), v.User())
	}
}

// TestWarmCallsAllocateLittle: the hot calls of a warm cache.
func TestWarmCallsAllocateLittle(t *testing.T) {
	w := newWorld(t)
	s := w.stage("/agents/web/workspace", 0)
	home := w.node("/agents/web/notes")
	note := w.write("/agents/web/notes/n", "0123456789")
	v := w.openWith(view.Options{Agent: "web", UID: 1000, GID: 1000, Observer: silent{}})
	r := &view.Request{UID: 1000, GID: 1000}
	buf := make([]byte, 4)
	for name, c := range map[string]struct {
		most float64
		do   func()
	}{
		"lookup":         {0, func() { v.Lookup(r, s.dir, "f") }},
		"lookup in home": {0, func() { v.Lookup(r, home, "n") }},
		"lookup nothing": {0, func() { v.Lookup(r, s.dir, "nope") }},
		"getattr":        {0, func() { v.Getattr(r, note) }},
		"open":           {0, func() { v.Open(r, s.file, view.OpenFlags{Read: true}) }},
	} {
		if n := testing.AllocsPerRun(500, c.do); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", name, n, c.most)
		}
	}
	if n, err := v.Read(r, s.file, buf, 0); n != 4 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
}

type silent struct{}

func (silent) Entry(backend.NodeID, string, *backend.Attr) {}
func (silent) Negative(backend.NodeID, string)             {}
func (silent) Attr(*backend.Attr)                          {}
func (silent) Listing(backend.NodeID)                      {}
func (silent) Opened(*backend.Attr, bool)                  {}

func BenchmarkWarm(b *testing.B) {
	w := newWorld(b)
	s := w.stage("/agents/web/workspace", 0)
	v := w.openWith(view.Options{Agent: "web", Observer: silent{}})
	buf := make([]byte, 4)
	for name, do := range map[string]func(){
		"lookup":  func() { v.Lookup(nil, s.dir, "f") },
		"getattr": func() { v.Getattr(nil, s.file) },
		"open":    func() { v.Open(nil, s.file, view.OpenFlags{Read: true}) },
		"read":    func() { v.Read(nil, s.file, buf, 0) },
		"write":   func() { v.Write(nil, s.file, buf, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

// TestDenialsOfAReusedKey: who gets the key of an agent that was removed is told
// nothing of what that one was refused.
func TestDenialsOfAReusedKey(t *testing.T) {
	w := newWorld(t)
	v := w.open("we")
	_, err := v.WriteFile("/agents/we/workspace/.env", []byte("x"), 0o600)
	w.kind(err, backend.Denied, "a denied name")
	if got := w.space.Denials("we"); len(got) != 1 {
		t.Fatalf("the old one is told %v", got)
	}
	we := w.facts.Agents["we"]
	delete(w.facts.Agents, "we")
	w.publish()
	_, err = v.WriteFile("/agents/we/workspace/.env", []byte("x"), 0o600)
	w.kind(err, backend.NotFound, "the agent is gone")
	w.facts.Agents["we"] = we
	w.publish()
	if got := w.space.Denials("we"); len(got) != 0 {
		t.Errorf("the new one is told %v", got)
	}
	if got := w.space.Denials(""); len(got) == 0 {
		t.Error("the administrator is told nothing any more")
	}
}

// TestDenialsBelowTheRoot: who is shown a part of an agent's tree is told of no
// refusal outside it.
func TestDenialsBelowTheRoot(t *testing.T) {
	w := newWorld(t)
	w.mkdir("/agents/web/workspace/part")
	w.mkdir("/agents/web/workspace/particular")
	v := w.open("web")
	for _, dir := range []string{"", "part/", "particular/"} {
		_, err := v.WriteFile("/agents/web/workspace/"+dir+".env", []byte("x"), 0o600)
		w.kind(err, backend.Denied, "a denied name")
	}
	if got := v.Denials(); len(got) != 3 {
		t.Errorf("all of it: %v", got)
	}
	part := w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/part"})
	if got := part.Denials(); len(got) != 1 || got[0].Path != "/agents/web/workspace/part/.env" {
		t.Errorf("a part: %v", got)
	}
}
