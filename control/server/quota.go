package server

import (
	"net/http"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// quotaView opens the agent's view, or the administrator's, and gives path as a
// tree path in it.
func (s *Server) quotaView(agent, path string) (*view.View, string, error) {
	if agent != "" {
		v, err := s.files(agent)
		return v, place(agent, path), err
	}
	if path != "" && !strings.HasPrefix(path, "/") {
		return nil, "", invalid("path %q: without an agent it starts with /", path)
	}
	v, err := s.Space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	return v, path, err
}

func (s *Server) listQuotas(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, path, err := s.quotaView(q.Get("agent"), q.Get("path"))
	if err != nil {
		return err
	}
	var all []view.Quota
	if q.Get("path") == "" {
		all, err = v.Quotas()
	} else {
		all = make([]view.Quota, 1)
		all[0], err = v.Quota(path)
	}
	if err != nil {
		return err
	}
	out := make([]control.Quota, len(all))
	for i := range all {
		out[i] = apiQuota(all[i])
	}
	return reply(w, out)
}

func (s *Server) setQuota(w http.ResponseWriter, r *http.Request) error {
	var c control.QuotaSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Path == "" {
		return invalid("which volume? the request names no path")
	}
	v, path, err := s.quotaView(c.Agent, c.Path)
	if err != nil {
		return err
	}
	q, err := v.SetQuota(path, view.QuotaChange{Bytes: c.Bytes, SoftBytes: c.SoftBytes, Inodes: c.Inodes, SoftInodes: c.SoftInodes})
	if err != nil {
		return err
	}
	s.Log.Info("quota set", "agent", c.Agent, "path", q.Path, "bytes", q.Bytes.Hard, "soft_bytes", q.Bytes.Soft,
		"inodes", q.Inodes.Hard, "soft_inodes", q.Inodes.Soft)
	return reply(w, apiQuota(q))
}

func apiQuota(q view.Quota) control.Quota {
	return control.Quota{Path: q.Path, Bytes: control.Amount(q.Bytes), Inodes: control.Amount(q.Inodes)}
}
