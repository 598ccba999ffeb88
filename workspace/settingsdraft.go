package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/warrenfs/warren/backend"
)

// SettingsText is the settings as a settings file that, set again, changes nothing.
func (r *Registry) SettingsText() string {
	type names struct {
		Deny  []string `toml:"deny,omitempty"`
		Allow []string `toml:"allow,omitempty"`
	}
	type agent struct {
		Access string           `toml:"access"`
		Mode   string           `toml:"mode,omitempty"`
		Deny   []string         `toml:"deny,omitempty"`
		Paths  map[string]names `toml:"paths,omitempty"`
	}
	type project struct {
		Members map[string]string `toml:"members"`
	}
	s := r.Settings()
	all := struct {
		Deny      []string           `toml:"deny"`
		Retention map[string]string  `toml:"retention,omitempty"`
		Agents    map[string]agent   `toml:"agents"`
		Paths     map[string]names   `toml:"paths,omitempty"`
		Projects  map[string]project `toml:"projects,omitempty"`
	}{s.denied(), s.Retention, map[string]agent{}, map[string]names{}, map[string]project{}}
	for _, a := range r.Agents() {
		all.Agents[a.Key] = agent{Access: a.Access, Mode: a.Mode, Paths: map[string]names{}}
	}
	for _, p := range r.Projects() {
		all.Projects[p.Slug] = project{p.Members}
	}
	for _, x := range s.NameRules {
		a, known := all.Agents[x.Agent]
		switch {
		case x.Agent == "":
			n := all.Paths[x.Under]
			n.Deny = append(n.Deny, x.Name)
			all.Paths[x.Under] = n
		case !known:
		case x.Under == "":
			a.Deny = append(a.Deny, x.Name)
			all.Agents[x.Agent] = a
		default:
			n := a.Paths[x.Under]
			n.Deny = append(n.Deny, x.Name)
			a.Paths[x.Under] = n
		}
	}
	for _, x := range s.Exceptions {
		n := all.Paths[x.Under]
		n.Allow = append(n.Allow, x.Name)
		all.Paths[x.Under] = n
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	if err := e.Encode(all); err != nil {
		panic("workspace: settings: " + err.Error()) // only text in maps
	}
	return b.String()
}

// CheckSettings tells whether SetSettings would take a settings file. Nothing
// changes.
func (r *Registry) CheckSettings(name, text string) error {
	r.change.Lock()
	defer r.change.Unlock()
	_, err := r.drafted(name, text)
	return err
}

// SetSettings makes what a settings file says hold, all at once, in every mount
// when it returns; what the file does not name stays. Invalid: with file, line and
// column of all that is wrong; nothing has changed then.
func (r *Registry) SetSettings(ctx context.Context, name, text string) error {
	r.change.Lock()
	defer r.change.Unlock()
	x, err := r.drafted(name, text)
	if err != nil || len(x.changed) == 0 {
		return err
	}
	agents, projects, settings := r.agents, r.projects, r.settings
	err = r.replace(ctx, x.changed, x.before,
		func() { r.agents, r.projects, r.settings = x.agents, x.projects, *x.settings },
		func() { r.agents, r.projects, r.settings = agents, projects, settings })
	if err == nil {
		r.log.Info("settings set", "file", name, "records", len(x.changed))
	}
	return err
}

// drafted is the settings with those of a file, if all of them together hold.
// change held.
func (r *Registry) drafted(name, text string) (*draft, error) {
	doc, err := parseSettings(name, text)
	if err != nil {
		return nil, err
	}
	was := r.Settings()
	now := was.clone()
	r.mu.RLock()
	x := &draft{settings: &now, changed: map[string]any{}, before: map[string]any{}, Registry: &Registry{
		clock: r.clock, users: r.users, agents: maps.Clone(r.agents), projects: maps.Clone(r.projects),
		policies: policies{grants: r.policies.grants, files: r.policies.files}}}
	r.mu.RUnlock()
	for _, s := range doc.steps {
		if err := s.do(x); err != nil {
			var e *backend.Error
			if errors.As(err, &e) && e.Err != nil {
				err = e.Err
			}
			doc.wrong = append(doc.wrong, mistake{s.at, err})
		}
	}
	if err := doc.failure(); err != nil {
		return nil, err
	}
	slices.SortFunc(now.NameRules, func(a, b NameRule) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Under, b.Under), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(now.Exceptions, func(a, b NameException) int {
		return cmp.Or(strings.Compare(a.Under, b.Under), strings.Compare(a.Name, b.Name))
	})
	if !bytes.Equal(encode(&was), encode(&now)) {
		record := string(recordKey(recSettings, ""))
		x.changed[record], x.before[record] = &now, &was
	}
	x.Registry.settings = now
	return x, r.space.Check(x.facts())
}

// draft is a registry's settings as a file changes them, before they take effect.
type draft struct {
	*Registry
	settings *Settings
	changed  map[string]any // records
	before   map[string]any
}

// setAgent sets access or mode.
func (x *draft) setAgent(key, field, to string) error {
	a, err := x.Agent(key)
	if err != nil {
		return err
	}
	if field == "access" {
		a.Access = to
	} else {
		a.Mode = to
	}
	if err := x.checkAgent(&a); err != nil || a == *x.agents[key] {
		return err
	}
	record := string(recordKey(recAgent, key))
	if _, again := x.before[record]; !again {
		x.before[record] = x.agents[key]
	}
	x.agents[key], x.changed[record] = &a, &a
	return nil
}

// setMember sets a right of a project: read, write or none.
func (x *draft) setMember(slug, key, right string) error {
	p, err := x.Project(slug)
	if err != nil {
		return err
	}
	next := p
	next.Members = maps.Clone(p.Members)
	if right == "none" {
		delete(next.Members, key)
	} else if err := x.checkMember(key, right); err != nil {
		return err
	} else {
		next.Members[key] = right
	}
	if maps.Equal(next.Members, p.Members) {
		return nil
	}
	record := string(recordKey(recProject, slug))
	if _, again := x.before[record]; !again {
		x.before[record] = x.projects[slug]
	}
	x.projects[slug], x.changed[record] = &next, &next
	return nil
}

// denyNames does deny, deny_add or deny_remove with a list.
func (x *draft) denyNames(of NameRule, how string, names []string) error {
	if of.Agent != "" {
		if _, err := x.Agent(of.Agent); err != nil {
			return err
		}
	}
	scope, err := cleanRule(NameRule{Name: "x", Agent: of.Agent, Under: of.Under})
	if err != nil {
		return err
	}
	if how == "deny" {
		if scope.Agent == "" && scope.Under == "" {
			x.settings.DenyNames = []string{}
		}
		x.settings.NameRules = slices.DeleteFunc(x.settings.NameRules, func(r NameRule) bool {
			return r.Agent == scope.Agent && r.Under == scope.Under
		})
	}
	for _, name := range names {
		r, err := cleanRule(NameRule{Name: name, Agent: scope.Agent, Under: scope.Under})
		if err == nil && how == "deny_remove" {
			err = x.settings.undeny(r)
		} else if err == nil {
			err = x.settings.deny(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// allowNames does allow, allow_add or allow_remove with a list.
func (x *draft) allowNames(under, how string, names []string) error {
	top, err := cleanException(NameException{Name: "x", Under: under})
	if err != nil {
		return err
	}
	if how == "allow" {
		x.settings.Exceptions = slices.DeleteFunc(x.settings.Exceptions, func(e NameException) bool { return e.Under == top.Under })
	}
	for _, name := range names {
		e, err := cleanException(NameException{Name: name, Under: under})
		if err != nil {
			return err
		}
		at := slices.Index(x.settings.Exceptions, e)
		switch {
		case how == "allow_remove" && at < 0:
			return fail(backend.NotFound, "no exception for %q under %s", e.Name, e.Under)
		case how == "allow_remove":
			x.settings.Exceptions = slices.Delete(x.settings.Exceptions, at, at+1)
		case at < 0:
			if err := x.settings.knows(e.Name); err != nil {
				return err
			}
			x.settings.Exceptions = append(x.settings.Exceptions, e)
		}
	}
	return nil
}
