package workspace_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// TestResolveBindsOnce, however many ask at the same time, and whatever the id
// looks like.
func TestResolveBindsOnce(t *testing.T) {
	h := newHouse(t)
	for _, id := range []string{"phone", "../../etc", "a\"b = c", "/", "é 日"} {
		var mu sync.Mutex
		seen, made := map[string]bool{}, 0
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				w, created, err := h.reg.ResolveDevice(t.Context(), id)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if seen[w.UUID] = true; created {
					made++
				}
			}()
		}
		wg.Wait()
		if len(seen) != 1 || made != 1 {
			t.Errorf("%q: %v, made %d times", id, seen, made)
		}
	}
	for _, id := range []string{"", "a\nb", "\xff", strings.Repeat("x", 257)} {
		_, _, err := h.reg.ResolveDevice(t.Context(), id)
		h.is(err, backend.Invalid, fmt.Sprintf("%.20q", id))
	}
	before := h.reg.Devices()
	h.reopen(time.Now)
	if after := h.reg.Devices(); len(after) != 5 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("after a restart: %v; before: %v", after, before)
	}
}

// TestWorkspacesComeAndGo: made with what stands in them, changed, removed with
// their bindings; the default one and those of agents stay.
func TestWorkspacesComeAndGo(t *testing.T) {
	h := newHouse(t)
	w, err := h.reg.CreateWorkspace(t.Context(), "project-x", "claude")
	h.ok(err)
	if got := strings.Join(h.names(t, "gaia", w.Path()), " "); got != "config.toml mcp memory session.md skills" {
		t.Errorf("it has %s", got)
	}
	_, err = h.reg.BindDevice(t.Context(), "phone", w.UUID)
	h.ok(err)
	agent, err := h.reg.WorkspaceOf("web")
	h.ok(err)
	_, err = h.reg.BindDevice(t.Context(), "phone", agent.UUID)
	h.is(err, backend.Invalid, "bound to an agent's")
	name := "web's"
	_, err = h.layer.SetWorkspace(t.Context(), h.as("web"), agent.UUID, &name, nil)
	h.ok(err)
	_, err = h.layer.SetWorkspace(t.Context(), h.as("mate"), agent.UUID, &name, nil)
	h.is(err, backend.NotFound, "another's workspace")
	h.is(h.reg.DeleteWorkspace(t.Context(), agent.UUID, time.Time{}), backend.Invalid, "an agent's")
	h.is(h.reg.DeleteWorkspace(t.Context(), workspace.DefaultWorkspace, time.Time{}), backend.Invalid, "the default one")
	h.is(h.reg.DeleteWorkspace(t.Context(), w.UUID, w.Accessed.Add(-time.Hour)), backend.Conflict, "one that was used meanwhile")
	h.reopen(time.Now)
	if again, err := h.reg.WorkspaceOf("web"); err != nil || again.UUID != agent.UUID || again.Name != name {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
	h.ok(h.reg.DeleteWorkspace(t.Context(), w.UUID, time.Time{}))
	if _, seen := h.as("gaia").Sees(w.Path()); seen || len(h.reg.Devices()) != 0 {
		t.Errorf("removed, and there is still something of it: %v", h.reg.Devices())
	}
	h.ok(h.reg.RemoveAgent(t.Context(), "kid"))
	h.ok(h.reg.RemoveAgent(t.Context(), "web"))
	_, err = h.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "web"})
	h.ok(err)
	if again, err := h.reg.WorkspaceOf("web"); err != nil || again.UUID == agent.UUID || again.Name == name {
		t.Errorf("a new agent has an old one's workspace: %+v, %v", again, err)
	}
	h.reopen(time.Now)
	for _, v := range []string{"guest", "hall", "lone"} {
		for _, w := range h.layer.SeenWorkspaces(h.as(v)) {
			if w.Kind == workspace.KindDevice || w.Kind == workspace.KindAgent && w.Owner != v {
				t.Errorf("%s sees %+v", v, w)
			}
		}
	}
}

