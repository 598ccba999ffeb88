package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// viewOf is the view of who asks.
func (s *Server) viewOf(a asker) (*view.View, error) {
	return s.Space.Open(view.Options{Agent: a.agent, Administrator: a.administrator(), UID: backend.OwnerID, GID: backend.OwnerID})
}

func (s *Server) apiGrant(a asker, g workspace.Grant) control.Grant {
	out := control.Grant{ID: g.ID, Agent: g.Agent, Path: g.Path, Right: g.Right, Created: g.Created, Expires: g.Expires,
		Suspended: !s.Registry.InForce(g)}
	if g.By != "" && s.mayKnow(a, g.By) == nil {
		out.By = g.By
	}
	return out
}

// knowsGrant tells whether an asker may know of a grant: its own, those it gave,
// those in its own trees; an orchestrator of all to agents it sees on what it sees.
func (s *Server) knowsGrant(a asker, g workspace.Grant) bool {
	switch {
	case a.administrator(), g.Agent == a.agent, g.By == a.agent, ownTree(a.agent, g.Path):
		return true
	case a.role == policy.Orchestrator:
		return s.mayKnow(a, g.Agent) == nil && s.finds(a, g.Path)
	}
	return false
}

// ownTree tells whether a clean tree path is in an agent's own tree.
func ownTree(agent, path string) bool {
	home := "/agents/" + agent
	return path == home || strings.HasPrefix(path, home+"/")
}

func (s *Server) listGrants(w http.ResponseWriter, r *http.Request) error {
	a, of := askerOf(r), r.URL.Query().Get("agent")
	if of != "" {
		if err := s.mayKnow(a, of); err != nil {
			return err
		}
	}
	out := []control.Grant{}
	for _, g := range s.Registry.Grants() {
		if (of == "" || g.Agent == of) && s.knowsGrant(a, g) {
			out = append(out, s.apiGrant(a, g))
		}
	}
	slices.SortFunc(out, func(x, y control.Grant) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), cmp.Compare(x.Path, y.Path), cmp.Compare(x.ID, y.ID))
	})
	return reply(w, out)
}

// addGrant grants what is there and in the asker's view: anything for the
// administrator and an orchestrator; for a soul what it may write of its own
// trees, to agents below it.
func (s *Server) addGrant(w http.ResponseWriter, r *http.Request) error {
	var c control.GrantSpec
	if err := input(r, &c); err != nil {
		return err
	}
	a := askerOf(r)
	if err := s.mayKnow(a, c.Agent); err != nil {
		return err
	}
	ttl, err := time.ParseDuration(c.TTL)
	if err != nil || ttl <= 0 {
		return invalid("ttl %q is not a time such as 2h", c.TTL)
	}
	if c.Path == "" {
		return invalid("which path? the request names none")
	}
	v, err := s.viewOf(a)
	if err != nil {
		return err
	}
	from := a.agent
	if from == "" {
		from = c.Agent
	}
	f, err := v.Find(place(from, c.Path), true)
	if err != nil {
		return err
	}
	if a.role == policy.Soul {
		if a.agent == c.Agent || !s.isBelow(c.Agent, a.agent) {
			return failf(backend.Denied, "a soul grants to agents below it, and to no others")
		}
		if !ownTree(a.agent, f.Path) || !v.MayChange(f.Attr.Node) {
			return failf(backend.Denied, "%s: a soul grants what it may write of its own trees", f.Path)
		}
	}
	g, err := s.Registry.AddGrant(r.Context(), workspace.Grant{Agent: c.Agent, Path: f.Path, Right: c.Right, By: a.agent}, ttl)
	if err != nil {
		return err
	}
	return reply(w, s.apiGrant(a, g))
}

// revokeGrant ends a grant: for a soul one that it gave, or in its own trees.
func (s *Server) revokeGrant(w http.ResponseWriter, r *http.Request) error {
	a, id := askerOf(r), r.PathValue("id")
	g, err := s.Registry.Grant(id)
	if err != nil {
		return err
	}
	if !s.knowsGrant(a, g) {
		return workspace.NoGrant(id)
	}
	if a.role == policy.Soul && g.By != a.agent && !ownTree(a.agent, g.Path) {
		return failf(backend.Denied, "grant %s is not this agent's to revoke", id)
	}
	if err := s.Registry.RevokeGrant(r.Context(), id); err != nil {
		return err
	}
	return ok(w)
}
