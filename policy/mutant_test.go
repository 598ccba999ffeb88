package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutantFacts is testFacts with one of everything that compiles to a rule of the
// settings as well.
func mutantFacts() Facts {
	f := testFacts()
	f.Agents["hermit"] = Agent{Key: "hermit", Role: Soul, User: "ada", HomeOnly: true}
	for _, key := range []string{"gaia", "lim", "web", "grand", "ro", "conc", "hermit"} { // one of each kind
		f.Settings.Rules = append(f.Settings.Rules, NameRule{Name: "*.key", Agent: key})
	}
	grant := func(agent, path, right string) {
		f.Grants = append(f.Grants, Grant{ID: fmt.Sprint("g", len(f.Grants)), Agent: agent, Path: path, Right: right, Expires: time.Now()})
	}
	grant("web2", "/agents/web/workspace/d", "read")
	grant("web2", "/agents/conc", "write") // those that write are on whole homes, where each of their rules counts
	grant("kid", "/agents/web2", "write")
	grant("kid", "/users/bob", "read")
	grant("lim", "/agents/web2", "write")
	grant("grand", "/projects/bobs/d", "read")
	return f
}

// question is one request of everything that can be asked.
type question struct {
	agent string
	mount AccessMode
	a     Action
	r     Resource
}

// questions are all that can be asked in the world of f, with the grants set as
// the view sets them, in random order.
func questions(e *Engine, f *Facts, rnd *rand.Rand) (all []question) {
	var places []Resource
	add := func(z Zone, owner string) {
		places = append(places, Resource{Zone: z, Owner: owner}, Resource{Zone: z, Owner: owner, Denied: true},
			Resource{Zone: z, Owner: owner, Barred: true})
	}
	for _, top := range []string{"", "agents", "projects"} {
		add(ZoneRoot, top)
	}
	for z := ZoneHomeFixed; z <= ZoneScratch; z++ {
		for key := range f.Agents {
			add(z, key)
		}
	}
	for id := range f.Users {
		add(ZoneUser, id)
	}
	for slug := range f.Projects {
		add(ZoneProject, slug)
	}
	add(ZoneDevice, "0b9a")
	for agent := range f.Agents {
		for m := range numAccess {
			p, _ := e.Principal(agent, m)
			for _, r := range places {
				vol, rel := modelVolume(r)
				r.Grants = p.Grants(vol).At(rel)
				for a := range numActions {
					all = append(all, question{agent, m, a, r})
				}
			}
		}
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// mutants are the ways one rule can be wrong.
func mutants(text string) map[string]string {
	out := map[string]string{"removed": ""}
	swap := func(a, b string) {
		for at, n := 0, 0; ; n++ {
			i := strings.Index(text[at:], a)
			if i < 0 {
				return
			}
			at += i
			out[fmt.Sprintf("%s for %s, %d", b, a, n)] = text[:at] + b + text[at+len(a):]
			at += len(a)
		}
	}
	swap("\npermit (", "\nforbid (")
	swap("\nforbid (", "\npermit (")
	swap("\nwhen {", "\nunless {")
	swap("\nunless {", "\nwhen {")
	swap(`Action::"observe"`, `Action::"mutate"`)
	swap(`Action::"mutate"`, `Action::"observe"`)
	swap(`resource.denied`, `resource.barred`)
	swap(`resource.barred`, `resource.denied`)
	for a := range numActions { // out of a list, or of its end
		swap(fmt.Sprintf(`Action::"%v", `, a), ``)
		swap(fmt.Sprintf(`, Action::"%v"]`, a), `]`)
	}
	return out
}

// TestEveryRuleCounts removes and negates each rule, of the view rules and of what
// settings and grants compile to: the model, written without Cedar, must tell.
func TestEveryRuleCounts(t *testing.T) {
	f := mutantFacts()
	e := newEngine(t, f)
	rnd := rand.New(rand.NewPCG(1, 2))
	all := questions(e, &f, rnd)
	s := e.cur.Load()
	differs := func(s *snapshot) bool {
		return slices.ContainsFunc(all, func(q question) bool {
			p, _ := s.principal(identity{q.agent, q.mount, false})
			return (p.evaluate(q.a, q.r)&1 != 0) != f.allowed(q.agent, q.mount, q.a, q.r)
		})
	}
	if !testing.Short() && differs(s) { // 200,000 requests
		t.Fatal("the model does not agree with the rules as they are")
	}
	tried := map[string]int{}
	for i, r := range s.rules.all {
		vain := r.id == "member/limp/lim" || r.id == "member/site/conc" // it has this by a view rule; it is shared, so gets nothing
		if vain || testing.Short() && rnd.IntN(16) != 0 {
			continue
		}
		text := s.rules.text(i)
		for how, mutant := range mutants(text) {
			files := slices.Clone(s.rules.files)
			for j := range files {
				if files[j].Name == r.file {
					files[j].Text = strings.Replace(files[j].Text, text, mutant, 1)
				}
			}
			set, err := load(e.validator, files)
			if err != nil { // found before it is in force
				tried["refused"]++
				continue
			}
			changed := &snapshot{facts: s.facts, names: s.names, rules: set, world: s.world, grants: s.grants, granted: s.granted,
				principals: map[identity]*Principal{}}
			if !differs(changed) {
				t.Errorf("%s, %s: nothing comes out otherwise", r.id, how)
			}
			tried[r.file]++
		}
	}
	t.Logf("%d requests, mutants tried: %v", len(all), tried)
	if !testing.Short() && (tried[defaultFile] < 60 || tried[settingsFile] < 60) {
		t.Errorf("only %v mutants tried", tried)
	}
}
