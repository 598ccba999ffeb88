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
	return Settings{DenyNames: slices.Clone(s.DenyNames), Exceptions: slices.Clone(s.Exceptions), Retention: maps.Clone(s.Retention)}
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

// without gives the settings without the exceptions that hold at top or below
// it, and whether there were any.
func (s Settings) without(top string) (Settings, bool) {
	left := s.clone()
	left.Exceptions = slices.DeleteFunc(left.Exceptions, func(x NameException) bool {
		return x.Under == top || strings.HasPrefix(x.Under, top+"/")
	})
	return left, len(left.Exceptions) < len(s.Exceptions)
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
	list := r.Settings().DenyNames
	if list == nil {
		list = policy.DefaultDenyNames()
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

// DenyName puts a glob on the name deny-list, or takes an entry off it. It holds in
// every mount when it returns. NotFound: it is not on the list.
func (r *Registry) DenyName(ctx context.Context, glob string, remove bool) error {
	if x, err := cleanException(NameException{Name: glob, Under: "/"}); err != nil {
		return err
	} else if strings.Trim(x.Name, "*?") == "" {
		return fail(backend.Invalid, "%q would deny every name", glob)
	}
	return r.setSettings(ctx, func(s *Settings) error {
		if s.DenyNames == nil {
			s.DenyNames = policy.DefaultDenyNames()
		}
		at := slices.IndexFunc(s.DenyNames, func(g string) bool { return strings.EqualFold(g, glob) })
		switch {
		case remove && at < 0:
			return fail(backend.NotFound, "%q is not on the deny-list; `warren policy show` shows it", glob)
		case remove:
			s.DenyNames = slices.Delete(s.DenyNames, at, at+1)
		case at < 0:
			s.DenyNames = append(s.DenyNames, glob)
		}
		if len(s.DenyNames) > maxDenyNames {
			return fail(backend.Quota, "the deny-list has %d entries", maxDenyNames)
		}
		return nil
	})
}

// maxDenyNames bounds the deny-list.
const maxDenyNames = 500
