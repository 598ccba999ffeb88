package server

import (
	"net/http"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) apiUser(u workspace.User) control.User {
	out := control.User{ID: u.ID, Name: u.Name, Email: u.Email, Created: u.Created}
	for _, a := range s.Registry.Agents() {
		if a.User == u.ID {
			out.Agents = append(out.Agents, a.Key)
		}
	}
	return out
}

func (s *Server) listUsers(w http.ResponseWriter, _ *http.Request) error {
	out := []control.User{}
	for _, u := range s.Registry.Users() {
		out = append(out, s.apiUser(u))
	}
	return reply(w, out)
}

func (s *Server) addUser(w http.ResponseWriter, r *http.Request) error {
	var spec control.UserSpec
	if err := input(r, &spec); err != nil {
		return err
	}
	u, err := s.Registry.AddUser(r.Context(), spec.ID, spec.Name, spec.Email)
	if err != nil {
		return err
	}
	return reply(w, s.apiUser(u))
}

func (s *Server) showUser(w http.ResponseWriter, r *http.Request) error {
	u, err := s.Registry.User(r.PathValue("id"))
	if err != nil {
		return err
	}
	return reply(w, s.apiUser(u))
}

func (s *Server) removeUser(w http.ResponseWriter, r *http.Request) error {
	if err := s.Registry.RemoveUser(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	return ok(w)
}
