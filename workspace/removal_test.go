package workspace_test

import (
	"errors"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

// TestExceptionsGoWithWhatTheyAreUnder: whoever gets the key next does not
// inherit them. Others stay, also after a restart.
func TestExceptionsGoWithWhatTheyAreUnder(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.addSoul(t, "a")
	w.addSoul(t, "ab")
	if _, err := w.reg.AddUser(ctx, "ada", "", ""); err != nil {
		t.Fatal(err)
	}
	for _, under := range []string{"/agents/a", "/agents/a/workspace/x", "/agents/ab", "/users/ada", "/agents"} {
		if err := w.reg.AllowName(ctx, workspace.NameException{Name: ".env", Under: under}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.reg.RemoveAgent(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.reg.RemoveUser(ctx, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, reg := range []*workspace.Registry{w.reg, mustOpen(t, w.store.CrashClone(0)).reg} {
		left := reg.Settings().Exceptions
		if len(left) != 2 || left[0].Under != "/agents/ab" || left[1].Under != "/agents" {
			t.Errorf("left: %v", left)
		}
	}
}

// TestSharedAgentsAreNoMembers of projects: they would see nothing of them.
func TestSharedAgentsAreNoMembers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.reg.AddAgent(ctx, workspace.AgentSpec{Key: "hall", Role: policy.Shared}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reg.CreateProject(ctx, "site", map[string]string{"hall": "read"}); !errors.Is(err, backend.Invalid) {
		t.Errorf("made with one: %v", err)
	}
	if _, err := w.reg.CreateProject(ctx, "site", nil); err != nil {
		t.Fatal(err)
	}
	if p, err := w.reg.SetMember(ctx, "site", "hall", "write"); !errors.Is(err, backend.Invalid) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := w.reg.SetMember(ctx, "site", "hall", ""); err != nil {
		t.Errorf("taking away what an older version gave: %v", err)
	}
}

// TestDotsAreNoPattern for a file's name.
func TestDotsAreNoPattern(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".", ".."} {
		err := w.reg.AllowName(t.Context(), workspace.NameException{Name: name, Under: "/"})
		if !errors.Is(err, backend.Invalid) || err.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.reg.DisallowName(t.Context(), workspace.NameException{Name: name, Under: "/"}); !errors.Is(err, backend.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
