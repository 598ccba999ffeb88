package workspace

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Settings gives the settings in force.
func (r *Registry) Settings() Settings {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.settings.clone()
}

func (s Settings) clone() Settings {
	return Settings{DenyNames: slices.Clone(s.DenyNames), Exceptions: slices.Clone(s.Exceptions),
		NameRules: slices.Clone(s.NameRules), Retention: maps.Clone(s.Retention)}
}

// AllowName excepts a name of the deny-list under one tree path. One that is
// excepted there already is no error. It holds in every mount when it returns.
func (r *Registry) AllowName(ctx context.Context, x NameException) error {
	x, err := cleanException(x)
	if err != nil {
		return err
	}
	if err := r.knownName(x.Name); err != nil {
		return err
	}
	return r.setSettings(ctx, func(s *Settings) error {
		if !slices.Contains(s.Exceptions, x) {
			s.Exceptions = append(s.Exceptions, x)
		}
		return nil
	})
}

// DisallowName takes an exception away. NotFound: there is none such.
func (r *Registry) DisallowName(ctx context.Context, x NameException) error {
	x, err := cleanException(x)
	if err != nil {
		return err
	}
	return r.setSettings(ctx, func(s *Settings) error {
		i := slices.Index(s.Exceptions, x)
		if i < 0 {
			return fail(backend.NotFound, "no exception for %q under %s", x.Name, x.Under)
		}
		s.Exceptions = slices.Delete(s.Exceptions, i, i+1)
		return nil
	})
}

// without gives the settings without the exceptions and the name rules that hold
// at top or below it, or for the agent whose home that is, and whether there were
// any.
func (s Settings) without(top string) (Settings, bool) {
	left := s.clone()
	inside := func(under string) bool { return under == top || strings.HasPrefix(under, top+"/") }
	left.Exceptions = slices.DeleteFunc(left.Exceptions, func(x NameException) bool { return inside(x.Under) })
	left.NameRules = slices.DeleteFunc(left.NameRules, func(x NameRule) bool {
		return inside(x.Under) || x.Agent != "" && "/agents/"+x.Agent == top
	})
	return left, len(left.Exceptions)+len(left.NameRules) < len(s.Exceptions)+len(s.NameRules)
}

// setSettings changes the settings, stores and publishes them.
func (r *Registry) setSettings(ctx context.Context, fn func(*Settings) error) error {
	r.change.Lock()
	defer r.change.Unlock()
	old := r.Settings()
	next := old.clone()
	if err := fn(&next); err != nil {
		return err
	}
	key := string(recordKey(recSettings, ""))
	return r.replace(ctx, map[string]any{key: &next}, map[string]any{key: &old},
		func() { r.settings = next }, func() { r.settings = old })
}

// cleanException gives an exception the one spelling it is stored in.
func cleanException(x NameException) (NameException, error) {
	if x.Name == "" || len(x.Name) > backend.MaxName || strings.ContainsAny(x.Name, "/\x00") {
		return x, fail(backend.Invalid, "%q is not a pattern for a file's name", x.Name)
	}
	if x.Name == "." || x.Name == ".." {
		return x, fail(backend.Invalid, "%q is no file's name", x.Name)
	}
	if _, err := path.Match(x.Name, "x"); err != nil {
		return x, fail(backend.Invalid, "%q is not a pattern for a file's name: %v", x.Name, err)
	}
	if !strings.HasPrefix(x.Under, "/") || strings.ContainsRune(x.Under, 0) {
		return x, fail(backend.Invalid, "%q is not a tree path: it must start with /", x.Under)
	}
	if slices.Contains(strings.Split(x.Under, "/"), "..") {
		return x, fail(backend.Invalid, "%q is not a tree path: it has a .. in it", x.Under)
	}
	x.Under = path.Clean(x.Under)
	top, _, _ := strings.Cut(x.Under[1:], "/")
	if top != "" && !slices.Contains([]string{"agents", "projects", "users", "workspaces"}, top) {
		return x, fail(backend.Invalid, "%q is not a tree path: there is no /%s in the tree; `warren path FILE` tells the tree path of a mounted file", x.Under, top)
	}
	return x, nil
}