// TestCollect takes what was neither mounted, nor accessed, nor written for so
// long, and never the default workspace.
func TestCollect(t *testing.T) {
	h := newHouse(t)
	clock := time.Now()
	h.reopen(func() time.Time { return clock })
	rooms := map[string]workspace.Workspace{}
	for _, name := range []string{"old", "mounted", "session", "bound"} {
		w, err := h.reg.CreateWorkspace(t.Context(), name, "")
		h.ok(err)
		rooms[name] = w
	}
	collect := func(agent string, days int, dry bool) string {
		t.Helper()
		gone, err := h.layer.Collect(t.Context(), h.as(agent), days, dry, func(path string) bool { return path == "/workspaces/"+rooms["mounted"].UUID })
		h.ok(err)
		var out []string
		for _, w := range gone {
			out = append(out, w.Name)
		}
		return strings.Join(out, " ")
	}
	if got := collect("gaia", 90, false); got != "" {
		t.Errorf("new ones: %s", got)
	}
	clock = clock.Add(91 * 24 * time.Hour)
	_, err := h.layer.AppendSession(t.Context(), h.as("gaia"), rooms["session"].UUID, workspace.Message{Role: "user", Text: "x"})
	h.ok(err)
	_, err = h.reg.BindDevice(t.Context(), "phone", rooms["bound"].UUID)
	h.ok(err)
	if got := collect("gaia", 90, true); got != "old" {
		t.Errorf("dry: %s", got)
	}
	if _, seen := h.as("gaia").Sees(rooms["old"].Path()); !seen {
		t.Error("a dry run removes")
	}
	if got := collect("web", 90, false); got != "" {
		t.Errorf("a soul collects %s", got)
	}
	if got := collect("gaia", 90, false) + collect("gaia", 90, false); got != "old" {
		t.Errorf("collected: %s", got)
	}
	if _, seen := h.as("gaia").Sees(rooms["old"].Path()); seen {
		t.Error("collected, and still there")
	}
	if _, seen := h.as("gaia").Sees("/workspaces/default"); !seen {
		t.Error("the default workspace is gone")
	}
}

// TestCollectLooksAtWrites: what was written lately stays, however long nobody
// opened it by the registry.
func TestCollectLooksAtWrites(t *testing.T) {
	h := newHouse(t)
	past := time.Now().Add(-200 * 24 * time.Hour)
	h.reopen(func() time.Time { return past })
	w, err := h.reg.CreateWorkspace(t.Context(), "x", "") // its files are of today
	h.ok(err)
	h.reopen(time.Now)
	gone, err := h.layer.Collect(t.Context(), h.as("gaia"), 90, false, func(string) bool { return false })
	if err != nil || len(gone) != 0 {
		t.Errorf("%v, %v", gone, err)
	}
	if _, err := h.reg.Workspace(w.UUID); err != nil {
		t.Error(err)
	}
}

