package server

import (
	"net/http"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

// namesFor are the deny-list for everybody, and the rest of it as far as it is
// about an agent ("": all).
func namesFor(set workspace.Settings, agent string) (everywhere []string, rules []control.DeniedName) {
	if everywhere = set.DenyNames; everywhere == nil {
		everywhere = policy.DefaultDenyNames()
	}
	rules = []control.DeniedName{}
	for _, x := range set.NameRules {
		if agent == "" || x.Agent == "" || x.Agent == agent {
			rules = append(rules, control.DeniedName(x))
		}
	}
	return everywhere, rules
}

// settingsOf adds what is set of p's agent, if it is about one.
func (s *Server) settingsOf(p *control.Policy) {
	a, err := s.Registry.Agent(p.Agent)
	if err != nil {
		return
	}
	p.Access, p.Mode = a.Access, a.Mode
	if p.Mode == "" {
		p.Mode = workspace.ModeOwn
	}
	for _, project := range s.Registry.Projects() {
		if right := project.Members[a.Key]; right != "" {
			if p.Projects == nil {
				p.Projects = map[string]string{}
			}
			p.Projects[project.Slug] = right
		}
	}
}

// showPolicyTo tells an agent what is set of itself, or of one that it sees. Of
// what holds under a path it tells where both of them find something there: all
// else may not exist.
func (s *Server) showPolicyTo(w http.ResponseWriter, r *http.Request, to asker) error {
	p := control.Policy{Agent: r.URL.Query().Get("agent"), Exceptions: []control.NameException{}}
	set := s.Registry.Settings()
	known := func(path string) bool {
		return path == "" || s.finds(to, path) && (p.Agent == to.agent || s.finds(asker{agent: p.Agent}, path))
	}
	p.DenyNames, p.Rules = namesFor(set, p.Agent)
	p.Rules = slices.DeleteFunc(p.Rules, func(x control.DeniedName) bool { return !known(x.Under) })
	for _, x := range set.Exceptions {
		if known(x.Under) {
			p.Exceptions = append(p.Exceptions, control.NameException(x))
		}
	}
	s.settingsOf(&p)
	for slug := range p.Projects {
		if !known("/projects/" + slug) {
			delete(p.Projects, slug)
		}
	}
	return reply(w, p)
}

// setName changes the deny-list; an orchestrator that of others, below it in
// rights, that it sees.
func (s *Server) setName(w http.ResponseWriter, r *http.Request, x workspace.NameRule, remove bool) error {
	if by := askerOf(r); !by.administrator() && (x.Agent == "" || s.isBelow(by.agent, x.Agent)) {
		return failf(backend.Denied, "an orchestrator sets the names that are denied to others, and not to the agents above it; name one with --agent")
	}
	if err := s.Registry.DenyName(r.Context(), x, remove); err != nil {
		return err
	}
	return ok(w)
}

func (s *Server) showSettings(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, control.PolicyText{Name: "settings.toml", Text: s.Registry.SettingsText()})
}

func (s *Server) setSettings(w http.ResponseWriter, r *http.Request) error {
	var c control.PolicyText
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Name == "" {
		c.Name = "settings.toml"
	}
	if err := s.Registry.SetSettings(r.Context(), c.Name, c.Text); err != nil {
		return err
	}
	s.recheckHanded()
	return ok(w)
}
