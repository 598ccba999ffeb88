package policy

import (
	"fmt"
	"testing"
)

// hiddenPairs are places that exist, and the same with an owner that does not.
func hiddenPairs() (pairs [][2]Resource) {
	for z := ZoneHomeFixed; z < ZoneDevice; z++ {
		owners := []string{"web", "web2", "kidro", "kidno", "ro", "no", "conc", "lim", "gaia"}
		switch z {
		case ZoneUser:
			owners = []string{"ada", "bob"}
		case ZoneProject:
			owners = []string{"site", "bobs", "empty"}
		}
		for _, o := range owners {
			pairs = append(pairs, [2]Resource{{Zone: z, Owner: o}, {Zone: z, Owner: "no-such"}})
		}
	}
	return pairs
}

// remembers tells whether m has anything about r.
func (m *memory) remembers(r Resource) bool {
	for i := range m {
		if e := m[i].Load(); e != nil && e.resource == r {
			return true
		}
	}
	return false
}

// TestHiddenIsNotRemembered: neither asking for what is hidden, nor going
// through all there is, makes the next question about it cheaper than one about
// what does not exist.
func TestHiddenIsNotRemembered(t *testing.T) {
	f := testFacts()
	e := newEngine(t, f)
	for agent := range f.Agents {
		p := principal(t, e, agent, ReadWrite)
		for _, pair := range hiddenPairs() {
			listed := e.DecideListed(p, See, pair[0])
			before := e.Evaluations()
			if e.DecideListed(p, See, pair[0]) != listed || e.Evaluations() != before {
				t.Errorf("%s: %v is not remembered by whoever lists it", agent, pair[0])
			}
			if listed.Allow {
				continue
			}
			for range 2 {
				for _, r := range pair {
					before := e.Evaluations()
					if d := e.Decide(p, See, r); d.Allow || e.Evaluations() != before+1 {
						t.Errorf("%s: %v: %+v by %d evaluations", agent, r, d, e.Evaluations()-before)
					}
					if p.asked.remembers(r) {
						t.Errorf("%s: %v is remembered", agent, r)
					}
				}
			}
		}
	}
}

// TestNobodyIsEvaluatedAsSomebody: rules see the same of a place of nobody as
// of a hidden one. None fails, which would take longer.
func TestNobodyIsEvaluatedAsSomebody(t *testing.T) {
	f := testFacts()
	f.Extra = []File{{Name: "extra.cedar", Text: `
@id("x") permit (principal == Agent::"web", action, resource)
when { resource has agent && resource.agent.access == "ro" && resource.agent.role == "shared" };
@id("y") forbid (principal == Agent::"web", action, resource)
when { resource has project && resource.project.users.contains(User::"eve") };
`}}
	e := newEngine(t, f)
	for agent := range f.Agents {
		p := principal(t, e, agent, ReadWrite)
		for _, pair := range hiddenPairs() {
			if e.Decide(p, See, pair[0]).Allow {
				continue
			}
			for a := range numActions {
				_, diag, err := p.ask(a, pair[1])
				if err == nil || len(diag.Errors) > 0 {
					t.Errorf("%s %v %v: %v, rules that fail: %v", agent, a, pair[1], err, diag.Errors)
				}
				if d := e.Decide(p, a, pair[1]); d != (Decision{}) {
					t.Errorf("%s %v %v: %+v", agent, a, pair[1], d)
				}
			}
		}
	}
	if x := e.Explain(principal(t, e, "gaia", ReadWrite), See, Resource{Zone: ZoneUser, Owner: "no-such"}); x.Allow || fmt.Sprint(x.Errors) == "[]" {
		t.Errorf("explained: %+v", x)
	}
}
