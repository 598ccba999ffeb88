package workspace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
)

const noScratch = `@id("quiet")
@reason("scratch is closed today")
@match("web write scratch:web")
@not_match("web write workspace:web; researcher write scratch:researcher")
forbid (principal == Agent::"web", action in Action::"mutate", resource)
when { resource.zone == "scratch" };
`

// TestPolicyFileTakesEffect, comes back after a restart, and goes.
func TestPolicyFileTakesEffect(t *testing.T) {
	w := grantWorld(t)
	may := func(w *world) bool {
		x, err := w.space.Explain("web", 2 /* write */, "/agents/web/scratch")
		if err != nil {
			t.Fatal(err)
		}
		return x.Allow
	}
	if err := w.reg.CheckPolicy("q.cedar", noScratch); err != nil || !may(w) {
		t.Fatalf("checking it: %v, in force: %v", err, !may(w))
	}
	if _, err := w.reg.LoadPolicy(t.Context(), "q.cedar", noScratch); err != nil || may(w) {
		t.Fatalf("loading it: %v, in force: %v", err, !may(w))
	}
	bad := strings.Replace(noScratch, "scratch\" }", "workspace\" }", 1)
	if _, err := w.reg.LoadPolicy(t.Context(), "q.cedar", bad); !errors.Is(err, backend.Invalid) || !strings.Contains(err.Error(), "q.cedar:1:1: quiet: @match") {
		t.Errorf("one whose examples do not hold: %v", err)
	}
	if may(w) || len(w.reg.PolicyFiles()) != 1 || w.reg.PolicyFiles()[0].Text != noScratch {
		t.Error("a refused file changed something")
	}
	// Its examples speak of agents that may go.
	if err := w.reg.RemoveAgent(t.Context(), "researcher"); err != nil {
		t.Errorf("an agent of its examples cannot be removed: %v", err)
	}
	again := mustOpen(t, w.store.CrashClone(w.store.DurableLSN()))
	t.Cleanup(again.reg.Close)
	if may(again) {
		t.Error("it is not in force after a restart")
	}
	if err := w.reg.RemovePolicy(t.Context(), "q.cedar"); err != nil || !may(w) {
		t.Errorf("removing it: %v, in force: %v", err, !may(w))
	}
	if err := w.reg.RemovePolicy(t.Context(), "q.cedar"); !errors.Is(err, backend.NotFound) {
		t.Errorf("removing it twice: %v", err)
	}
}

// TestPolicyFileRefused: what is wrong, and where.
func TestPolicyFileRefused(t *testing.T) {
	w := grantWorld(t)
	epoch := w.space.Engine().Epoch()
	for name, text := range map[string]string{
		"x.cedar:2:26:":                  "@id(\"x\")\npermit (principal, acti0n, resource);",
		"x.cedar:3:3: y: for policy":     "// one\n\n  @id(\"y\") permit (principal, action, resource) when { resource.path == \"/\" };",
		"x.cedar:1:1: unknown anno":      `@id("x") @reasons("typo") permit (principal, action, resource);`,
		"x.cedar:1:1: the policy has no": `permit (principal, action, resource);`,
		`the @id "orchestrator" is`:      `@id("orchestrator") permit (principal, action, resource);`,
		"not UTF-8":                      "\xff",
	} {
		_, err := w.reg.LoadPolicy(t.Context(), "x.cedar", text)
		if !errors.Is(err, backend.Invalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, want %s", text, err, name)
		}
	}
	for _, name := range []string{"", "x", "default.cedar", "settings.cedar", "../x.cedar", "a/b.cedar", ".cedar", "x\n.cedar"} {
		if _, err := w.reg.LoadPolicy(t.Context(), name, noScratch); !errors.Is(err, backend.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if now := w.space.Engine().Epoch(); now != epoch || len(w.reg.PolicyFiles()) > 0 {
		t.Errorf("the epoch went from %d to %d by what was refused", epoch, now)
	}
	if _, err := w.reg.LoadPolicy(t.Context(), "big.cedar", "//"+strings.Repeat("x", 40<<10)); !errors.Is(err, backend.TooBig) {
		t.Errorf("a big file: %v", err)
	}
}
