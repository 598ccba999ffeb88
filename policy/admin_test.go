package policy

import "testing"

// TestAdministratorIsNoAgent: who runs the daemon may do what an orchestrator
// may, nobody becomes it by an empty key, and the deny-list holds for it.
func TestAdministratorIsNoAgent(t *testing.T) {
	e := newEngine(t, testFacts())
	if _, ok := e.Principal("", ReadWrite); ok {
		t.Error("an empty key is an agent")
	}
	p, ok := e.Administrator(ReadWrite)
	if !ok || p.Agent().Key != "" {
		t.Fatalf("%+v, %v", p, ok)
	}
	gaia, _ := e.Principal("gaia", ReadWrite)
	for _, r := range []Resource{{Zone: ZoneWorkspace, Owner: "web"}, {Zone: ZoneUser, Owner: "bob"}, {Zone: ZoneProject, Owner: "site"},
		{Zone: ZoneWorkspace, Owner: "nobody"}, {Zone: ZoneRoot}, {Zone: ZoneWorkspace, Owner: "web", Denied: true}} {
		for a := range numActions {
			if got, want := e.Decide(p, a, r), e.Decide(gaia, a, r); got.Allow != want.Allow {
				t.Errorf("%v %+v: %+v, an orchestrator %+v", a, r, got, want)
			}
		}
	}
	if _, ok := e.Principal("", ReadWrite); ok {
		t.Error("an empty key became an agent once the administrator was there")
	}
	ro, _ := e.Administrator(ReadOnly)
	if d := e.Decide(ro, Write, Resource{Zone: ZoneWorkspace, Owner: "web"}); d.Allow {
		t.Error("a read-only administrator writes")
	}
}
