package workspace

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Bounds of the uids that agents get for commands run as them by root. The
// range is one that Linux distributions leave unused.
const (
	minRunUID = 0x70000000
	numRunUID = 0x0f000000
)

// AgentSpec describes an agent to be added; "" in Role is soul, in Access rw,
// in Email <key>@warren.local.
type AgentSpec struct {
	Key                    string
	Role                   policy.Role
	User, Parent, OnlyUser string
	Access                 string
	Name, Email            string
}

// AgentChange changes an agent; what is nil stays.
type AgentChange struct {
	User, Parent, Access, OnlyUser, Mode, Name, Email, Publish *string
}

// What a publication may replace in a shared agent's workspace: what its publisher
// published under that name (also meant by ""), or any regular file.
const (
	PublishOwn = "own"
	PublishAny = "any"
)

// Agents lists all agents by key.
func (r *Registry) Agents() []Agent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.agents, func(a *Agent) bool { return !a.Removing })
}

// Agent gives one agent. NotFound; Invalid: not a key at all.
func (r *Registry) Agent(key string) (Agent, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.agent(key)
}

// agent: mu held.
func (r *Registry) agent(key string) (Agent, error) {
	if !policy.ValidKey(key) {
		return Agent{}, badKey("agent key", key)
	}
	if a := r.agents[key]; a != nil && !a.Removing {
		return *a, nil
	}
	return Agent{}, NoAgent(key)
}

// NoAgent is the error for a key that is no agent's, or none's that whoever asks
// may know of: the words are the same.
func NoAgent(key string) error {
	return fail(backend.NotFound, "no agent %q; `warren agent list` lists them", key)
}

// AddAgent adds an agent with its volumes. Exist: there is one; NotFound: no
// such user or parent; Invalid: the rest of what can be wrong with a spec.
func (r *Registry) AddAgent(ctx context.Context, s AgentSpec) (Agent, error) {
	r.change.Lock()
	defer r.change.Unlock()
	a := &Agent{Key: s.Key, Role: s.Role, User: s.User, Parent: s.Parent, OnlyUser: s.OnlyUser,
		Access: s.Access, Name: s.Name, Email: s.Email, Created: r.now().UTC()}
	if a.Role == "" {
		a.Role = policy.Soul
	}
	if a.Access == "" {
		a.Access = policy.ReadWrite.String()
	}
	if a.Email == "" {
		a.Email = a.Key + "@warren.local"
	}
	if err := r.checkNewAgent(a); err != nil {
		return Agent{}, err
	}
	uid, err := r.newRunUID()
	if err != nil {
		return Agent{}, err
	}
	a.RunUID = uid
	err = r.create(ctx, string(recordKey(recAgent, a.Key)), a, agentVolumes(a.Key),
		func() { r.agents[a.Key] = a }, func() { delete(r.agents, a.Key) })
	if err != nil {
		return Agent{}, err
	}
	r.log.Info("agent added", "agent", a.Key, "role", a.Role)
	return *a, nil
}

func (r *Registry) checkNewAgent(a *Agent) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !policy.ValidKey(a.Key) {
		return badKey("agent key", a.Key)
	}
	if old := r.agents[a.Key]; old != nil {
		if old.Removing {
			return fail(backend.Busy, "agent %q is being removed", a.Key)
		}
		return fail(backend.Exist, "there is an agent %q already", a.Key)
	}
	return r.checkAgent(a)
}

// checkAgent judges a record that is to be stored. mu held.
func (r *Registry) checkAgent(a *Agent) error {
	switch a.Role {
	case policy.Orchestrator, policy.Soul, policy.Shared:
	default:
		return fail(backend.Invalid, "role %q is not one of orchestrator, soul, shared", a.Role)
	}
	if _, err := policy.ParseAccess(a.Access); err != nil {
		return &backend.Error{Kind: backend.Invalid, Err: err}
	}
	for _, id := range []string{a.User, a.OnlyUser} {
		if id == "" {
			continue
		}
		if _, err := r.user(id); err != nil {
			return err
		}
	}
	if a.OnlyUser != "" && a.Role != policy.Orchestrator {
		return fail(backend.Invalid, "only an orchestrator can be limited to one user's agents")
	}
	if a.User != "" && a.Role == policy.Shared {
		return fail(backend.Invalid, "a shared agent belongs to no user")
	}
	switch {
	case a.Publish != "" && a.Role != policy.Shared:
		return fail(backend.Invalid, "agent %q is not shared: nothing is published to it", a.Key)
	case a.Publish != "" && a.Publish != PublishOwn && a.Publish != PublishAny:
		return fail(backend.Invalid, "publish %q is not own or any", a.Publish)
	}
	if err := r.checkParent(a); err != nil {
		return err
	}
	if err := r.checkMode(a); err != nil {
		return err
	}
	return errors.Join(checkText("name", a.Name, 200), checkEmail(a.Email))
}

// checkParent finds parents that do not exist, circles, and orchestrators
// below agents that are none. mu held.
func (r *Registry) checkParent(a *Agent) error {
	for key, child := a.Parent, a; key != ""; {
		if key == a.Key {
			return fail(backend.Invalid, "agent %q: parent %q would make a circle", a.Key, a.Parent)
		}
		p, err := r.agent(key)
		if err != nil {
			return err
		}
		if child.Role == policy.Orchestrator && p.Role != policy.Orchestrator {
			return fail(backend.Invalid, "agent %q: an orchestrator's parent must be an orchestrator, and %q is a %s",
				child.Key, p.Key, p.Role)
		}
		key, child = p.Parent, &p
	}
	return nil
}

