package policy

import (
	"fmt"
	"strings"
	"testing"
)

// tableCase is one request and what must come of it. Place is "zone:owner",
// "!" before it: the deny-list holds.
type tableCase struct {
	agent  string
	mount  AccessMode
	action Action
	place  string
	allow  bool
	rule   RuleID
}

func (c tableCase) String() string {
	return fmt.Sprintf("%s(%v) %v %s", c.agent, c.mount, c.action, c.place)
}

func (c tableCase) resource(t testing.TB) Resource {
	t.Helper()
	place, denied := strings.CutPrefix(c.place, "!")
	zone, owner, ok := strings.Cut(place, ":")
	for z := range numZones {
		if ok && z.String() == zone {
			return Resource{Zone: z, Owner: owner, Denied: denied}
		}
	}
	t.Fatalf("bad place %q", c.place)
	return Resource{}
}

const rw, ro, none = ReadWrite, ReadOnly, NoAccess

// table has at least one case for every view rule that fails without it
// (TestEveryDefaultRuleCounts).
var table = []tableCase{
	// The top of the tree.
	{"web", rw, See, "root:", true, "root-directory"},
	{"conc", rw, See, "root:", true, "root-directory"},
	{"web", rw, See, "root:users", false, ""},
	{"web", rw, See, "root:projects", false, ""},
	{"lim", rw, See, "root:workspaces", false, ""},
	{"gaia", rw, See, "root:workspaces", true, "orchestrator"},
	{"gaia", rw, Create, "root:projects", true, "orchestrator"},
	{"gaia", rw, Create, "root:agents", false, "registry-only"},
	{"gaia", rw, Remove, "root:projects", false, "registry-only"},
	{"lim", rw, Create, "root:projects", false, ""},
	{"web", rw, Create, "root:projects", false, "registry-only"},
	{"gaia", rw, Remove, "root:", false, "registry-only"},
	{"web", rw, Create, "root:", false, "registry-only"},

	// Mount modes.
	{"web", none, See, "workspace:web", false, "mount-none"},
	{"gaia", none, Read, "workspace:web", false, "mount-none"},
	{"gaia", none, See, "root:", false, "mount-none"},
	{"web", ro, Read, "workspace:web", true, "own-observe"},
	{"web", ro, Write, "workspace:web", false, "mount-read-only"},
	{"web", ro, Create, "scratch:web", false, "mount-read-only"},
	{"gaia", ro, Remove, "workspace:web", false, "mount-read-only"},

	// Orchestrator.
	{"gaia", rw, Write, "fixed:web", true, "orchestrator"},
	{"gaia", rw, Create, "fixed:web", true, "orchestrator"},
	{"gaia", rw, Link, "workspace:web2", true, "orchestrator"},
	{"gaia", rw, Write, "user:bob", true, "orchestrator"},
	{"gaia", rw, Write, "project:empty", true, "orchestrator"},
	{"gaia", rw, Write, "device:0b9a", true, "orchestrator"},
	{"gro", rw, Read, "workspace:web", true, "orchestrator"},
	{"gro", rw, Write, "workspace:web", false, "access/gro"},
	{"gro", rw, Write, "workspace:gro", false, "access/gro"},
	{"gro", rw, Create, "scratch:gro", true, "orchestrator"},
	{"gro", rw, Create, "scratch:web", false, "access/gro"},
	{"lim", rw, Write, "fixed:lim", true, "limited-orchestrator-own"},
	{"lim", rw, Write, "fixed:web", true, "limited-orchestrator-souls"},
	{"lim", rw, See, "workspace:web2", false, ""},
	{"lim", rw, See, "workspace:kid", false, ""},
	{"lim", rw, See, "workspace:conc", false, ""},
	{"lim", rw, See, "workspace:gaia", false, ""},
	{"lim", rw, Create, "user:ada", true, "limited-orchestrator-user"},
	{"lim", rw, See, "user:bob", false, ""},
	{"lim", rw, Write, "project:site", true, "limited-orchestrator-projects"},
	{"lim", rw, Write, "project:ros", true, "limited-orchestrator-projects"},
	{"lim", rw, Write, "project:limp", true, "limited-orchestrator-own-projects"},
	{"lim", rw, See, "project:bobs", false, ""},
	{"lim", rw, See, "device:0b9a", false, ""},

	// A soul at home.
	{"web", rw, See, "fixed:web", true, "own-observe"},
	{"web", rw, Read, "fixed:web", true, "own-observe"},
	{"web", rw, Write, "fixed:web", false, ""},
	{"web", rw, Create, "fixed:web", false, ""},
	{"web", rw, Remove, "fixed:web", false, ""},
	{"web", rw, Link, "fixed:web", false, ""},
	{"web", rw, Write, "session:web", true, "own-session"},
	{"web", rw, Link, "session:web", false, ""},
	{"web", rw, Move, "session:web", false, ""},
	{"web", rw, Create, "tree:web", true, "own-mutate"},
	{"web", rw, Remove, "caches:web", true, "own-mutate"},
	{"web", rw, Write, "workspace:web", true, "own-mutate"},
	{"web", rw, Move, "scratch:web", true, "own-mutate"},
	{"conc", rw, Write, "workspace:conc", true, "own-mutate"},
	{"conc", rw, Write, "session:conc", true, "own-session"},
	{"conc", rw, Write, "fixed:conc", false, ""},

	// Others.
	{"web", rw, See, "fixed:web2", false, ""},
	{"web2", rw, See, "workspace:web", false, ""},
	{"web", rw, See, "workspace:gaia", false, ""},
	{"kid", rw, See, "workspace:web", false, ""},
	{"web", rw, See, "device:0b9a", false, ""},

	// Descendants.
	{"web", rw, Read, "fixed:kid", true, "descendant-observe"},
	{"web", rw, Write, "fixed:kid", false, ""},
	{"web", rw, Create, "fixed:grand", false, ""},
	{"web", rw, Read, "workspace:grand", true, "descendant-observe"},
	{"web", rw, Write, "workspace:grand", true, "descendant-mutate"},
	{"web", rw, Write, "session:kid", true, "descendant-session"},
	{"web", rw, Remove, "session:kid", false, ""},
	{"web", rw, Read, "workspace:kidro", true, "descendant-observe"},
	{"web", rw, Write, "workspace:kidro", false, "descendant-read-only"},
	{"web", rw, Write, "session:kidro", false, "descendant-read-only"},
	{"web", rw, Write, "caches:kidro", true, "descendant-mutate"},
	{"web", rw, Write, "scratch:kidro", true, "descendant-mutate"},
	{"web", rw, See, "workspace:kidno", false, "descendant-none"},
	{"web", rw, See, "scratch:kidno", false, "descendant-none"},
	{"web", rw, See, "user:bob", false, ""}, // grand's user is not web's
	{"roboss", rw, Read, "workspace:robkid", true, "descendant-observe"},
	{"roboss", rw, Write, "workspace:robkid", false, "access/roboss"},
	{"roboss", rw, Write, "scratch:robkid", false, "access/roboss"},
	{"conc", rw, See, "workspace:concub", false, "shared-own-only"},

	// Access modes.
	{"ro", rw, Read, "workspace:ro", true, "own-observe"},
	{"ro", rw, Write, "workspace:ro", false, "access/ro"},
	{"ro", rw, Write, "tree:ro", false, "access/ro"},
	{"ro", rw, Write, "session:ro", false, "access/ro"},
	{"ro", rw, Create, "caches:ro", true, "own-mutate"},
	{"ro", rw, Create, "scratch:ro", true, "own-mutate"},
	{"ro", rw, Create, "user:ada", false, "access/ro"},
	{"ro", rw, Read, "user:ada", true, "user-space"},
	{"ro", rw, Write, "project:ros", false, "access/ro"},
	{"no", rw, See, "workspace:no", false, "access/no"},
	{"no", rw, See, "root:", false, "access/no"},
	{"no", rw, See, "user:ada", false, "access/no"},

	// Users' spaces and projects.
	{"web", rw, Write, "user:ada", true, "user-space"},
	{"web", rw, Create, "user:ada", true, "user-space"},
	{"web2", rw, See, "user:ada", false, ""},
	{"kid", rw, See, "user:ada", false, ""},
	{"conc", rw, See, "user:ada", false, "shared-own-only"},
	{"conc", rw, See, "project:site", false, "shared-own-only"},
	{"web", rw, Create, "project:site", true, "member/site/web"},
	{"web2", rw, Read, "project:site", true, "member/site/web2"},
	{"web2", rw, Write, "project:site", false, ""},
	{"web", rw, See, "project:bobs", false, ""},
	{"kid", rw, See, "project:site", false, ""},
	{"web", rw, See, "project:empty", false, ""},

	// The name deny-list, everywhere and for everybody.
	{"web", rw, See, "!workspace:web", true, "own-observe"},
	{"web", rw, Remove, "!workspace:web", true, "own-mutate"},
	{"web", rw, Read, "!workspace:web", false, "deny-names"},
	{"web", rw, Write, "!scratch:web", false, "deny-names"},
	{"web", rw, Create, "!user:ada", false, "deny-names"},
	{"web", rw, Move, "!project:site", false, "deny-names"},
	{"web", rw, Link, "!workspace:kid", false, "deny-names"},
	{"gaia", rw, Read, "!workspace:web", false, "deny-names"},
	{"gaia", rw, Create, "!fixed:web", false, "deny-names"},
	{"gaia", rw, Remove, "!workspace:web", true, "orchestrator"},

	// Owners nobody knows.
	{"gaia", rw, See, "workspace:ghost", false, ""},
	{"gaia", rw, See, "user:ghost", false, ""},
	{"gaia", rw, See, "project:ghost", false, ""},
}

