package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// ticket is what a delegation's id says. It gives no right: what is told of it is
// what the asker's view may know.
type ticket struct {
	Delegate string `json:"delegate"`
	Path     []byte `json:"path"`
	Since    string `json:"since"` // a cursor of who began it
}

func (t ticket) id() (string, error) {
	b, err := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func readTicket(id string) (t ticket, err error) {
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || json.Unmarshal(b, &t) != nil || t.Delegate == "" || len(t.Path) == 0 || t.Since == "" {
		return t, invalid("delegation %.60q is none", id)
	}
	return t, nil
}

func apiChanges(c *workspace.Changes) control.Changes {
	list := func(in []workspace.Change) []control.FileChange {
		out := []control.FileChange{}
		for _, x := range in {
			f := control.FileChange{By: x.By}
			f.Path, f.PathBytes = logText(x.Path)
			f.From, f.FromBytes = logText(x.From)
			out = append(out, f)
		}
		return out
	}
	return control.Changes{Added: list(c.Added), Changed: list(c.Changed), Renamed: list(c.Renamed), Removed: list(c.Removed),
		Attributes: list(c.Attributes), MadeDirs: list(c.MadeDirs), RemovedDirs: list(c.RemovedDirs)}
}

// delegator opens the view of who delegates: the agent's that is named, or the
// administrator's.
func (s *Server) delegator(r *http.Request, agent string) (*view.View, error) {
	if agent == "" {
		return s.ownView(r, "")
	}
	return s.files(agent)
}

// mayDelegate tells whether one agent may set another to work: an orchestrator
// those in its view, others those below them. agent "" is the administrator.
func (s *Server) mayDelegate(agent, delegate string) error {
	to := asker{}
	if agent != "" {
		a, err := s.Registry.Agent(agent)
		if err != nil {
			return err
		}
		to = asker{agent: agent, role: a.Role}
	}
	return s.mayKnow(to, delegate)
}

// begin makes the place of a delegation ready, and the id to ask for its changes
// with.
func (s *Server) begin(r *http.Request, agent, delegate, at string) (id string, err error) {
	v, err := s.delegator(r, agent)
	if err != nil {
		return "", err
	}
	c, err := s.Registry.Cursors(r.Context(), agent)
	if err != nil {
		return "", err
	}
	now, err := s.Layer.FeedNow(r.Context(), v)
	if err != nil {
		return "", err
	}
	t := ticket{Delegate: delegate, Path: []byte(at)}
	if t.Since, err = c.Seal(now); err != nil {
		return "", err
	}
	return t.id()
}

func (s *Server) beginDelegation(w http.ResponseWriter, r *http.Request) error {
	var c control.DelegationSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Delegate == "" {
		return invalid("delegate to which agent? the request names none")
	}
	if err := s.mayDelegate(c.Agent, c.Delegate); err != nil {
		return err
	}
	a, err := s.Registry.Agent(c.Delegate)
	if err != nil {
		return err
	}
	v, err := s.files(a.Key)
	if err != nil {
		return err
	}
	if c.Project == "" {
		c.Project = fresh
	}
	before, _ := v.Sees("/agents/" + a.Key + "/workspace/" + c.Project)
	p := runPlace{work: "/agents/" + a.Key + "/workspace"}
	if err := p.project(v, a, c.Project); err != nil {
		return err
	}
	by, err := s.delegator(r, c.Agent)
	if err != nil {
		return err
	}
	if _, seen := by.Sees(p.work); !seen {
		return failf(backend.Denied, "%s is not in the view of who delegates: it could not read what is made there", p.work)
	}
	id, err := s.begin(r, c.Agent, a.Key, p.work)
	if err != nil {
		return err
	}
	return reply(w, control.Delegation{ID: id, Delegate: a.Key, Project: path.Base(p.work), Workspace: p.work,
		Fresh: before.Node == 0 && !strings.HasPrefix(p.work, "/projects/")})
}

func (s *Server) delegationChanges(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	t, err := readTicket(q.Get("delegation"))
	if err != nil {
		return err
	}
	v, err := s.delegator(r, q.Get("agent"))
	if err != nil {
		return err
	}
	c, err := s.Registry.Cursors(r.Context(), q.Get("agent"))
	if err != nil {
		return err
	}
	since, err := c.Open(t.Since)
	if backend.KindOf(err) == backend.Invalid {
		return failf(backend.Invalid, "the id is of a delegation that somebody else began; ask as who began it (--agent)")
	}
	if err != nil {
		return err
	}
	span := workspace.Span{After: since, Under: string(t.Path), Agent: t.Delegate}
	if q.Get("all") == "true" {
		span.Agent = ""
	}
	got, _, _, err := s.Layer.Changes(r.Context(), v, span)
	if err != nil {
		return err
	}
	return reply(w, control.DelegationChanges{Delegate: t.Delegate, Project: path.Base(string(t.Path)), Workspace: string(t.Path), Changes: apiChanges(&got)})
}
