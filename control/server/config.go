package server

import (
	"net/http"
	"strings"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) showConfig(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.ownView(r, q.Get("agent"))
	if err != nil {
		return err
	}
	var vars []workspace.Variable
	for name := range strings.SplitSeq(q.Get("variables"), ",") {
		if name == "" {
			continue
		}
		key, known := control.ConfigVariables()[name]
		if !known {
			return invalid("variable %q overrides no setting", name)
		}
		vars = append(vars, workspace.Variable{Name: name, Key: key})
	}
	c, err := s.Layer.Config(v, q.Get("workspace"), vars)
	if err != nil {
		return err
	}
	out := control.Config{Settings: []control.Setting{}, Warnings: c.Warnings}
	for _, x := range c.Settings {
		out.Settings = append(out.Settings, control.Setting(x))
	}
	return reply(w, out)
}

func (s *Server) showContext(w http.ResponseWriter, r *http.Request) error {
	agent := r.URL.Query().Get("agent")
	v, err := s.files(agent)
	if err != nil {
		return err
	}
	text, err := s.Layer.Context(v)
	if err != nil {
		return err
	}
	return reply(w, control.Context{Agent: agent, Text: text})
}
