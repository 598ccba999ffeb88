package workspace

import (
	"context"
	"maps"
	"path"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy"
)

// Grant is a permission on one subtree for one agent until a time. The record of
// one.
type Grant struct {
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	Path    string    `json:"path"`         // clean tree path; what stands there may change
	Right   string    `json:"right"`        // read, write
	By      string    `json:"by,omitempty"` // the agent that gave it; "": the administrator
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`

	end uptime.Deadline // of Expires, by both clocks
}

// Bounds of grants.
const (
	maxGrants   = 1000 // in force at a time
	maxGiven    = 100  // of these by one agent that is no orchestrator: it does not use up those of others
	maxGrantTTL = 366 * 24 * time.Hour
	// maxExpiryWait is the longest time between two looks at the clocks: the wall clock
	// may be set, and the machine may sleep.
	maxExpiryWait = time.Minute
	// expiryRetry is when an expiry that could not take effect is tried again.
	expiryRetry = time.Second
)

// policies are the records that decide besides those of agents and projects, and
// the timer that ends grants.
type policies struct {
	grants map[string]*Grant      // by id; the map is replaced too; guarded by Registry.mu
	files  map[string]*PolicyFile // by name; the map is replaced too; guarded by Registry.mu

	expiry *time.Timer // guarded by Registry.change
	closed bool        // guarded by Registry.change
}

// Grants lists the grants that have not expired, by id.
func (r *Registry) Grants() []Grant {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.policies.grants, func(g *Grant) bool { return !r.clock.Over(g.end) })
}

// Grant gives one. NotFound.
func (r *Registry) Grant(id string) (Grant, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if g := r.policies.grants[id]; g != nil && !r.clock.Over(g.end) {
		return *g, nil
	}
	return Grant{}, NoGrant(id)
}

// NoGrant is the error for an id that is no grant's, or none's that whoever asks
// may know of: the words are the same.
func NoGrant(id string) error {
	return fail(backend.NotFound, "no grant %q; `warren grants` lists them", id)
}

// InForce tells whether a grant holds: one that a soul gave holds for as long as
// its agent is below that soul.
func (r *Registry) InForce(g Grant) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.inForce(&g)
}

// inForce: mu held.
func (r *Registry) inForce(g *Grant) bool {
	to := r.agents[g.Agent]
	if to == nil || to.Removing || r.clock.Over(g.end) {
		return false
	}
	if g.By == "" {
		return true
	}
	by := r.agents[g.By]
	if by == nil || by.Removing {
		return false
	}
	if by.Role == policy.Orchestrator {
		return true
	}
	for a := to; a != nil && a.Parent != ""; a = r.agents[a.Parent] {
		if a.Parent == g.By {
			return true
		}
	}
	return false
}

// AddGrant gives an agent the right read or write on what stands at a tree path
// and below it, for ttl. It holds in every mount when it returns. What to grant
// there is and whether who asks may is for the caller to see to. NotFound: no
// such agent; Invalid: the rest of what can be wrong with it; Quota: there are
// 1,000, or 100 by a soul.
func (r *Registry) AddGrant(ctx context.Context, g Grant, ttl time.Duration) (Grant, error) {
	r.change.Lock()
	defer r.change.Unlock()
	a, err := r.Agent(g.Agent)
	if err != nil {
		return Grant{}, err
	}
	g.Path = path.Clean(g.Path)
	_, _, inVolume := policy.PlaceOf(g.Path)
	switch err := policy.CheckTreePath(g.Path); {
	case err != nil:
		return Grant{}, fail(backend.Invalid, "%v", err)
	case a.Role == policy.Shared:
		return Grant{}, fail(backend.Invalid, "agent %q is shared: it sees nothing but its own tree, so nothing can be granted to it", g.Agent)
	case !inVolume:
		return Grant{}, fail(backend.Invalid, "%s stands above the trees of agents, users and projects; grant one of these, or what is in it", g.Path)
	case g.Right != "read" && g.Right != "write":
		return Grant{}, fail(backend.Invalid, "right %q is not read or write", g.Right)
	case ttl <= 0 || ttl > maxGrantTTL:
		return Grant{}, fail(backend.Invalid, "a grant lasts for some time, and for %s at most", maxGrantTTL)
	}
	if err := r.roomForGrant(g.By); err != nil {
		return Grant{}, err
	}
	if g.ID, err = newID(); err != nil {
		return Grant{}, err
	}
	g.Created = r.now().UTC()
	g.Expires = g.Created.Add(ttl)
	g.end = r.clock.Until(g.Created, g.Expires)
	if err := r.setGrants(ctx, map[string]*Grant{g.ID: &g}); err != nil {
		return Grant{}, err
	}
	r.log.Info("granted", "grant", g.ID, "agent", g.Agent, "right", g.Right, "path", g.Path, "by", g.By, "expires", g.Expires)
	return g, nil
}

// roomForGrant tells whether an agent ("": the administrator) may give one more.
func (r *Registry) roomForGrant(by string) error {
	all := r.Grants()
	if giver, err := r.Agent(by); err == nil && giver.Role != policy.Orchestrator {
		given := 0
		for _, g := range all {
			if g.By == by {
				given++
			}
		}
		if given >= maxGiven {
			return fail(backend.Quota, "agent %q has given %d grants; revoke some (`warren grants` lists them)", by, given)
		}
	}
	if len(all) >= maxGrants {
		return fail(backend.Quota, "there are %d grants; revoke some (`warren grants` lists them)", maxGrants)
	}
	return nil
}

// RevokeGrant ends a grant. It holds in every mount when it returns. NotFound.
func (r *Registry) RevokeGrant(ctx context.Context, id string) error {
	r.change.Lock()
	defer r.change.Unlock()
	if _, err := r.Grant(id); err != nil {
		return err
	}
	err := r.setGrants(ctx, map[string]*Grant{id: nil})
	if err == nil {
		r.log.Info("grant revoked", "grant", id)
	}
	return err
}

// setGrants stores changed grants (nil: ended) and publishes. change held.
func (r *Registry) setGrants(ctx context.Context, changed map[string]*Grant) error {
	r.mu.RLock()
	old := r.policies.grants
	r.mu.RUnlock()
	next, records, undo := maps.Clone(old), map[string]any{}, map[string]any{}
	for id, g := range changed {
		key := string(recordKey(recGrant, id))
		undo[key], records[key] = nil, nil
		if was := old[id]; was != nil {
			undo[key] = was
		}
		delete(next, id)
		if g != nil {
			next[id], records[key] = g, g
		}
	}
	err := r.replace(ctx, records, undo, func() { r.policies.grants = next }, func() { r.policies.grants = old })
	r.schedule()
	return err
}

// withoutGrants gives the grants without those that drop picks, and the records
// that say so. change held.
func (r *Registry) withoutGrants(drop func(*Grant) bool) (left map[string]*Grant, records map[string]any) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	left, records = maps.Clone(r.policies.grants), map[string]any{}
	for id, g := range left {
		if drop(g) {
			delete(left, id)
			records[string(recordKey(recGrant, id))] = nil
		}
	}
	return left, records
}

// grantsUnder tells of grants at top or below it.
func grantsUnder(top string) func(*Grant) bool {
	return func(g *Grant) bool { return g.Path == top || strings.HasPrefix(g.Path, top+"/") }
}

// schedule sets the timer to the next expiry. change held, or nobody else there
// yet.
func (r *Registry) schedule() {
	p := &r.policies
	if p.expiry != nil {
		p.expiry.Stop()
		p.expiry = nil
	}
	wait := time.Duration(-1)
	r.mu.RLock()
	for _, g := range p.grants {
		if left := r.clock.Left(g.end); wait < 0 || left < wait {
			wait = left
		}
	}
	r.mu.RUnlock()
	if wait >= 0 && !p.closed {
		p.expiry = time.AfterFunc(min(wait, maxExpiryWait), r.expire)
	}
}

// expire ends the grants whose time has come, in every mount. It does not wait for
// the disk to take note: their records say when they end.
func (r *Registry) expire() {
	r.change.Lock()
	defer r.change.Unlock()
	if r.policies.closed {
		return
	}
	ctx := context.Background()
	left, records := r.withoutGrants(func(g *Grant) bool { return r.clock.Over(g.end) })
	if len(records) == 0 {
		r.schedule()
		return
	}
	if err := r.publish(ctx); err != nil { // facts has those in force only
		r.log.Error("grants that have expired are still in force; trying again", "err", err)
		r.policies.expiry = time.AfterFunc(expiryRetry, r.expire)
		return
	}
	r.locked(func() { r.policies.grants = left })
	r.schedule()
	for key := range records {
		r.log.Info("grant expired", "grant", strings.TrimPrefix(key, "g"+recGrant+"/"))
	}
	if err := r.put(ctx, records); err != nil {
		r.log.Warn("records of grants that have expired stay until the next start", "err", err)
	}
}

// Close ends what the registry does by itself. It does nothing else: the store
// is the caller's.
func (r *Registry) Close() {
	r.change.Lock()
	defer r.change.Unlock()
	r.policies.closed = true
	if r.policies.expiry != nil {
		r.policies.expiry.Stop()
	}
}

// grantFacts are the grants in force. mu held.
func (r *Registry) grantFacts() (out []policy.Grant) {
	for _, g := range sorted(r.policies.grants, r.inForce) {
		out = append(out, policy.Grant{ID: g.ID, Agent: g.Agent, Path: g.Path, Right: g.Right, Expires: g.Expires})
	}
	return out
}