// SetAgent changes an agent; it holds in every mount when it returns.
func (r *Registry) SetAgent(ctx context.Context, key string, c AgentChange) (Agent, error) {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	a, err := r.agent(key)
	r.mu.RUnlock()
	if err != nil {
		return Agent{}, err
	}
	set := func(field *string, to *string) {
		if to != nil {
			*field = *to
		}
	}
	set(&a.User, c.User)
	set(&a.Parent, c.Parent)
	set(&a.Access, c.Access)
	set(&a.OnlyUser, c.OnlyUser)
	set(&a.Mode, c.Mode)
	set(&a.Name, c.Name)
	set(&a.Email, c.Email)
	set(&a.Publish, c.Publish)
	r.mu.RLock()
	old := r.agents[key]
	err = r.checkAgent(&a)
	r.mu.RUnlock()
	if err != nil {
		return Agent{}, err
	}
	err = r.replace(ctx, map[string]any{string(recordKey(recAgent, key)): &a},
		map[string]any{string(recordKey(recAgent, key)): old},
		func() { r.agents[key] = &a }, func() { r.agents[key] = old })
	return a, err
}

// RemoveAgent removes an agent, its memberships, its mount records, its
// tokens, the grants to it, by it and in its tree, the exceptions to the deny-list there, and all its files. The caller unmounts its mounts first. Busy: it is another's parent.
func (r *Registry) RemoveAgent(ctx context.Context, key string) error {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	a, err := r.agent(key)
	records := map[string]any{}
	projects, mounts := maps.Clone(r.projects), maps.Clone(r.mounts)
	for _, other := range r.agents {
		if err == nil && other.Parent == key && !other.Removing {
			err = fail(backend.Busy, "agent %q is the parent of %q; remove that one first, or give it another parent", key, other.Key)
		}
	}
	r.mu.RUnlock()
	if err != nil {
		return err
	}
	a.Removing = true
	records[string(recordKey(recAgent, key))] = &a
	for slug, p := range projects {
		if _, member := p.Members[key]; member {
			left := *p
			left.Members = maps.Clone(p.Members)
			delete(left.Members, key)
			projects[slug] = &left
			records[string(recordKey(recProject, slug))] = &left
		}
	}
	for id, m := range mounts {
		if m.Agent == key {
			delete(mounts, id)
			records[string(recordKey(recMount, id))] = nil
		}
	}
	for _, t := range r.Tokens() {
		if t.Agent == key {
			records[string(recordKey(recToken, t.ID))] = nil
		}
	}
	settings, fewer := r.Settings().without("/agents/" + key)
	if fewer {
		records[string(recordKey(recSettings, ""))] = &settings
	}
	under := grantsUnder("/agents/" + key)
	grants, ended := r.withoutGrants(func(g *Grant) bool { return g.Agent == key || g.By == key || under(g) })
	maps.Copy(records, ended)
	others, fewerMapped := r.withoutMapped("/agents/" + key)
	delete(others, key)
	for k, rec := range fewerMapped {
		if _, other := records[k]; !other {
			records[k] = rec
		}
	}
	if _, err := r.write(ctx, records); err != nil { // finishRemoval waits
		return err
	}
	r.mu.Lock()
	maps.Copy(r.agents, others)
	r.policies.grants = grants
	r.agents[key], r.projects, r.mounts, r.settings = &a, projects, mounts, settings
	r.tokens = withTokens(r.tokens, records)
	r.mu.Unlock()
	if err := r.publish(ctx); err != nil {
		return err
	}
	r.log.Info("agent removed", "agent", key)
	return r.finishRemoval(ctx, recAgent, key, agentVolumes(key), func() { delete(r.agents, key) })
}

// newRunUID draws a uid that no agent has. It is random, so that it tells
// nothing of how many agents there are.
func (r *Registry) newRunUID() (uint32, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	used := make(map[uint32]bool, len(r.agents))
	for _, a := range r.agents {
		used[a.RunUID] = true
	}
	for {
		var b [4]byte
		if _, err := rand.Read(b[:]); err != nil {
			return 0, err
		}
		uid := minRunUID + binary.LittleEndian.Uint32(b[:])%numRunUID
		if !used[uid] {
			return uid, nil
		}
	}
}

// checkText refuses what would break a line or a terminal.
func checkText(what, s string, limit int) error {
	if len(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fail(backend.Invalid, "%s: at most %d bytes of printable text", what, limit)
	}
	return nil
}

// checkEmail wants one @ with something on both sides and no blanks; "" is
// none.
func checkEmail(s string) error {
	if s == "" {
		return nil
	}
	local, domain, ok := strings.Cut(s, "@")
	if !ok || local == "" || domain == "" || strings.ContainsAny(s, " <>\",;:\t") || strings.Contains(domain, "@") {
		return fail(backend.Invalid, "e-mail %q: expected name@domain", s)
	}
	return checkText("e-mail", s, 254)
}
