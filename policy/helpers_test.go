package policy

import (
	"testing"
)

// testFacts is a small world with one of everything the view rules tell apart.
func testFacts() Facts {
	return Facts{
		Users: map[string]bool{"ada": true, "bob": true},
		Agents: map[string]Agent{
			"gaia":   {Key: "gaia", Role: Orchestrator},
			"gro":    {Key: "gro", Role: Orchestrator, Access: ReadOnly},
			"lim":    {Key: "lim", Role: Orchestrator, OnlyUser: "ada"},
			"web":    {Key: "web", Role: Soul, User: "ada", Parent: "gaia"},
			"web2":   {Key: "web2", Role: Soul, User: "bob"},
			"kid":    {Key: "kid", Role: Soul, Parent: "web"},
			"grand":  {Key: "grand", Role: Soul, Parent: "kid", User: "bob"},
			"kidro":  {Key: "kidro", Role: Soul, Parent: "web", Access: ReadOnly},
			"kidno":  {Key: "kidno", Role: Soul, Parent: "web", Access: NoAccess},
			"kidsh":  {Key: "kidsh", Role: Shared, Parent: "web"},
			"ro":     {Key: "ro", Role: Soul, User: "ada", Access: ReadOnly},
			"no":     {Key: "no", Role: Soul, User: "ada", Access: NoAccess},
			"conc":   {Key: "conc", Role: Shared, User: "ada"},
			"concub": {Key: "concub", Role: Soul, Parent: "conc"},
			"roboss": {Key: "roboss", Role: Soul, Access: ReadOnly},
			"robkid": {Key: "robkid", Role: Soul, Parent: "roboss"},
		},
		Projects: map[string]map[string]string{
			"site":  {"web": "write", "web2": "read", "conc": "write"},
			"bobs":  {"web2": "write"},
			"limp":  {"lim": "read"},
			"ros":   {"ro": "write"},
			"empty": {},
		},
	}
}

func newEngine(t testing.TB, f Facts) *Engine {
	t.Helper()
	e, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Swap(f); err != nil {
		t.Fatal(err)
	}
	return e
}

func principal(t testing.TB, e *Engine, agent string, m AccessMode) *Principal {
	t.Helper()
	p, ok := e.Principal(agent, m)
	if !ok {
		t.Fatalf("no principal %q", agent)
	}
	return p
}
