package workspace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

// may tells whether agent may do a at path, as far as there is something.
func (w *world) may(t *testing.T, agent string, a policy.Action, path string) bool {
	t.Helper()
	x, err := w.space.Explain(agent, a, path)
	if err != nil && !errors.Is(err, backend.NotFound) {
		t.Fatal(err)
	}
	return err == nil && x.Allow
}

func (w *world) mode(t *testing.T, agent, mode string) error {
	t.Helper()
	_, err := w.reg.SetAgent(t.Context(), agent, workspace.AgentChange{Mode: &mode})
	return err
}

// TestModes: what each gives a soul below another.
func TestModes(t *testing.T) {
	w := grantWorld(t) // web has a workspace with site/f
	parent := "web"
	if _, err := w.reg.SetAgent(t.Context(), "researcher", workspace.AgentChange{Parent: &parent}); err != nil {
		t.Fatal(err)
	}
	const own, theirs, home, scratch = "/agents/researcher/workspace", "/agents/web/workspace/site/f", "/agents/researcher/notes", "/agents/researcher/scratch"
	for mode, want := range map[string]string{ // reads theirs, writes theirs, reads own, writes own, writes notes, writes scratch
		"own": "--rwnx", "inherit": "RWrwnx", "inherit-ro": "R-rwnx", "home-only": "-----x",
		"mapped /agents/web/workspace/site:ro":                               "R-rwnx",
		"mapped /agents/web/workspace/site/f:rw /agents/web/notes:ro":        "RWrwnx",
		"mapped /agents/web/workspace/sit:rw /agents/web/workspace/site2:ro": "--rwnx",
	} {
		if err := w.mode(t, "researcher", mode); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, c := range []struct {
			letter string
			a      policy.Action
			path   string
		}{{"R", policy.Read, theirs}, {"W", policy.Write, theirs}, {"r", policy.See, own}, {"w", policy.Create, own}, {"n", policy.Create, home}, {"x", policy.Create, scratch}} {
			if w.may(t, "researcher", c.a, c.path) {
				got += c.letter
			} else {
				got += "-"
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
	if err := w.mode(t, "researcher", "inherit"); err != nil {
		t.Fatal(err)
	}
	if names := w.names(t, "researcher", "/agents/web"); strings.Join(names, " ") != "workspace" {
		t.Errorf("of its parent's home it sees %v", names)
	}
	ro := "ro"
	if _, err := w.reg.SetAgent(t.Context(), "web", workspace.AgentChange{Access: &ro}); err != nil {
		t.Fatal(err)
	}
	if w.may(t, "researcher", policy.Write, theirs) || !w.may(t, "researcher", policy.Read, theirs) {
		t.Error("it may write what its parent may not")
	}
	if text := w.space.Engine().Show("researcher"); !strings.Contains(text, "the agent's mode gives it /agents/web/workspace") {
		t.Errorf("the policy of the mode is not shown: %s", text)
	}
}

// TestModesRefused: what is none.
func TestModesRefused(t *testing.T) {
	w := grantWorld(t)
	if _, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "gaia", Role: policy.Orchestrator}); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"all", "inherit", "inherit-ro", "own now", "mapped", "mapped x:ro", "mapped /agents:ro", "mapped /agents/web:rx",
		"mapped /agents/web", "home-only /x:ro"} {
		if err := w.mode(t, "researcher", mode); !errors.Is(err, backend.Invalid) {
			t.Errorf("%q: %v", mode, err)
		}
	}
	if err := w.mode(t, "gaia", "home-only"); !errors.Is(err, backend.Invalid) {
		t.Errorf("an orchestrator's: %v", err)
	}
}

// TestMappedTreeIsRemoved: who gets the key later is not what was mapped.
func TestMappedTreeIsRemoved(t *testing.T) {
	w := grantWorld(t)
	w.addSoul(t, "third")
	if err := w.mode(t, "researcher", "mapped /agents/web/workspace:rw /agents/third/notes:ro"); err != nil {
		t.Fatal(err)
	}
	if err := w.reg.RemoveAgent(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	w.addSoul(t, "web")
	if w.may(t, "researcher", policy.See, "/agents/web/workspace") {
		t.Error("it sees the tree of a new agent with the old one's key")
	}
	if a, err := w.reg.Agent("researcher"); err != nil || a.Mode != "mapped /agents/third/notes:ro" {
		t.Errorf("left is %q (%v)", a.Mode, err)
	}
}
