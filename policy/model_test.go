package policy

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
)

// allowed is the view rules written a second time, in Go, from the design and
// not from default.cedar: what the engine is compared with.
func (f *Facts) allowed(agent string, mount AccessMode, a Action, r Resource) bool {
	me, known := f.Agents[agent]
	if !known || mount == NoAccess || me.Access == NoAccess || !f.exists(r) {
		return false
	}
	if me.HomeOnly && r.Zone != ZoneRoot {
		own := isAgentZone(r.Zone) && r.Owner == agent
		if !own || r.Zone == ZoneWorkspace || a.Mutates() && r.Zone != ZoneScratch {
			return false
		}
	}
	if a.Mutates() {
		ownTemp := r.Owner == agent && (r.Zone == ZoneScratch || r.Zone == ZoneHomeCaches)
		makes := a == Create && me.Role == Orchestrator && r.Owner == "projects"
		if mount == ReadOnly || r.Zone == ZoneRoot && !makes || me.Access == ReadOnly && !ownTemp {
			return false
		}
	}
	if a != See && a != Remove && (r.Denied && f.deniesToAll() || r.Barred && f.deniesTo(agent)) {
		return false
	}
	if r.Zone == ZoneRoot && r.Owner == "" {
		return true
	}
	switch me.Role {
	case Orchestrator:
		return me.OnlyUser == "" || f.limitedSees(me, r) || f.grantAllows(agent, a, r)
	case Shared:
		return isAgentZone(r.Zone) && r.Owner == agent && soulMay(me, a, r.Zone)
	}
	if f.grantAllows(agent, a, r) {
		return true
	}
	switch {
	case isAgentZone(r.Zone):
		owner := f.Agents[r.Owner]
		if r.Owner == agent {
			return soulMay(me, a, r.Zone)
		}
		return f.isAbove(agent, r.Owner) && owner.Access != NoAccess && soulMay(owner, a, r.Zone)
	case r.Zone == ZoneUser:
		return me.User != "" && me.User == r.Owner
	case r.Zone == ZoneProject:
		right := f.Projects[r.Owner][agent]
		return right == "write" || right == "read" && !a.Mutates()
	}
	return false
}

// grantAllows: only whether r.Grants is set is asked, not what the engine put there.
func (f *Facts) grantAllows(agent string, a Action, r Resource) bool {
	if r.Grants == 0 {
		return false
	}
	if f.Agents[agent].Role == Soul && isAgentZone(r.Zone) && f.isAbove(agent, r.Owner) { // a parent has what its child has, at most
		switch f.Agents[r.Owner].Access {
		case NoAccess:
			return false
		case ReadOnly:
			if a.Mutates() && r.Zone != ZoneScratch && r.Zone != ZoneHomeCaches {
				return false
			}
		}
	}
	for _, g := range f.Grants {
		if g.Agent != agent || !modelCovers(g.Path, r) {
			continue
		}
		if !a.Mutates() || g.Right == "write" && r.Zone != ZoneHomeFixed && (r.Zone != ZoneHomeFree || a == Write) {
			return true
		}
	}
	return false
}

// modelPath is a path at which the model puts a resource: d is a directory in
// every tree.
func modelPath(r Resource) string {
	switch r.Zone {
	case ZoneHomeFixed:
		return "/agents/" + r.Owner + "/skills/d/e"
	case ZoneHomeFree:
		return "/agents/" + r.Owner + "/session.md"
	case ZoneHomeTree:
		return "/agents/" + r.Owner + "/notes/d/e"
	case ZoneHomeCaches:
		return "/agents/" + r.Owner + "/caches/d/e"
	case ZoneWorkspace:
		return "/agents/" + r.Owner + "/workspace/d/e"
	case ZoneScratch:
		return "/agents/" + r.Owner + "/scratch/d/e"
	case ZoneUser:
		return "/users/" + r.Owner + "/d/e"
	case ZoneProject:
		return "/projects/" + r.Owner + "/d/e"
	case ZoneDevice:
		return "/workspaces/" + r.Owner + "/d/e"
	}
	return "/"
}

func modelCovers(grant string, r Resource) bool {
	p := modelPath(r)
	return p == grant || strings.HasPrefix(p, grant+"/")
}

// modelVolume is the volume of a resource and where in it modelPath is.
func modelVolume(r Resource) (Resource, string) {
	vol, rel, _ := PlaceOf(modelPath(r))
	return vol, rel
}

func (f *Facts) exists(r Resource) bool {
	switch {
	case isAgentZone(r.Zone):
		_, ok := f.Agents[r.Owner]
		return ok
	case r.Zone == ZoneUser:
		return f.Users[r.Owner]
	case r.Zone == ZoneProject:
		_, ok := f.Projects[r.Owner]
		return ok
	}
	return true
}

func (f *Facts) limitedSees(me Agent, r Resource) bool {
	mine := func(key string) bool {
		a := f.Agents[key]
		return key == me.Key || a.Role == Soul && a.User == me.OnlyUser
	}
	switch {
	case isAgentZone(r.Zone):
		return mine(r.Owner)
	case r.Zone == ZoneUser:
		return r.Owner == me.OnlyUser
	case r.Zone == ZoneProject:
		for key := range f.Projects[r.Owner] {
			if mine(key) {
				return true
			}
		}
	}
	return false
}

func (f *Facts) isAbove(up, down string) bool {
	for k := f.Agents[down].Parent; k != ""; k = f.Agents[k].Parent {
		if k == up {
			return true
		}
	}
	return false
}

