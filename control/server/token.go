package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

func (s *Server) apiToken(t workspace.Token) control.Token {
	return control.Token{ID: t.ID, Agent: t.Agent, Created: t.Created, Expires: t.Expires, Expired: s.Registry.Expired(&t)}
}

// listTokens lists those of the agents that the asker may know of.
func (s *Server) listTokens(w http.ResponseWriter, r *http.Request) error {
	a, of := askerOf(r), r.URL.Query().Get("agent")
	if of != "" {
		if err := s.mayKnow(a, of); err != nil {
			return err
		}
	}
	out := []control.Token{}
	for _, t := range s.Registry.Tokens() {
		if (of == "" || t.Agent == of) && s.mayKnow(a, t.Agent) == nil {
			out = append(out, s.apiToken(t))
		}
	}
	slices.SortFunc(out, func(x, y control.Token) int {
		return cmp.Or(cmp.Compare(x.Agent, y.Agent), x.Created.Compare(y.Created), cmp.Compare(x.ID, y.ID))
	})
	return reply(w, out)
}

func (s *Server) createToken(w http.ResponseWriter, r *http.Request) error {
	var c control.TokenSpec
	if err := input(r, &c); err != nil {
		return err
	}
	var ttl time.Duration
	if c.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(c.TTL); err != nil || ttl <= 0 {
			return invalid("ttl %q is not a time such as 24h", c.TTL)
		}
	}
	t, text, err := s.Registry.CreateToken(r.Context(), c.Agent, ttl)
	if err != nil {
		return err
	}
	return reply(w, control.NewToken{Token: s.apiToken(t), Text: text})
}

// revokeToken answers when nothing that came with the token goes on.
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.Registry.RevokeToken(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	s.guests.end(r.PathValue("id"))
	return ok(w)
}
