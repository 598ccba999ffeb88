package server

import (
	"net/http"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func apiBinding(b workspace.Binding) control.Binding {
	return control.Binding{Device: b.Device, Workspace: b.Workspace, BoundAt: b.Bound}
}

func (s *Server) listDevices(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.deviceView(r); err != nil {
		return err
	}
	out := []control.Binding{}
	for _, b := range s.Registry.Devices() {
		out = append(out, apiBinding(b))
	}
	return reply(w, out)
}

func (s *Server) bindDevice(w http.ResponseWriter, r *http.Request) error {
	var c control.BindingSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if _, err := s.deviceView(r); err != nil {
		return err
	}
	b, err := s.Registry.BindDevice(r.Context(), c.Device, c.Workspace)
	if err != nil {
		return err
	}
	return reply(w, apiBinding(b))
}

func (s *Server) unbindDevice(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.deviceView(r); err != nil {
		return err
	}
	if err := s.Registry.UnbindDevice(r.Context(), r.URL.Query().Get("device_id")); err != nil {
		return err
	}
	return ok(w)
}

func (s *Server) resolveDevice(w http.ResponseWriter, r *http.Request) error {
	var c control.BindingSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Workspace != "" {
		return invalid("resolve: the workspace is what is asked for")
	}
	if _, err := s.deviceView(r); err != nil {
		return err
	}
	room, created, err := s.Registry.ResolveDevice(r.Context(), c.Device)
	if err != nil {
		return err
	}
	out := s.apiWorkspace(room)
	out.Created = created
	return reply(w, out)
}
