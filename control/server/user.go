package server

import (
	"net/http"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

// apiUser is what an asker may know of a user.
func (s *Server) apiUser(to asker, u workspace.User) control.User {
	out := control.User{ID: u.ID, Name: u.Name, Email: u.Email, Created: u.Created}
	for _, a := range s.Registry.Agents() {
		if a.User == u.ID && s.mayKnow(to, a.Key) == nil {
			out.Agents = append(out.Agents, a.Key)
		}
	}
	return out
}

// knowsUser tells whether an asker may know of a user: whose place it sees.
func (s *Server) knowsUser(to asker, id string) bool {
	return to.administrator() || s.finds(to, "/users/"+id)
}

func (s *Server) listUsers(w http.ResponseWriter, r *http.Request) error {
	to, out := askerOf(r), []control.User{}
	for _, u := range s.Registry.Users() {
		if s.knowsUser(to, u.ID) {
			out = append(out, s.apiUser(to, u))
		}
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
	return reply(w, s.apiUser(askerOf(r), u))
}

func (s *Server) showUser(w http.ResponseWriter, r *http.Request) error {
	to, id := askerOf(r), r.PathValue("id")
	u, err := s.Registry.User(id)
	if err == nil && !s.knowsUser(to, id) {
		err = workspace.NoUser(id)
	}
	if err != nil {
		return err
	}
	return reply(w, s.apiUser(to, u))
}

func (s *Server) removeUser(w http.ResponseWriter, r *http.Request) error {
	if err := s.Registry.RemoveUser(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	return ok(w)
}
