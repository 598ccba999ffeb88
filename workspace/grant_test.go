package workspace_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
	"github.com/warrenfs/warren/workspace"
)

// reads tells whether agent may read the file at path.
func (w *world) reads(t *testing.T, agent, path string) bool {
	t.Helper()
	v, err := w.space.Open(view.Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = v.ReadFile(path, -1)
	if err != nil && !errors.Is(err, backend.NotFound) {
		t.Errorf("%s reads %s: %v", agent, path, err)
	}
	return err == nil
}

const grantedFile = "/agents/web/workspace/site/f"

func grantWorld(t *testing.T) *world {
	w := newWorld(t)
	w.addSoul(t, "web")
	w.addSoul(t, "researcher")
	v, err := w.space.Open(view.Options{Agent: "web", UID: backend.OwnerID, GID: backend.OwnerID})
	if err == nil {
		err = v.MkdirAll("/agents/web/workspace/site", 0o755)
	}
	if err == nil {
		_, err = v.WriteFile(grantedFile, []byte("x"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.reg.Close)
	return w
}

func (w *world) grant(t *testing.T, g workspace.Grant, ttl time.Duration) workspace.Grant {
	t.Helper()
	if g.Agent == "" {
		g.Agent = "researcher"
	}
	if g.Path == "" {
		g.Path = "/agents/web/workspace/site/"
	}
	g.Right = "read"
	g, err := w.reg.AddGrant(t.Context(), g, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGrantUntilRevoked(t *testing.T) {
	w := grantWorld(t)
	if w.reads(t, "researcher", grantedFile) {
		t.Fatal("reads before it is granted")
	}
	g := w.grant(t, workspace.Grant{}, time.Hour)
	if g.Path != "/agents/web/workspace/site" {
		t.Errorf("granted on %s", g.Path)
	}
	if !w.reads(t, "researcher", grantedFile) {
		t.Fatal("does not read what is granted")
	}
	again := mustOpen(t, w.store.CrashClone(w.store.DurableLSN())) // as after a power cut
	t.Cleanup(again.reg.Close)
	if !again.reads(t, "researcher", grantedFile) {
		t.Error("does not read it after a restart")
	}
	if err := w.reg.RevokeGrant(t.Context(), g.ID); err != nil {
		t.Fatal(err)
	}
	if w.reads(t, "researcher", grantedFile) {
		t.Error("reads what is revoked")
	}
	if err := w.reg.RevokeGrant(t.Context(), g.ID); !errors.Is(err, backend.NotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	gone := mustOpen(t, w.store.CrashClone(w.store.DurableLSN()))
	t.Cleanup(gone.reg.Close)
	if gone.reads(t, "researcher", grantedFile) || len(gone.reg.Grants()) > 0 {
		t.Error("is back after a restart")
	}
}

// TestGrantExpires by itself, also while no daemon runs.
func TestGrantExpires(t *testing.T) {
	w := grantWorld(t)
	w.grant(t, workspace.Grant{}, 150*time.Millisecond)
	long := w.grant(t, workspace.Grant{Agent: "web", Path: "/agents/researcher/notes"}, time.Hour)
	asleep := w.store.CrashClone(w.store.DurableLSN())
	for end := waits.In(time.Minute); w.reads(t, "researcher", grantedFile); time.Sleep(5 * time.Millisecond) {
		if end.Passed() {
			t.Fatal("it does not expire")
		}
	}
	for end := waits.In(time.Minute); len(w.reg.Grants()) != 1; time.Sleep(5 * time.Millisecond) {
		if end.Passed() {
			t.Fatalf("there are %+v", w.reg.Grants())
		}
	}
	if got := w.reg.Grants()[0].ID; got != long.ID {
		t.Errorf("left is %s", got)
	}
	again := mustOpen(t, asleep)
	t.Cleanup(again.reg.Close)
	if again.reads(t, "researcher", grantedFile) {
		t.Error("what expired while no daemon ran is in force")
	}
}

// TestGrantRefused: what is no grant.
func TestGrantRefused(t *testing.T) {
	w := grantWorld(t)
	if _, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "conc", Role: policy.Shared}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		g    workspace.Grant
		ttl  time.Duration
		kind backend.Kind
	}{
		"nobody":      {workspace.Grant{Agent: "eve", Path: "/users/x", Right: "read"}, time.Hour, backend.NotFound},
		"shared":      {workspace.Grant{Agent: "conc", Path: "/agents/web", Right: "read"}, time.Hour, backend.Invalid},
		"everything":  {workspace.Grant{Agent: "researcher", Path: "/", Right: "read"}, time.Hour, backend.Invalid},
		"all agents":  {workspace.Grant{Agent: "researcher", Path: "/agents", Right: "read"}, time.Hour, backend.Invalid},
		"no path":     {workspace.Grant{Agent: "researcher", Path: "agents/web", Right: "read"}, time.Hour, backend.Invalid},
		"right":       {workspace.Grant{Agent: "researcher", Path: "/agents/web", Right: "own"}, time.Hour, backend.Invalid},
		"no time":     {workspace.Grant{Agent: "researcher", Path: "/agents/web", Right: "read"}, 0, backend.Invalid},
		"for ever":    {workspace.Grant{Agent: "researcher", Path: "/agents/web", Right: "read"}, 1 << 62, backend.Invalid},
		"odd letters": {workspace.Grant{Agent: "researcher", Path: "/agents/web/workspace/\xff", Right: "read"}, time.Hour, backend.Invalid},
	} {
		if _, err := w.reg.AddGrant(t.Context(), c.g, c.ttl); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", what, err, c.kind)
		}
	}
}

// TestGrantsGoWithAgents: to it, by it and in its tree.
func TestGrantsGoWithAgents(t *testing.T) {
	w := grantWorld(t)
	w.addSoul(t, "third")
	w.grant(t, workspace.Grant{}, time.Hour)
	w.grant(t, workspace.Grant{Agent: "web", Path: "/agents/researcher/notes"}, time.Hour)
	w.grant(t, workspace.Grant{By: "web", Path: "/agents/third"}, time.Hour)
	stays := w.grant(t, workspace.Grant{Path: "/agents/third"}, time.Hour)
	if err := w.reg.RemoveAgent(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if got := w.reg.Grants(); len(got) != 1 || got[0].ID != stays.ID {
		t.Errorf("left are %+v", got)
	}
	if got := w.space.Engine().Facts().Grants; len(got) != 1 {
		t.Errorf("in force are %+v", got)
	}
}

// TestSoulsGrantNeedsItsChild: what a soul gave holds while the agent is below it.
func TestSoulsGrantNeedsItsChild(t *testing.T) {
	w := grantWorld(t)
	parent, none := "web", ""
	if _, err := w.reg.SetAgent(t.Context(), "researcher", workspace.AgentChange{Parent: &parent}); err != nil {
		t.Fatal(err)
	}
	g := w.grant(t, workspace.Grant{By: "web"}, time.Hour)
	if !w.reads(t, "researcher", grantedFile) || !w.reg.InForce(g) {
		t.Error("a child does not read what its parent grants")
	}
	if _, err := w.reg.SetAgent(t.Context(), "researcher", workspace.AgentChange{Parent: &none}); err != nil {
		t.Fatal(err)
	}
	if w.reads(t, "researcher", grantedFile) || w.reg.InForce(g) {
		t.Error("the grant outlives what allowed it")
	}
}

// TestASoulUsesUpItsOwnGrants, and not those that others may give.
func TestASoulUsesUpItsOwnGrants(t *testing.T) {
	w := grantWorld(t)
	parent := "web"
	if _, err := w.reg.SetAgent(t.Context(), "researcher", workspace.AgentChange{Parent: &parent}); err != nil {
		t.Fatal(err)
	}
	g := workspace.Grant{Agent: "researcher", Path: "/agents/web/workspace/site", Right: "read", By: "web"}
	n := 0
	var err error
	for ; n < 200 && err == nil; n++ {
		_, err = w.reg.AddGrant(t.Context(), g, time.Hour)
	}
	if !errors.Is(err, backend.Quota) || n != 101 {
		t.Fatalf("number %d: %v", n, err)
	}
	g.By = ""
	if _, err := w.reg.AddGrant(t.Context(), g, time.Hour); err != nil {
		t.Errorf("the administrator: %v", err)
	}
}
