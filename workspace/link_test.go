package workspace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/workspace"
)

// link makes a symlink as an agent, in place of what is there.
func (h *house) link(agent, path, target string) {
	h.t.Helper()
	v := h.as(agent)
	if _, there := v.Sees(path); there {
		h.ok(v.Remove(path, false))
	}
	dir, name, err := v.ResolveParent(path)
	h.ok(err)
	_, err = v.Symlink(nil, dir.Node, name, target)
	h.ok(err)
}

// text is what an agent finds at a path.
func (h *house) text(agent, path string) string {
	h.t.Helper()
	b, _, err := h.as(agent).ReadFile(path, -1)
	h.ok(err)
	return string(b)
}

// TestItemsFollowNoLink: a link that another agent of the user made, to what only
// the asker may reach, leads neither reading, nor writing, nor publishing there.
func TestItemsFollowNoLink(t *testing.T) {
	h := newHouse(t)
	const own = "/agents/web/workspace/own"
	h.write("web", own, "secret")
	h.link("mate", "/users/ada/list", "/warren"+own)
	web := h.as("web")
	_, err := h.layer.ReadItem(web, "list")
	h.is(err, backend.Invalid, "read")
	_, err = h.layer.WriteItem(web, "list", "x")
	h.is(err, backend.Invalid, "write")
	_, err = h.layer.Publish(web, workspace.Publication{Key: "list", Target: "hall"})
	h.is(err, backend.Invalid, "publish")
	items, err := h.layer.Items(web)
	if err != nil || len(items) != 1 || items[0].Type != "symlink" || items[0].Preview != "" {
		t.Errorf("list: %+v, %v", items, err)
	}
	if got := h.text("web", own); got != "secret" {
		t.Errorf("the file that the link leads to has %q", got)
	}
	if got := h.keys("hall"); got != "" {
		t.Errorf("published: %s", got)
	}
	h.ok(h.layer.DeleteItem(web, "list"))
	if got := h.text("web", own); got != "secret" {
		t.Errorf("the file that the link led to has %q", got)
	}
	// By path, a link of one's own is followed as everywhere.
	h.link("web", "/agents/web/workspace/link", "own")
	key, err := h.layer.Publish(web, workspace.Publication{Path: "/agents/web/workspace/link", Target: "hall"})
	h.ok(err)
	if got := h.text("hall", "/agents/hall/workspace/"+key); got != "secret" {
		t.Errorf("published by path: %q", got)
	}
}

// TestSessionsFollowNoLink: a link in a device's workspace leads the orchestrator
// that works there to nothing else.
func TestSessionsFollowNoLink(t *testing.T) {
	h := newHouse(t)
	w, err := h.reg.CreateWorkspace(t.Context(), "telly", "")
	h.ok(err)
	_, err = h.reg.AddGrant(t.Context(), workspace.Grant{Agent: "lone", Path: w.Path(), Right: "write"}, time.Hour)
	h.ok(err)
	const own = "/agents/web/workspace/own"
	for what, text := range map[string]string{"text": "secret", "empty": "", "a session": "---\nprovider: secret\n---\n"} {
		h.write("web", own, text)
		h.link("lone", w.Path()+"/session.md", "/warren"+own)
		gaia := h.as("gaia")
		got, err := h.layer.ReadSession(t.Context(), gaia, w.UUID)
		if err != nil || got.Warning == "" || got.Provider != "" {
			t.Errorf("%s: read: %+v, %v", what, got, err)
		}
		_, err = h.layer.AppendSession(t.Context(), gaia, w.UUID, workspace.Message{Role: "user", Text: "x"})
		h.is(err, backend.Conflict, what+": append")
		if got, err := h.layer.NewSession(t.Context(), gaia, w.UUID, "p", "m"); err != nil || got.Warning == "" {
			t.Errorf("%s: new: %+v, %v", what, got, err)
		}
		_, err = h.layer.ClearSession(t.Context(), gaia, w.UUID)
		h.is(err, backend.Invalid, what+": clear")
		if got := h.text("web", own); got != text {
			t.Errorf("%s: the file that the link leads to has %q", what, got)
		}
	}
	h.write("web", own, "provider = \"secret\"\n")
	h.ok(h.as("lone").Remove(w.Path()+"/session.md", false))
	h.link("lone", w.Path()+"/config.toml", "/warren"+own)
	got, err := h.layer.NewSession(t.Context(), h.as("gaia"), w.UUID, "", "")
	if err != nil || got.Provider != "" {
		t.Errorf("with a configuration that is a link: %+v, %v", got, err)
	}
	if text := h.text("lone", w.Path()+"/session.md"); strings.Contains(text, "secret") {
		t.Errorf("the session tells of it: %q", text)
	}
}

// TestGitFactsFollowNoLink: what a repository in a shared project tells is in the
// project, so that no link of a member makes another write down what only that one
// may read.
func TestGitFactsFollowNoLink(t *testing.T) {
	h := newFedHouse(t)
	const sha, own = "0123456789abcdef0123456789abcdef01234567", "/agents/web/workspace/key"
	h.write("web", own, sha)
	mate := h.as("mate")
	h.ok(mate.MkdirAll("/projects/site/.git/refs/heads", 0o755))
	h.write("mate", "/projects/site/.git/HEAD", sha)
	web := h.as("web")
	facts := func() string {
		t.Helper()
		p, err := h.layer.ProjectDir(web, "/projects/site")
		h.ok(err)
		return h.layer.Git(web, p).Head
	}
	if got := facts(); got != sha {
		t.Fatalf("HEAD without a link: %q", got)
	}
	h.link("mate", "/projects/site/.git/HEAD", "/warren"+own)
	if got := facts(); got != "" {
		t.Errorf("HEAD through a link: %q", got)
	}
	h.ok(mate.Remove("/projects/site/.git/HEAD", false))
	h.write("mate", "/projects/site/.git/HEAD", "ref: refs/heads/key\n")
	h.ok(mate.Remove("/projects/site/.git/refs/heads", true))
	h.link("mate", "/projects/site/.git/refs/heads", "/warren/agents/web/workspace")
	if got := facts(); got != "" {
		t.Errorf("a ref through a link: %q", got)
	}
}
