package policy

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go"
)

// Decision is an answer and the rule it rests on: the first permit, the first
// forbid, the first policy that failed, or "" when nothing permits.
type Decision struct {
	Allow bool
	Rule  RuleID
}

// Principal is an agent behind a mount's access mode, in one epoch, with what
// was decided for it so far. It may be used from any goroutine.
type Principal struct {
	id     identity
	snap   *snapshot
	agent  Agent
	slices [numActions]rules
	grants *agentGrants // nil: none
	own    []nameRule

	hits   atomic.Uint64 // decisions that were remembered
	seed   maphash.Seed
	asked  memory // what Decide was asked
	listed memory // what DecideListed was
}

// memory is decisions by resource. Two resources of one slot take turns.
type memory [cacheSlots]atomic.Pointer[remembered]

// cacheSlots bounds what one memory remembers: 8 bytes a slot and some 80 a
// resource met.
const cacheSlots = 1 << 10

// remembered is the decisions about one resource. A word is 0 (not asked yet)
// or rule index + 2 (1: no rule) shifted by one, and the answer.
type remembered struct {
	resource Resource
	words    [numActions]atomic.Uint32
}

// Principal resolves an agent behind a mount. It fails for an agent the facts
// do not know.
func (e *Engine) Principal(agent string, mount AccessMode) (*Principal, bool) {
	return e.cur.Load().principal(identity{agent: agent, mount: mount})
}

// Administrator is who runs the daemon: it may do what an orchestrator may, is no
// agent, and has no key. The deny-list holds for it too.
func (e *Engine) Administrator(mount AccessMode) (*Principal, bool) {
	return e.cur.Load().principal(identity{mount: mount, admin: true})
}

func (s *snapshot) principal(id identity) (*Principal, bool) {
	a, known := s.facts.Agents[id.agent]
	if id.admin {
		a, known = administrator, true
	}
	if !known || id.mount >= numAccess {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.principals[id]; p != nil {
		return p, true
	}
	p := &Principal{id: id, snap: s, agent: a, seed: maphash.MakeSeed()}
	if !id.admin {
		p.grants, p.own = s.grants[id.agent], s.names.own[id.agent]
	}
	for act := range numActions {
		p.slices[act] = s.rules.slice(id.agent, act)
	}
	s.principals[id] = p
	return p, true
}

// Epoch is the epoch p was resolved in.
func (p *Principal) Epoch() uint64 { return p.snap.epoch }

// Agent is the agent as the facts of p's epoch know it.
func (p *Principal) Agent() Agent { return p.agent }

// Mount is the access mode of the mount.
func (p *Principal) Mount() AccessMode { return p.id.mount }

// NameDenied is [Engine.NameDenied] in p's epoch.
func (p *Principal) NameDenied(name string) (string, bool) { return p.snap.names.denied(name) }

// NameExcepted is [Engine.NameExcepted] in p's epoch.
func (p *Principal) NameExcepted(file string) bool { return p.snap.names.excepted(file) }

// NameJudged tells whether name is on the deny-list for everybody, as far as
// that does not depend on where it stands. byPath: it does, so ask NameDeniedAt.
func (p *Principal) NameJudged(name string) (denied, byPath bool) {
	return p.snap.names.judge(name)
}

// NameDeniedAt tells whether the deny-list for everybody holds for the file at
// this absolute tree path.
func (p *Principal) NameDeniedAt(file string) bool { return p.snap.names.deniedAt(file) }

// NamesByPath tells whether anything in p's epoch makes the deny-list depend on
// where a name stands.
func (p *Principal) NamesByPath() bool { return p.snap.names.byPath }

// NamesDiffer tells whether a rule of a deny-list may hold otherwise for files below
// a directory at one tree path than for the same below another; exceptions apart.
func (p *Principal) NamesDiffer(from, to string) bool {
	rule := func(r nameRule) bool { return separates(r.under, from, to) }
	return slices.ContainsFunc(p.snap.names.rules, rule) || slices.ContainsFunc(p.own, rule)
}

// AnyOwnNames tells whether any agent has a deny-list of its own in p's epoch.
func (p *Principal) AnyOwnNames() bool { return p != nil && len(p.snap.names.own) > 0 }

// HasOwnNames tells whether p has a deny-list of its own.
func (p *Principal) HasOwnNames() bool { return p != nil && len(p.own) > 0 }

// NameBarred is NameJudged for p's own deny-list.
func (p *Principal) NameBarred(name string) (barred, byPath bool) {
	return judgeRules(p.own, strings.ToLower(name))
}

// NameBarredAt is NameDeniedAt for p's own deny-list.
func (p *Principal) NameBarredAt(file string) bool { return rulesHold(p.own, file) }

// Decide tells whether p may do a at r, by the rules of p's epoch: r was told by
// p's grants and names, and what one epoch says of another's place is neither's
// answer. Who is to ask by the rules in force gets p anew ([Engine.Principal]).
// What was decided before in this epoch is remembered. Errors of any kind deny,
// and so does a p of nil.
//
// That something may not be seen is not remembered: what is hidden and what does
// not exist cost the same every time, whoever asked before.
func (e *Engine) Decide(p *Principal, a Action, r Resource) Decision {
	if p == nil || a >= numActions {
		return Decision{}
	}
	return e.decide(p, &p.asked, a, r)
}

// DecideListed is Decide for whoever goes through all there is, to find what p
// sees. It remembers everything, in a memory of its own, and so leaves no trace
// of what exists in Decide's.
func (e *Engine) DecideListed(p *Principal, a Action, r Resource) Decision {
	if p == nil || a >= numActions {
		return Decision{}
	}
	return e.decide(p, &p.listed, a, r)
}

func (e *Engine) decide(p *Principal, in *memory, a Action, r Resource) Decision {
	slot := &in[p.slot(r)]
	m := slot.Load()
	known := m != nil && m.resource == r
	if known {
		if w := m.words[a].Load(); w != 0 {
			p.hits.Add(1)
			return p.snap.unpack(w)
		}
	}
	e.evaluations.Add(1)
	w := p.evaluate(a, r)
	if w&1 == 0 && a == See && r.Zone != ZoneRoot && in == &p.asked {
		return p.snap.unpack(w)
	}
	if !known {
		m = &remembered{resource: r}
		slot.Store(m)
	}
	m.words[a].Store(w)
	return p.snap.unpack(w)
}

// Evaluations counts the decisions that were not remembered, of all agents.
func (e *Engine) Evaluations() uint64 { return e.evaluations.Load() }

// Remembered counts the decisions that were, of all agents. It waits for a Swap
// under way.
func (e *Engine) Remembered() uint64 {
	e.swap.Lock()
	defer e.swap.Unlock()
	return e.past + e.cur.Load().hits()
}

// hits counts the decisions of s that were remembered.
func (s *snapshot) hits() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n uint64
	for _, p := range s.principals {
		n += p.hits.Load()
	}
	return n
}