func isAgentZone(z Zone) bool { return z >= ZoneHomeFixed && z <= ZoneScratch }

// soulMay is what an agent that is no orchestrator may do in its own trees.
func soulMay(a Agent, act Action, z Zone) bool {
	if !act.Mutates() {
		return true
	}
	if a.Access == ReadOnly && z != ZoneScratch && z != ZoneHomeCaches {
		return false
	}
	switch z {
	case ZoneHomeFixed:
		return false
	case ZoneHomeFree:
		return act == Write
	}
	return true
}

// randomFacts makes a world of a dozen agents.
func randomFacts(rnd *rand.Rand) Facts {
	f := Facts{Agents: map[string]Agent{}, Users: map[string]bool{"u0": true, "u1": true, "u2": true}, Projects: map[string]map[string]string{}}
	user := func() string { return []string{"", "u0", "u1", "u2"}[rnd.IntN(4)] }
	var keys []string
	for i := range 12 {
		a := Agent{Key: fmt.Sprintf("a%d", i), Role: Soul, User: user()}
		switch rnd.IntN(6) {
		case 0:
			a.Role, a.OnlyUser = Orchestrator, user()
		case 1:
			a.Role = Shared
		}
		if rnd.IntN(3) == 0 {
			a.Access = AccessMode(rnd.IntN(int(numAccess)))
		}
		a.HomeOnly = a.Role == Soul && rnd.IntN(8) == 0
		if len(keys) > 0 && rnd.IntN(2) == 0 {
			if p := keys[rnd.IntN(len(keys))]; a.Role != Orchestrator || f.Agents[p].Role == Orchestrator {
				a.Parent = p
			}
		}
		f.Agents[a.Key] = a
		keys = append(keys, a.Key)
	}
	for i := range 4 {
		members := map[string]string{}
		for range rnd.IntN(5) {
			members[keys[rnd.IntN(len(keys))]] = []string{"read", "write"}[rnd.IntN(2)]
		}
		f.Projects[fmt.Sprintf("p%d", i)] = members
	}
	for i := range rnd.IntN(12) {
		r := randomResource(rnd)
		g := Grant{ID: fmt.Sprintf("g%d", i), Agent: keys[rnd.IntN(len(keys))], Path: modelPath(r), Right: []string{"read", "write"}[rnd.IntN(2)]}
		for range rnd.IntN(4) {
			g.Path = path.Dir(g.Path)
		}
		if rnd.IntN(5) == 0 {
			g.Path += "x" // beside what is asked about
		}
		if _, _, ok := PlaceOf(g.Path); ok && f.Agents[g.Agent].Role != Shared {
			f.Grants = append(f.Grants, g)
		}
	}
	f.Settings = randomSettings(rnd, keys)
	return f
}

func randomResource(rnd *rand.Rand) Resource {
	r := Resource{Zone: Zone(rnd.IntN(int(numZones))), Denied: rnd.IntN(6) == 0, Barred: rnd.IntN(3) == 0}
	switch {
	case r.Zone == ZoneRoot:
		r.Owner = []string{"", "", "agents", "users", "projects", "workspaces"}[rnd.IntN(6)]
	case isAgentZone(r.Zone):
		r.Owner = fmt.Sprintf("a%d", rnd.IntN(13)) // a12 is nobody
	case r.Zone == ZoneUser:
		r.Owner = fmt.Sprintf("u%d", rnd.IntN(4))
	case r.Zone == ZoneProject:
		r.Owner = fmt.Sprintf("p%d", rnd.IntN(5))
	default:
		r.Owner = "0b9a"
	}
	return r
}

func TestAgreesWithModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	e := newEngine(t, Facts{})
	allowed, requests, barred := 0, 0, 0
	for range 100 {
		f := randomFacts(rnd)
		if err := e.Swap(f); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			agent, mount := fmt.Sprintf("a%d", rnd.IntN(12)), ReadWrite
			if rnd.IntN(5) == 0 {
				mount = AccessMode(rnd.IntN(int(numAccess)))
			}
			a, r := Action(rnd.IntN(int(numActions))), randomResource(rnd)
			p := principal(t, e, agent, mount)
			vol, rel := modelVolume(r)
			r.Grants = p.Grants(vol).At(rel)
			if rnd.IntN(2) == 0 {
				r = named(t, &f, p, r, rnd)
			}
			got, want := e.Decide(p, a, r), f.allowed(agent, mount, a, r)
			if got.Allow != want {
				t.Fatalf("%+v (mount %v) %v at %+v: %+v, the model says %v\nfacts: %+v", f.Agents[agent], mount, a, r, got, want, f)
			}
			if x := e.Explain(p, a, r); x.Allow != want || len(x.Errors) > 0 && f.exists(r) {
				t.Fatalf("%s %v at %+v: explained as %+v", agent, a, r, x)
			}
			requests++
			if want {
				allowed++
			}
			if unbarred := r; r.Barred && !want {
				if unbarred.Barred = false; f.allowed(agent, mount, a, unbarred) {
					barred++
				}
			}
		}
	}
	if allowed < requests/20 || allowed > requests*19/20 {
		t.Errorf("%d of %d allowed: the requests are too one-sided to tell anything", allowed, requests)
	}
	t.Logf("%d of %d refused for the agent's own deny-list", barred, requests)
	if barred < requests/500 {
		t.Errorf("%d of %d refused for the agent's own deny-list", barred, requests)
	}
}
