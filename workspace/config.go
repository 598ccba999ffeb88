package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// The layers of the configuration, weakest first.
const (
	OriginStore       = "store"
	OriginWorkspace   = "workspace"
	OriginEnvironment = "environment"
)

const (
	maxConfig = 256 << 10 // bytes of one config.toml
	masked    = `"********"`
)

// Setting is one value of the configuration.
type Setting struct {
	Key    string // dotted, as in TOML
	Value  json.RawMessage
	Origin string
	Source string // the file or variable it came from
	Secret bool   // and so masked
}

// Config is the configuration that holds for a workspace.
type Config struct {
	Settings []Setting // by key
	Warnings []string  // of layers that could not be read
}

// Variable is a variable of the asker's environment that overrides a setting;
// its value stays with the asker.
type Variable struct{ Name, Key string }

// Config merges the configuration of a device workspace, or of the asker's own
// home for "": the store's config.toml, over that the workspace's, over that the
// environment. Tables merge; anything else is replaced. Secrets are masked.
func (l *Layer) Config(v *view.View, workspace string, variables []Variable) (Config, error) {
	path := ""
	if workspace == "" && v.Agent() != "" {
		path = "/agents/" + v.Agent() + "/config.toml"
	} else if workspace != "" {
		_, session, err := l.talkPlace(v, workspace)
		if err != nil {
			return Config{}, err
		}
		path = strings.TrimSuffix(session, "session.md") + "config.toml"
	}
	var c Config
	merged := &level{}
	layer := func(origin, source string, data []byte) {
		var table map[string]any
		err := checkTOML(string(data))
		if err == nil {
			err = toml.Unmarshal(data, &table)
		}
		if err != nil {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s is left out: %s", source, short(err.Error())))
			return
		}
		merged.overlay("", table, origin, source)
	}
	if data, err := l.storeConfig(); err != nil {
		c.Warnings = append(c.Warnings, "the store's config.toml is left out: it cannot be read")
		l.log.Warn("config.toml of the store", "err", err)
	} else {
		layer(OriginStore, "config.toml of the store", data)
	}
	if path != "" {
		data, _, err := readHere(v, path, maxConfig)
		switch {
		case err == nil:
			layer(OriginWorkspace, path, data)
		case !isKind(err, backend.NotFound):
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s is left out: %v", path, err))
		}
	}
	for _, x := range variables {
		merged.set(strings.Split(x.Key, "."), Setting{Key: x.Key, Value: json.RawMessage(masked), Origin: OriginEnvironment, Source: x.Name})
	}
	merged.each(func(s Setting) {
		if s.Secret = secret(s.Key); s.Secret {
			s.Value = json.RawMessage(masked)
		}
		c.Settings = append(c.Settings, s)
	})
	slices.SortFunc(c.Settings, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return c, nil
}

// storeConfig reads the store's config.toml; nothing where there is none.
func (l *Layer) storeConfig() ([]byte, error) {
	if l.config == "" {
		return nil, nil
	}
	f, err := os.Open(l.config)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("it has more than %d bytes", maxConfig)
	}
	return data, err
}

// level is a table of the configuration as it is merged, or a value in its place.
type level struct {
	value *Setting
	below map[string]*level // by name
}

func (l *level) at(name string) *level {
	if l.below == nil {
		l.below = map[string]*level{}
	}
	next := l.below[name]
	if next == nil {
		next = &level{}
		l.below[name] = next
	}
	return next
}

// overlay puts a table over what is there: tables go into tables, anything else
// takes the place of what had its key.
func (l *level) overlay(prefix string, table map[string]any, origin, source string) {
	for name, v := range table {
		key := prefix + tomlKey(name)
		if sub, ok := v.(map[string]any); ok {
			next := l.at(name)
			next.value = nil // one that was no table
			next.overlay(key+".", sub, origin, source)
			continue
		}
		raw, err := json.Marshal(mask(v))
		if err != nil { // not a number, infinity
			raw, _ = json.Marshal(fmt.Sprint(v))
		}
		l.set([]string{name}, Setting{Key: key, Value: raw, Origin: origin, Source: source})
	}
}

// set puts a value in the place of what had its key.
func (l *level) set(path []string, s Setting) {
	for _, name := range path {
		l.value = nil
		l = l.at(name)
	}
	l.value, l.below = &s, nil
}

// each gives all values.
func (l *level) each(fn func(Setting)) {
	if l.value != nil {
		fn(*l.value)
	}
	for _, next := range l.below {
		next.each(fn)
	}
}

// tomlKey spells a key as TOML has it: quoted unless it is bare.
func tomlKey(s string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if s != "" && strings.Trim(s, bare) == "" {
		return s
	}
	b, _ := json.Marshal(s)
	return string(b)
}

// secret tells whether a key's value is not for showing.
func secret(key string) bool {
	key = strings.ToLower(key)
	has := func(s string, words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(s, w) })
	}
	return has(key, "secret", "password", "passwd", "credential") ||
		has(key[strings.LastIndexByte(key, '.')+1:], "key", "token", "authorization", "cookie")
}

// mask hides what is secret inside a list or an inline table.
func mask(v any) any {
	switch v := v.(type) {
	case []map[string]any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mask(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mask(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if out[k] = mask(e); secret(k) {
				out[k] = strings.Trim(masked, `"`)
			}
		}
		return out
	}
	return v
}

// text is the setting's value if it is a string; "" otherwise.
func (c *Config) text(key string) string {
	for _, s := range c.Settings {
		var text string
		if s.Key == key && !s.Secret && json.Unmarshal(s.Value, &text) == nil {
			return text
		}
	}
	return ""
}
