package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

func apiAgent(a workspace.Agent) control.Agent {
	home := "/agents/" + a.Key
	if a.Role == policy.Shared {
		a.Publish = cmp.Or(a.Publish, workspace.PublishOwn)
	}
	return control.Agent{
		Key: a.Key, Role: string(a.Role), User: a.User, Parent: a.Parent, Access: a.Access, OnlyUser: a.OnlyUser,
		Name: a.Name, Email: a.Email, RunUID: a.RunUID, Created: a.Created,
		Mode: cmp.Or(a.Mode, workspace.ModeOwn), Publish: a.Publish, Home: home, Work: home + "/workspace", Scratch: home + "/scratch",
	}
}

// agentFor is what an asker may know of an agent that it knows.
func (s *Server) agentFor(to asker, a workspace.Agent) control.Agent {
	out := apiAgent(a)
	if to.administrator() {
		return out
	}
	out.RunUID = 0
	if out.Mode != workspace.ModeOwn && to.role != policy.Orchestrator && to.agent != a.Key {
		out.Mode = "" // it may name what the asker does not know of
	}
	if out.Parent != "" && s.mayKnow(to, out.Parent) != nil {
		out.Parent = ""
	}
	if out.User != "" && !s.knowsUser(to, out.User) {
		out.User = ""
	}
	return out
}

func (s *Server) listAgents(w http.ResponseWriter, r *http.Request) error {
	to, out := askerOf(r), []control.Agent{}
	for _, a := range s.Registry.Agents() {
		if s.mayKnow(to, a.Key) == nil {
			out = append(out, s.agentFor(to, a))
		}
	}
	return reply(w, out)
}

func (s *Server) addAgent(w http.ResponseWriter, r *http.Request) error {
	var c control.AgentSpec
	if err := input(r, &c); err != nil {
		return err
	}
	a, err := s.Registry.AddAgent(r.Context(), workspace.AgentSpec{
		Key: c.Key, Role: policy.Role(c.Role), User: c.User, Parent: c.Parent, OnlyUser: c.OnlyUser,
		Access: c.Access, Name: c.Name, Email: c.Email})
	if err != nil {
		return err
	}
	return reply(w, apiAgent(a))
}

func (s *Server) showAgent(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Registry.Agent(r.PathValue("key"))
	if err != nil {
		return err
	}
	return reply(w, s.agentFor(askerOf(r), a))
}

func (s *Server) setAgent(w http.ResponseWriter, r *http.Request) error {
	var c control.AgentChange
	if err := input(r, &c); err != nil {
		return err
	}
	key, by := r.PathValue("key"), askerOf(r)
	if err := s.maySet(by, key, c); err != nil {
		return err
	}
	a, err := s.Registry.SetAgent(r.Context(), key, workspace.AgentChange(c))
	if err != nil {
		return err
	}
	s.recheckHanded()
	return reply(w, s.agentFor(by, a))
}

// maySet checks what an orchestrator wants of an agent that it sees: it sets the
// access of others, not of itself and those above it.
func (s *Server) maySet(by asker, key string, c control.AgentChange) error {
	switch {
	case by.administrator():
		return nil
	case c != control.AgentChange{Access: c.Access, Publish: c.Publish}:
		return failf(backend.Denied, "an orchestrator sets an agent's access and what publications may replace; the rest is the administrator's")
	case s.isBelow(by.agent, key):
		return failf(backend.Denied, "an orchestrator sets the access of others, and not of the agents above it")
	}
	return nil
}

// removeAgent takes an agent's mounts and runs away, then the agent.
func (s *Server) removeAgent(w http.ResponseWriter, r *http.Request) error {
	key := r.PathValue("key")
	if _, err := s.Registry.Agent(key); err != nil {
		return err
	}
	for _, other := range s.Registry.Agents() {
		if other.Parent == key { // the registry would refuse, but after the mounts are gone
			return s.Registry.RemoveAgent(r.Context(), key)
		}
	}
	if err := s.dropMountsOf(r.Context(), key); err != nil {
		return err
	}
	tokens := s.tokensOf(key)
	if err := s.Registry.RemoveAgent(r.Context(), key); err != nil {
		return err
	}
	s.endTokens(tokens)
	s.recheckHanded()
	return ok(w)
}

// dropMountsOf unmounts all mounts and ends all runs of an agent.
func (s *Server) dropMountsOf(ctx context.Context, key string) error {
	s.mu.Lock()
	var runs []*run
	for _, r := range s.runs {
		if r.agent == key {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	for _, r := range runs {
		r.end()
		<-r.gone
	}
	s.endHanded(func(h *handed) bool { return h.mount.Agent == key })
	s.mounting.Lock()
	defer s.mounting.Unlock()
	for _, m := range s.Registry.Mounts() {
		if m.Agent != key {
			continue
		}
		if err := s.Mounts.Unmount(ctx, m.Dir, true); err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
	}
	return nil
}