func TestTable(t *testing.T) {
	e := newEngine(t, testFacts())
	for _, c := range table {
		p := principal(t, e, c.agent, c.mount)
		for range 2 { // from Cedar, then from memory
			if d := e.Decide(p, c.action, c.resource(t)); d.Allow != c.allow || d.Rule != c.rule {
				t.Errorf("%v: %+v, want %v by %q", c, d, c.allow, c.rule)
			}
		}
		x := e.Explain(p, c.action, c.resource(t))
		if x.Allow != c.allow {
			t.Errorf("%v: explained as %v", c, x.Allow)
		}
		if len(x.Rules) > 0 && x.Rules[0].ID != c.rule {
			t.Errorf("%v: explained by %v first, want %q", c, x.Rules[0], c.rule)
		}
		if c.rule == "" && len(x.Rules) > 0 {
			t.Errorf("%v: explained by %v, want nothing", c, x.Rules)
		}
	}
}

// TestEveryDefaultRuleCounts removes each view rule in turn: some case of the
// table must come out otherwise.
func TestEveryDefaultRuleCounts(t *testing.T) {
	e := newEngine(t, testFacts())
	set := e.cur.Load().rules
	tried := 0
	for i, r := range set.all {
		if r.file != defaultFile {
			continue
		}
		tried++
		mutant := strings.Replace(defaultText, set.text(i), "", 1)
		if len(mutant) != len(defaultText)-len(set.text(i)) {
			t.Fatalf("%s was not cut out", r.id)
		}
		facts := testFacts()
		s, err := e.build(&facts, mutant)
		if err != nil {
			t.Fatalf("without %s: %v", r.id, err)
		}
		killed := false
		for _, c := range table {
			p, _ := s.principal(identity{c.agent, c.mount, false})
			killed = killed || s.unpack(p.evaluate(c.action, c.resource(t))).Allow != c.allow
		}
		if !killed {
			t.Errorf("no case of the table needs %s", r.id)
		}
	}
	if tried < 15 {
		t.Errorf("only %d rules tried", tried)
	}
}