// knownName refuses an exception that would except nothing: name is no entry of
// the deny-list and matches none.
func (r *Registry) knownName(name string) error {
	return r.Settings().knows(name)
}

// denied is the deny-list that holds for everybody everywhere.
func (s *Settings) denied() []string {
	if s.DenyNames == nil {
		return policy.DefaultDenyNames()
	}
	return s.DenyNames
}

// knows refuses a name that nothing denies to everybody.
func (s Settings) knows(name string) error {
	list := slices.Clone(s.denied())
	for _, x := range s.NameRules {
		if x.Agent == "" {
			list = append(list, x.Name)
		}
	}
	lower := strings.ToLower(name)
	for _, entry := range list {
		entry = strings.ToLower(entry)
		if matched, err := path.Match(entry, lower); entry == lower || matched && err == nil {
			return nil
		}
	}
	return fail(backend.Invalid, "%q is not on the deny-list, so it needs no exception", name)
}

// DenyName puts a name on the deny-list, or takes an entry off it: of everybody, of
// one agent, or of what is under a path. It holds in every mount when it returns.
// NotFound: it is not on the list, or there is no such agent.
func (r *Registry) DenyName(ctx context.Context, x NameRule, remove bool) error {
	if x.Agent != "" {
		if _, err := r.Agent(x.Agent); err != nil {
			return err
		}
	}
	x, err := cleanRule(x)
	if err != nil {
		return err
	}
	return r.setSettings(ctx, func(s *Settings) error {
		if remove {
			return s.undeny(x)
		}
		return s.deny(x)
	})
}

// cleanRule gives a rule the one spelling it is stored in.
func cleanRule(x NameRule) (NameRule, error) {
	under := x.Under
	if under == "" {
		under = "/"
	}
	c, err := cleanException(NameException{Name: x.Name, Under: under})
	if err != nil {
		return x, err
	}
	if strings.Trim(x.Name, "*?") == "" {
		return x, fail(backend.Invalid, "%q would deny every name", x.Name)
	}
	if x.Under = c.Under; x.Under == "/" {
		x.Under = ""
	}
	return x, nil
}

// same tells whether two clean rules are the same entry.
func (x NameRule) same(y NameRule) bool {
	return strings.EqualFold(x.Name, y.Name) && x.Agent == y.Agent && x.Under == y.Under
}

// deny puts a clean rule on the list.
func (s *Settings) deny(x NameRule) error {
	if x.Agent == "" && x.Under == "" {
		if list := s.denied(); !slices.ContainsFunc(list, func(g string) bool { return strings.EqualFold(g, x.Name) }) {
			s.DenyNames = append(slices.Clone(list), x.Name)
		}
	} else if !slices.ContainsFunc(s.NameRules, x.same) {
		s.NameRules = append(s.NameRules, x)
	}
	if n := len(s.DenyNames) + len(s.NameRules); n > maxDenyNames {
		return fail(backend.Quota, "the deny-list has at most %d entries", maxDenyNames)
	}
	return nil
}

// undeny takes a clean rule off the list. NotFound: it is not on it.
func (s *Settings) undeny(x NameRule) error {
	was := len(s.denied()) + len(s.NameRules)
	if x.Agent == "" && x.Under == "" {
		s.DenyNames = slices.DeleteFunc(append([]string{}, s.denied()...), func(g string) bool { return strings.EqualFold(g, x.Name) })
	} else {
		s.NameRules = slices.DeleteFunc(s.NameRules, x.same)
	}
	if len(s.denied())+len(s.NameRules) == was {
		return fail(backend.NotFound, "%q is not on that deny-list; `warren policy settings` shows it", x.Name)
	}
	return nil
}

// maxDenyNames bounds the deny-list.
const maxDenyNames = 500