// TestWorkspaceFile: name and provider can be changed, the rest not, and by
// nobody who may not write there.
func TestWorkspaceFile(t *testing.T) {
	h := newHouse(t)
	w, err := h.reg.CreateWorkspace(t.Context(), "x", "claude")
	h.ok(err)
	b, err := h.layer.WorkspaceFile(h.as("gaia"), w.UUID)
	h.ok(err)
	text := string(b)
	for _, line := range []string{`uuid = "` + w.UUID + `"`, `name = "x"`, `kind = "device"`, "created_at = ", "last_accessed = ", `provider = "claude"`} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	set := func(agent, text string) error {
		return h.layer.SetWorkspaceFile(t.Context(), h.as(agent), w.UUID, []byte(text))
	}
	for what, c := range map[string]struct {
		text string
		kind backend.Kind
	}{
		"another uuid": {strings.Replace(text, w.UUID, "default", 1), backend.Denied}, "another kind": {strings.Replace(text, "device", "agent", 1), backend.Denied},
		"another time": {strings.Replace(text, "created_at = 2", "created_at = 3", 1), backend.Denied}, "no name": {strings.Replace(text, "name", "#name", 1), backend.Invalid},
		"an empty name": {strings.Replace(text, `"x"`, `""`, 1), backend.Invalid}, "a new key": {text + "x = 1\n", backend.Invalid}, "no TOML": {"=", backend.Invalid},
	} {
		h.is(set("gaia", c.text), c.kind, what)
	}
	h.is(set("web", text), backend.NotFound, "a soul")
	h.ok(set("gaia", text))
	h.ok(set("gaia", "name = \"y\"\n"))
	if got, err := h.reg.Workspace(w.UUID); err != nil || got.Name != "y" || got.Provider != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSessions: two appenders at once.
func TestSessions(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			v, err := h.space.Open(view.Options{Agent: "web", UID: backend.OwnerID, GID: backend.OwnerID})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 40 {
				text := strings.Repeat(fmt.Sprintf("## User %d.%d\n", n, i), 20)
				if _, err := h.layer.AppendSession(ctx, v, "", workspace.Message{Role: "Assistant", Text: text}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	s, err := h.layer.ReadSession(ctx, h.as("web"), "")
	if err != nil || s.Warning != "" || len(s.Messages) != 80 {
		t.Fatalf("%d messages, %q, %v", len(s.Messages), s.Warning, err)
	}
	next := [2]int{}
	for _, m := range s.Messages {
		var n, i int
		if _, err := fmt.Sscanf(m.Text, "## User %d.%d\n", &n, &i); err != nil || i != next[n] || m.Text != strings.Repeat(fmt.Sprintf("## User %d.%d\n", n, i), 20) {
			t.Fatalf("message %.60q, %v", m.Text, err)
		}
		next[n]++
	}
}

// TestSessionsAreKept: what is refused, a file that is corrupt, sessions that are
// not one's own.
func TestSessionsAreKept(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	const path = "/agents/web/session.md"
	s, err := h.layer.NewSession(ctx, h.as("web"), "", "claude", "")
	h.ok(err)
	for _, m := range []workspace.Message{{Role: "tool", Text: "x"}, {Role: "", Text: "x"}, {Role: "user", Text: "\xff"}, {Role: "user", Text: "a\x00"}} {
		_, err := h.layer.AppendSession(ctx, h.as("web"), "", m)
		h.is(err, backend.Invalid, fmt.Sprintf("%+v", m))
	}
	created := s.Created
	s, err = h.layer.ClearSession(ctx, h.as("web"), "")
	if err != nil || len(s.Messages) != 0 || !s.Created.Equal(created) {
		t.Errorf("cleared: %+v, %v", s, err)
	}
	s, err = h.layer.NewSession(ctx, h.as("web"), "", "gemini", "flash")
	if err != nil || s.Provider != "gemini" || s.Model != "flash" {
		t.Errorf("%+v, %v", s, err)
	}
	h.write("web", path, "garbage\n")
	s, err = h.layer.ReadSession(ctx, h.as("web"), "")
	if err != nil || s.Warning == "" || len(s.Messages) != 0 {
		t.Errorf("corrupt: %+v, %v", s, err)
	}
	_, err = h.layer.AppendSession(ctx, h.as("web"), "", workspace.Message{Role: "user", Text: "x"})
	h.is(err, backend.Conflict, "added to a corrupt one")
	if _, err = h.layer.NewSession(ctx, h.as("web"), "", "p", "m"); err != nil {
		t.Error(err)
	}
	if b, _, err := h.as("web").ReadFile(path, -1); err != nil || string(b) != "garbage\n" {
		t.Errorf("a corrupt file was changed: %q, %v", b, err)
	}
	h.write("web", path, "---\nmodel: m\n---\n\n## User\n\nno newline at the end")
	_, err = h.layer.AppendSession(ctx, h.as("web"), "", workspace.Message{Role: "system", Text: "x"})
	h.ok(err)
	if s, err = h.layer.ReadSession(ctx, h.as("web"), ""); err != nil || len(s.Messages) != 2 || s.Messages[0].Text != "no newline at the end" {
		t.Errorf("%+v, %v", s, err)
	}
	web, err := h.reg.WorkspaceOf("web")
	h.ok(err)
	hidden := ""
	for _, uuid := range []string{"nothing", "default", web.UUID} {
		_, err := h.layer.ReadSession(ctx, h.as("guest"), uuid)
		if h.is(err, backend.NotFound, uuid); err == nil {
			continue
		}
		text := strings.ReplaceAll(err.Error(), uuid, "X")
		if hidden != "" && text != hidden {
			t.Errorf("%q, of another: %q", text, hidden)
		}
		hidden = text
	}
	if s, err := h.layer.ReadSession(ctx, h.as("gaia"), web.UUID); err != nil || len(s.Messages) != 2 {
		t.Errorf("the orchestrator reads: %+v, %v", s, err)
	}
	if _, err := h.layer.ReadSession(ctx, h.as("gaia"), "default"); errors.Is(err, backend.NotFound) {
		t.Error(err)
	}
}
