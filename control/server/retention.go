package server

import (
	"maps"
	"net/http"
	"slices"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) listRetention(w http.ResponseWriter, _ *http.Request) error {
	kept, out := s.Registry.Retention(), []control.Retention{}
	for _, kind := range slices.Sorted(maps.Keys(kept)) {
		age := "never"
		if kept[kind] > 0 {
			age = kept[kind].String()
		}
		out = append(out, control.Retention{Kind: kind, Age: age})
	}
	return reply(w, out)
}

func (s *Server) setRetention(w http.ResponseWriter, r *http.Request) error {
	var c control.Retention
	if err := input(r, &c); err != nil {
		return err
	}
	if err := s.Registry.SetRetention(r.Context(), c.Kind, c.Age); err != nil {
		return err
	}
	s.Log.Info("retention set", "kind", c.Kind, "age", c.Age)
	return ok(w)
}

func (s *Server) collectOld(w http.ResponseWriter, r *http.Request) error {
	var c struct {
		DryRun bool `json:"dry_run"`
	}
	if err := input(r, &c); err != nil {
		return err
	}
	got, err := (&workspace.Collector{Registry: s.Registry, Door: s.Space, Log: s.Log}).Collect(r.Context(), c.DryRun)
	if err != nil {
		return err
	}
	return reply(w, control.OldFiles(got))
}
