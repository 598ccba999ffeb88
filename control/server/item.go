package server

import (
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) listItems(w http.ResponseWriter, r *http.Request) error {
	v, err := s.files(r.URL.Query().Get("agent"))
	if err != nil {
		return err
	}
	items, err := s.Layer.Items(v)
	if err != nil {
		return err
	}
	out := []control.ItemInfo{}
	for _, it := range items {
		c := control.ItemInfo{Key: it.Key, Type: it.Type, Size: it.Size, CreatedBy: it.By, UpdatedAt: it.Changed}
		if !utf8.ValidString(it.Key) {
			c.KeyBytes = []byte(it.Key)
		}
		if it.Type == "text" {
			c.Preview = &it.Preview
		}
		out = append(out, c)
	}
	return reply(w, out)
}

func (s *Server) readItem(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	it, err := s.Layer.ReadItem(v, q.Get("key"))
	if err != nil {
		return err
	}
	return reply(w, control.Item{Key: it.Key, Value: it.Value, CreatedBy: it.By, CreatedAt: it.Made, UpdatedAt: it.Changed})
}

func (s *Server) writeItem(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	value, err := io.ReadAll(io.LimitReader(r.Body, workspace.MaxItem+1))
	if err != nil {
		return invalid("read the request: %v", err)
	}
	id, err := s.Layer.WriteItem(v, q.Get("key"), string(value))
	if err != nil {
		return err
	}
	return reply(w, control.ItemWritten{Status: "written", WorkspaceID: id, Key: q.Get("key")})
}

func (s *Server) deleteItem(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	if err := s.Layer.DeleteItem(v, q.Get("key")); err != nil {
		return err
	}
	return reply(w, control.ItemDeleted{Status: "deleted", Key: q.Get("key")})
}

func (s *Server) publishItem(w http.ResponseWriter, r *http.Request) error {
	var c control.Publication
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	p := workspace.Publication{Key: c.Key, Target: c.Target, TargetKey: c.TargetKey}
	from := c.Key
	if c.Path != "" {
		p.Path, from = place(c.Agent, c.Path), c.Path
	}
	if c.Target == "" {
		return invalid("publish: to which agent? the request names none")
	}
	key, err := s.Layer.Publish(v, p)
	if err != nil {
		return err
	}
	return reply(w, control.ItemPublished{Status: "published", FromKey: from, ToAgent: c.Target, ToKey: key})
}
