package server

import (
	"net/http"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// talker opens the view that asks about a session: an agent's, or the
// administrator's where a workspace is named.
func (s *Server) talker(r *http.Request, agent, workspace string) (*view.View, error) {
	if agent == "" && workspace != "" && askerOf(r).administrator() {
		return s.Space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	}
	return s.files(agent)
}

func apiSession(t workspace.Talk) control.Session {
	c := control.Session{UUID: t.Workspace.UUID, Name: t.Workspace.Name, Path: t.Path, Provider: t.Provider, Model: t.Model,
		Count: len(t.Messages), Warning: t.Warning}
	if !t.Created.IsZero() {
		c.CreatedAt = &t.Created
	}
	for _, m := range t.Messages {
		c.Messages = append(c.Messages, control.Message(m))
	}
	return c
}

func (s *Server) readSession(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.talker(r, q.Get("agent"), q.Get("workspace"))
	if err != nil {
		return err
	}
	t, err := s.Layer.ReadSession(r.Context(), v, q.Get("workspace"))
	if err != nil {
		return err
	}
	return reply(w, apiSession(t))
}

func (s *Server) newSession(w http.ResponseWriter, r *http.Request) error {
	var c control.SessionStart
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Device != "" {
		if c.Workspace != "" {
			return invalid("give workspace or device_id, not both")
		}
		v, err := s.talker(r, c.Agent, c.Device)
		if err != nil {
			return err
		}
		if c.Workspace, err = s.deviceRoom(r.Context(), v, c.Device); err != nil {
			return err
		}
	}
	v, err := s.talker(r, c.Agent, c.Workspace)
	if err != nil {
		return err
	}
	t, err := s.Layer.NewSession(r.Context(), v, c.Workspace, c.Provider, c.Model)
	if err != nil {
		return err
	}
	return reply(w, apiSession(t))
}

func (s *Server) appendSession(w http.ResponseWriter, r *http.Request) error {
	var c control.SessionMessage
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.talker(r, c.Agent, c.Workspace)
	if err != nil {
		return err
	}
	path, err := s.Layer.AppendSession(r.Context(), v, c.Workspace, workspace.Message{Role: c.Role, Text: c.Text})
	if err != nil {
		return err
	}
	return reply(w, control.Appended{Path: path, Role: c.Role})
}

func (s *Server) clearSession(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.talker(r, q.Get("agent"), q.Get("workspace"))
	if err != nil {
		return err
	}
	t, err := s.Layer.ClearSession(r.Context(), v, q.Get("workspace"))
	if err != nil {
		return err
	}
	return reply(w, apiSession(t))
}
