package server

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

func apiProject(p workspace.Project) control.Project {
	return control.Project{Slug: p.Slug, Created: p.Created, Members: p.Members, Trust: p.Trust, Path: "/projects/" + p.Slug}
}

// knowsProject tells whether an asker may know of a project: whose place it
// sees. Its members know each other by what they make there.
func (s *Server) knowsProject(to asker, slug string) bool {
	return to.administrator() || s.finds(to, "/projects/"+slug)
}

func (s *Server) listProjects(w http.ResponseWriter, r *http.Request) error {
	to, out := askerOf(r), []control.Project{}
	for _, p := range s.Registry.Projects() {
		if s.knowsProject(to, p.Slug) {
			out = append(out, apiProject(p))
		}
	}
	return reply(w, out)
}

func (s *Server) createProject(w http.ResponseWriter, r *http.Request) error {
	var c control.ProjectSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if err := workspace.CheckTemplate(c.Template); err != nil {
		return err
	}
	p, err := s.Registry.CreateProject(r.Context(), c.Slug, c.Members)
	if err != nil {
		return err
	}
	if c.Template != "" {
		v, err := s.ownView(r, "")
		if err != nil {
			return err
		}
		if err := s.Layer.LayOut(v, "/projects/"+p.Slug, p.Slug, p.Members); err != nil {
			return err
		}
	}
	return reply(w, apiProject(p))
}

func (s *Server) showProject(w http.ResponseWriter, r *http.Request) error {
	slug := r.PathValue("slug")
	p, err := s.Registry.Project(slug)
	if err == nil && !s.knowsProject(askerOf(r), slug) {
		err = workspace.NoProject(slug)
	}
	if err != nil {
		return err
	}
	return reply(w, apiProject(p))
}

func (s *Server) setMember(w http.ResponseWriter, r *http.Request) error {
	var c control.Member
	if err := input(r, &c); err != nil {
		return err
	}
	p, err := s.Registry.SetMember(r.Context(), r.PathValue("slug"), c.Agent, c.Right)
	if err != nil {
		return err
	}
	return reply(w, apiProject(p))
}

// setTrust lets a member decide for itself, an orchestrator for itself and for all members, and
// the administrator for anybody.
func (s *Server) setTrust(w http.ResponseWriter, r *http.Request) error {
	var c control.Trust
	if err := input(r, &c); err != nil {
		return err
	}
	to, slug := askerOf(r), r.PathValue("slug")
	p, err := s.Registry.Project(slug)
	if err == nil && !s.knowsProject(to, slug) {
		err = workspace.NoProject(slug)
	}
	if err != nil {
		return err
	}
	if !to.administrator() && to.role != policy.Orchestrator && c.Agent != to.agent {
		return failf(backend.Denied, "an agent decides for itself alone whom it trusts; say --agent %s", to.agent)
	}
	concerned := []string{c.Agent}
	if c.Agent == "" {
		concerned = slices.Sorted(maps.Keys(p.Members))
	}
	for _, key := range concerned {
		if err := s.mayKnow(to, key); err != nil {
			return err
		}
	}
	p, err = s.Registry.SetTrust(r.Context(), slug, cmp.Or(c.Agent, policy.Everyone), c.On)
	if err != nil {
		return err
	}
	return reply(w, apiProject(p))
}
