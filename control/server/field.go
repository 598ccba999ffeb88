package server

import (
	"net/http"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// holder opens the view that asks about fields: an agent's, or the
// administrator's where only those of another agent are meant.
func (s *Server) holder(r *http.Request, agent, of string) (*view.View, error) {
	if agent == "" && of != "" && askerOf(r).administrator() {
		return s.Space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	}
	return s.files(agent)
}

func apiField(f workspace.Field) control.Field {
	return control.Field{Name: f.Name, Type: f.Type, Description: f.Description, ReadOnly: f.ReadOnly,
		Set: f.Set, Value: f.Value, Schema: f.Schema}
}

func (s *Server) listFields(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.holder(r, q.Get("agent"), q.Get("of"))
	if err != nil {
		return err
	}
	fields, err := s.Layer.Fields(v, q.Get("of"))
	if err != nil {
		return err
	}
	out := []control.Field{}
	for _, f := range fields {
		out = append(out, apiField(f))
	}
	return reply(w, out)
}

func (s *Server) readField(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.holder(r, q.Get("agent"), q.Get("of"))
	if err != nil {
		return err
	}
	f, err := s.Layer.Field(v, q.Get("of"), q.Get("name"))
	if err != nil {
		return err
	}
	return reply(w, apiField(f))
}

func (s *Server) setField(w http.ResponseWriter, r *http.Request) error {
	var c control.FieldSetting
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Text != nil && c.Value != nil {
		return invalid("give value or text, not both")
	}
	v, err := s.holder(r, c.Agent, c.Of)
	if err != nil {
		return err
	}
	var change workspace.FieldChange
	if c.Text != nil {
		change, err = s.Layer.SetFieldText(v, c.Of, c.Name, []byte(*c.Text))
	} else {
		change, err = s.Layer.SetField(v, c.Of, c.Name, c.Value)
	}
	if err != nil {
		return err
	}
	return reply(w, control.FieldChange(change))
}
