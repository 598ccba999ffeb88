package server

import (
	"net/http"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func apiProject(p workspace.Project) control.Project {
	return control.Project{Slug: p.Slug, Created: p.Created, Members: p.Members, Path: "/projects/" + p.Slug}
}

func (s *Server) listProjects(w http.ResponseWriter, _ *http.Request) error {
	out := []control.Project{}
	for _, p := range s.Registry.Projects() {
		out = append(out, apiProject(p))
	}
	return reply(w, out)
}

func (s *Server) createProject(w http.ResponseWriter, r *http.Request) error {
	var c control.ProjectSpec
	if err := input(r, &c); err != nil {
		return err
	}
	p, err := s.Registry.CreateProject(r.Context(), c.Slug, c.Members)
	if err != nil {
		return err
	}
	return reply(w, apiProject(p))
}

func (s *Server) showProject(w http.ResponseWriter, r *http.Request) error {
	p, err := s.Registry.Project(r.PathValue("slug"))
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
