package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

const (
	schemaFile = "fields.json" // in an agent's home: what fields there are
	valuesFile = "values.json" // beside it: a JSON object of those that are set
	maxValues  = 1 << 20       // bytes of it
)

// Field is one field with its value.
type Field struct {
	Name, Type, Description string
	ReadOnly                bool
	Set                     bool            // Value was set; else it is the default, or null
	Value                   json.RawMessage // JSON
	Schema                  json.RawMessage
	Text                    []byte // as its control file has it
}

// FieldChange is what a change did.
type FieldChange struct {
	Agent, Name     string
	Previous, Value json.RawMessage
}

// fieldsOf finds whose fields are meant, and the schema as the asker may read
// it. Kinds: NotFound (no such agent, or none in this view), Unavailable (no
// workspace in this context).
func (l *Layer) fieldsOf(v *view.View, of string) (key string, s *fieldSchema, node backend.NodeID, err error) {
	key = of
	if key == "" {
		a, err := l.agentOf(v)
		if err != nil {
			return "", nil, 0, err
		}
		key = a.Key
	}
	if !policy.ValidKey(key) {
		return key, nil, 0, badKey("agent key", key)
	}
	if key != v.Agent() {
		if _, err := v.Resolve("/agents/" + key); err != nil {
			return key, nil, 0, fail(backend.NotFound, "no agent %q", key)
		}
	}
	data, a, err := v.ReadFile("/agents/"+key+"/"+schemaFile, maxSchema)
	if err != nil {
		return key, nil, 0, noFields(key, "it has no "+schemaFile+" that can be read", err)
	}
	s, err = l.schema(key, data)
	if err != nil {
		return key, nil, 0, noFields(key, "its "+schemaFile+" is no schema", err)
	}
	return key, s, a.Node, nil
}

