package server

import (
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) showPolicy(w http.ResponseWriter, r *http.Request) error {
	if by := askerOf(r); !by.administrator() {
		return s.showPolicyTo(w, r, by)
	}
	agent := r.URL.Query().Get("agent")
	if agent != "" {
		if _, err := s.Registry.Agent(agent); err != nil {
			return err
		}
	}
	set := s.Registry.Settings()
	p := control.Policy{Agent: agent, Cedar: s.Space.Engine().Show(agent), Epoch: s.Space.Engine().Epoch(),
		Exceptions: []control.NameException{}}
	p.DenyNames, p.Rules = namesFor(set, agent)
	s.settingsOf(&p)
	for _, x := range set.Exceptions {
		p.Exceptions = append(p.Exceptions, control.NameException(x))
	}
	return reply(w, p)
}

func (s *Server) allowName(w http.ResponseWriter, r *http.Request) error {
	var x control.NameException
	if err := input(r, &x); err != nil {
		return err
	}
	if err := s.Registry.AllowName(r.Context(), workspace.NameException(x)); err != nil {
		return err
	}
	return ok(w)
}

func (s *Server) disallowName(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	x := workspace.NameException{Name: q.Get("name"), Under: q.Get("under")}
	if err := s.Registry.DisallowName(r.Context(), x); err != nil {
		return err
	}
	return ok(w)
}

func (s *Server) denyName(w http.ResponseWriter, r *http.Request) error {
	var x control.DeniedName
	if err := input(r, &x); err != nil {
		return err
	}
	return s.setName(w, r, workspace.NameRule(x), false)
}

func (s *Server) undenyName(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	return s.setName(w, r, workspace.NameRule{Name: q.Get("name"), Agent: q.Get("agent"), Under: q.Get("under")}, true)
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	agent, action, p := q.Get("agent"), q.Get("action"), q.Get("path")
	who, err := s.Registry.Agent(agent)
	if err != nil {
		return err
	}
	act, known := policy.ParseAction(action)
	if !known {
		return invalid("action %q is not one of see, read, write, create, remove, move, link", action)
	}
	if p == "" {
		return invalid("which path? the request names none")
	}
	p = place(agent, p)
	by := askerOf(r)
	if by.administrator() && q.Get("discreet") == "true" {
		by = asker{agent: agent, role: who.Role}
	}
	if !by.administrator() {
		return s.explainTo(w, by, agent, act, p)
	}
	x, err := s.Space.Explain(agent, act, p)
	if err != nil {
		return err
	}
	return reply(w, explanation(agent, action, p, &x))
}

// explainTo tells an agent no more than it sees: what is hidden from it, or from
// the agent that it asks about, does not exist. The rules are an orchestrator's.
func (s *Server) explainTo(w http.ResponseWriter, to asker, agent string, act policy.Action, p string) error {
	if to.agent == agent && to.role != policy.Orchestrator {
		v, err := s.viewOf(to)
		if err != nil {
			return err
		}
		x, err := v.Ask(act.String(), p)
		if err != nil {
			return err
		}
		return reply(w, control.Explanation{Agent: agent, Action: x.Action, Path: p, Allow: x.Allow, Rules: []control.PolicyRule{}, Note: x.Note})
	}
	finds := func(p string) bool {
		return s.finds(to, p) && (to.agent == agent || to.role == policy.Orchestrator || s.finds(asker{agent: agent}, p))
	}
	// Looking behind the view takes longer where something is: only what is seen is
	// looked at so.
	var x policy.Explanation
	found := finds(p)
	absent := !found && (act != policy.Create || !finds(path.Dir(p)))
	if !absent {
		var err error
		if x, err = s.Space.Explain(agent, act, p); err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
		absent = err != nil || !found && !x.Allow
	}
	if absent {
		x = policy.Explanation{}
	}
	out := explanation(agent, act.String(), p, &x)
	switch {
	case absent:
		out.Note = "it does not exist"
	case to.role != policy.Orchestrator:
		out.Rules, out.Errors = []control.PolicyRule{}, nil
		out.Note = map[bool]string{true: "policy permits it", false: "policy denies it"}[x.Allow]
	}
	return reply(w, out)
}

func explanation(agent, action, p string, x *policy.Explanation) control.Explanation {
	out := control.Explanation{Agent: agent, Action: action, Path: p, Allow: x.Allow, Rules: []control.PolicyRule{}}
	for _, rule := range x.Rules {
		out.Rules = append(out.Rules, control.PolicyRule{ID: string(rule.ID), File: rule.File, Line: rule.Line, Reason: rule.Reason})
	}
	for _, e := range x.Errors {
		out.Errors = append(out.Errors, e.Text)
	}
	if len(x.Rules) == 0 && !x.Allow {
		out.Note = "nothing permits it, so it is denied"
	}
	return out
}

func (s *Server) listPolicies(w http.ResponseWriter, _ *http.Request) error {
	out := []control.PolicyFile{}
	for _, f := range s.Registry.PolicyFiles() {
		out = append(out, control.PolicyFile(f))
	}
	return reply(w, out)
}

func (s *Server) loadPolicy(w http.ResponseWriter, r *http.Request) error {
	var c control.PolicyText
	if err := input(r, &c); err != nil {
		return err
	}
	f, err := s.Registry.LoadPolicy(r.Context(), c.Name, c.Text)
	if err != nil {
		return err
	}
	return reply(w, control.PolicyFile(f))
}

func (s *Server) checkPolicy(w http.ResponseWriter, r *http.Request) error {
	var c control.PolicyText
	if err := input(r, &c); err != nil {
		return err
	}
	check := s.Registry.CheckPolicy
	if strings.HasSuffix(c.Name, ".toml") {
		check = s.Registry.CheckSettings
	}
	if err := check(c.Name, c.Text); err != nil {
		return err
	}
	return ok(w)
}

func (s *Server) removePolicy(w http.ResponseWriter, r *http.Request) error {
	if err := s.Registry.RemovePolicy(r.Context(), r.URL.Query().Get("name")); err != nil {
		return err
	}
	return ok(w)
}