func (p *Principal) slot(r Resource) uint64 {
	h := maphash.String(p.seed, r.Owner) ^ uint64(r.Zone)*0x9e3779b97f4a7c15 ^ uint64(r.Grants)*0xff51afd7ed558ccd
	if r.Denied {
		h ^= 0xc4ceb9fe1a85ec53
	}
	if r.Barred {
		h ^= 0x94d049bb133111eb
	}
	return (h ^ h>>32) % cacheSlots
}

func (s *snapshot) unpack(w uint32) Decision {
	d := Decision{Allow: w&1 != 0}
	if i := w >> 1; i >= 2 {
		d.Rule = s.rules.all[i-2].id
	}
	return d
}

// evaluate asks Cedar and packs the answer.
func (p *Principal) evaluate(a Action, r Resource) uint32 {
	const noRule = 1 << 1
	answer, diag, err := p.ask(a, r)
	word := func(id cedar.PolicyID, allow uint32) uint32 {
		return uint32(p.snap.rules.index[RuleID(id)]+2)<<1 | allow
	}
	switch {
	case err != nil: // asked nevertheless: see place
		return noRule
	case len(diag.Errors) > 0:
		return word(diag.Errors[0].PolicyID, 0)
	case len(diag.Reasons) == 0:
		return noRule
	case answer == cedar.Allow:
		return word(diag.Reasons[0].PolicyID, 1)
	}
	return word(diag.Reasons[0].PolicyID, 0)
}

// ask puts the question to Cedar, also when r is the place of nobody: that is
// an error all the same, which denies.
func (p *Principal) ask(a Action, r Resource) (cedar.Decision, cedar.Diagnostic, error) {
	w := p.snap.world
	place, err := w.place(r)
	answer, diag := cedar.Authorize(p.slices[a], w.getter(place, r), w.request(p.id.agent, p.id.mount, a))
	return answer, diag, err
}