func noFields(key, why string, err error) error {
	if !isKind(err, backend.NotFound) {
		why += ": " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return fail(backend.Unavailable, "no workspace in this context: agent %q has no fields, since %s", key, why)
}

// schema compiles a fields.json, or finds it compiled.
func (l *Layer) schema(key string, data []byte) (*fieldSchema, error) {
	sum := sha256.Sum256(data)
	l.mu.Lock()
	s := l.schemas[key]
	l.mu.Unlock()
	if s != nil && s.sum == sum {
		return s, nil
	}
	s, err := compileFields(data)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schemas[key] = s
	return s, nil
}

// values reads what is set of an agent's fields. Whoever may read the schema may
// read them: they stand beside it. Conflict: somebody has made it something else.
func values(v *view.View, key string) (map[string]json.RawMessage, error) {
	data, _, err := v.ReadFile("/agents/"+key+"/"+valuesFile, maxValues)
	if isKind(err, backend.NotFound) {
		return map[string]json.RawMessage{}, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(data, &out); err != nil || out == nil { // null is one that is none
		return nil, fail(backend.Conflict, "/agents/%s/%s is no JSON object any more, and is left as it is: mend it, or remove it to begin anew", key, valuesFile)
	}
	return out, nil
}

// value is what a field has: what was set, if it still matches the schema, or
// the default.
func (f *fieldDef) value(set map[string]json.RawMessage) (raw json.RawMessage, isSet bool) {
	if raw, ok := set[f.name]; ok && !isNull(raw) {
		if raw, err := f.check(raw); err == nil {
			return raw, true
		}
	}
	return f.fallback(), false
}

func (f *fieldDef) field(set map[string]json.RawMessage) Field {
	out := Field{Name: f.name, ReadOnly: f.readOnly, Schema: f.raw, Description: f.schema.Description}
	if len(f.types) == 1 {
		out.Type = f.types[0]
	}
	out.Value, out.Set = f.value(set)
	out.Text = f.show(out.Value)
	return out
}

// Fields lists the fields of an agent ("": the asker), by name. Unavailable: no
// workspace in this context; NotFound: no such agent.
func (l *Layer) Fields(v *view.View, of string) ([]Field, error) {
	key, s, _, err := l.fieldsOf(v, of)
	if err != nil {
		return nil, err
	}
	set, err := values(v, key)
	if err != nil {
		return nil, err
	}
	out := []Field{}
	for _, name := range s.names {
		out = append(out, s.fields[name].field(set))
	}
	return out, nil
}

// Field gives one field. NotFound: it is unknown; and Fields' errors.
func (l *Layer) Field(v *view.View, of, name string) (Field, error) {
	key, s, _, err := l.fieldsOf(v, of)
	if err != nil {
		return Field{}, err
	}
	f, err := s.field(name)
	if err != nil {
		return Field{}, err
	}
	set, err := values(v, key)
	if err != nil {
		return Field{}, err
	}
	return f.field(set), nil
}

// field finds a field by name, or tells which ones there are.
func (s *fieldSchema) field(name string) (*fieldDef, error) {
	if f := s.fields[name]; f != nil {
		return f, nil
	}
	if len(s.names) == 0 {
		return nil, fail(backend.NotFound, "unknown field %q: this agent has no fields", name)
	}
	list := strings.Join(s.names[:min(len(s.names), 20)], ", ")
	return nil, fail(backend.NotFound, "unknown field %q; there are: %s", name, list)
}

// SetField sets a field to a JSON value; null, or nothing, clears it. Kinds:
// Unavailable (no workspace in this context), NotFound (unknown field), Denied
// (read-only field), Invalid (the value does not match), Conflict (the file of
// the values was spoilt by hand). The field is unchanged after any of them.
func (l *Layer) SetField(v *view.View, of, name string, raw json.RawMessage) (FieldChange, error) {
	return l.change(v, of, name, func(f *fieldDef) (json.RawMessage, error) {
		if isNull(raw) {
			return nil, nil
		}
		return f.check(raw)
	})
}

// SetFieldText is SetField of a value as the field's control file has it.
func (l *Layer) SetFieldText(v *view.View, of, name string, text []byte) (FieldChange, error) {
	return l.change(v, of, name, func(f *fieldDef) (json.RawMessage, error) {
		raw, _, err := f.parse(text)
		return raw, err
	})
}

// StageField takes what has been written to the control file of one of the
// asker's own fields so far. It is applied as soon as it is complete and
// valid. A text that nothing can complete is Invalid, and so is one that is
// incomplete when it ends.
func (l *Layer) StageField(v *view.View, name string, text []byte, ended bool) (applied bool, err error) {
	waits := errors.New("incomplete")
	_, err = l.change(v, "", name, func(f *fieldDef) (json.RawMessage, error) {
		raw, how, err := f.parse(text)
		if how == incomplete && !ended {
			return nil, waits
		}
		return raw, err
	})
	if errors.Is(err, waits) {
		return false, nil
	}
	return err == nil, err
}

// MayStage tells whether a file may be made beside those of the asker's own
// fields, to take the place of one: only where there are fields. NotFound: there
// are none, or no workspace in this context: a directory of files tells no more.
func (l *Layer) MayStage(v *view.View, name string) error {
	_, s, _, err := l.fieldsOf(v, "")
	if err == nil && len(s.names) == 0 {
		_, err = s.field(name)
	}
	if isKind(err, backend.Unavailable) {
		err = fail(backend.NotFound, "%v", err)
	}
	return err
}

// change replaces one value. read gives the new one, or nil to clear it.
func (l *Layer) change(v *view.View, of, name string, read func(*fieldDef) (json.RawMessage, error)) (c FieldChange, err error) {
	key, s, node, err := l.fieldsOf(v, of)
	if err != nil {
		return c, err
	}
	f, err := s.field(name)
	if err != nil {
		return c, err
	}
	if err := l.maySet(v, key, f, node); err != nil {
		return c, err
	}
	raw, err := read(f)
	if err != nil {
		return c, &backend.Error{Kind: backend.Invalid, Err: &mismatch{field: name, err: err}}
	}
	path := "/agents/" + key + "/" + valuesFile
	defer l.lock(path)()
	steward, err := l.space.Steward(v.Agent())
	if err != nil {
		return c, err
	}
	set, err := values(steward, key)
	if err != nil {
		return c, err
	}
	c = FieldChange{Agent: key, Name: name}
	c.Previous, _ = f.value(set)
	delete(set, name)
	if raw != nil {
		set[name] = raw
	}
	c.Value, _ = f.value(set)
	data, err := json.MarshalIndent(set, "", "  ")
	if err == nil && len(data) >= maxValues {
		err = fail(backend.TooBig, "the values of all fields together have at most %d bytes", maxValues)
	}
	if err == nil {
		err = again(func() error {
			_, err := steward.PutHere(path, bytes.NewReader(append(data, '\n')), 0)
			return err
		})
	}
	if err != nil {
		return FieldChange{}, err
	}
	// The change stands, whether or not those who follow the feed can be told.
	if err := l.space.Happened(context.Background(), "field", v.Agent(), "/agents/"+key+"/.fields/"+name); err != nil {
		l.log.Warn("a change of a field is not in the feed", "agent", key, "field", name, "err", err)
	}
	l.log.Info("field changed", "agent", v.Agent(), "of", key, "field", name)
	return c, nil
}

// mismatch is a value that does not match its field.
type mismatch struct {
	field string
	err   error
}

// Error tells the schema's reason.
func (m *mismatch) Error() string {
	return "the value does not match field \"" + m.field + "\": " + strings.ReplaceAll(m.err.Error(), "\n", " ")
}

// Unwrap gives the reason.
func (m *mismatch) Unwrap() error { return m.err }

// maySet decides: an agent sets its own fields but read-only ones; another's,
// who may write there as that agent does; read-only ones, who may write the
// schema of another.
func (l *Layer) maySet(v *view.View, key string, f *fieldDef, schema backend.NodeID) error {
	own := key == v.Agent()
	if !own {
		s, err := v.Resolve("/agents/" + key + "/session.md")
		if err != nil || !v.Allows(policy.Write, s.Node) {
			return fail(backend.Denied, "the fields of agent %q are not this one's to set", key)
		}
	}
	if f.readOnly && (own || !v.Allows(policy.Write, schema)) {
		return fail(backend.Denied, "field %q is read-only", f.name)
	}
	return nil
}

// FieldFile tells whether a field's name can be a file's.
func FieldFile(name string) bool { return checkFileName("field", name) == nil }
