package control

import (
	"context"
	"encoding/json"
	"net/http"
)

// Fields are the values that an agent's fields.json describes: a JSON Schema
// (draft 2020-12) of type object; each of its properties is a field. Where a
// method takes of, it is the key of the agent whose fields they are; "" is the
// asker itself.

// Field is one field with its value.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type,omitempty"` // of JSON Schema; left out if the schema names none or several
	Description string          `json:"description,omitempty"`
	ReadOnly    bool            `json:"read_only"`
	Set         bool            `json:"set"`   // Value was set; else it is the default, or null
	Value       json.RawMessage `json:"value"` // JSON; null: neither set nor with a default
	Schema      json.RawMessage `json:"schema"`
}

// FieldSetting asks for a change of one field.
type FieldSetting struct {
	Agent string `json:"agent"`
	Of    string `json:"of,omitempty"`
	Name  string `json:"field_name"`
	// Value is JSON; null clears the field. With Text, it is left out: the value as a control
	// file has it, bare text for a string, JSON for any other type; "" clears.
	Value json.RawMessage `json:"value,omitempty"`
	Text  *string         `json:"text,omitempty"`
}

// FieldChange tells what changed.
type FieldChange struct {
	Agent    string          `json:"agent"` // whose field it is
	Name     string          `json:"field_name"`
	Previous json.RawMessage `json:"previous"` // null: it was not set and has no default
	Value    json.RawMessage `json:"value"`
}

// Fields lists an agent's fields by name. KindUnavailable: there is no workspace in this
// context: the agent has no fields.json, or one that is no schema.
func (c *Client) Fields(ctx context.Context, agent, of string) ([]Field, error) {
	var out []Field
	return out, c.call(ctx, http.MethodGet, "/v1/fields", query("agent", agent, "of", of), nil, &out)
}

// Field gives one field. KindNotFound: it is unknown; else as Fields.
func (c *Client) Field(ctx context.Context, agent, of, name string) (Field, error) {
	var out Field
	return out, c.call(ctx, http.MethodGet, "/v1/fields/value", query("agent", agent, "of", of, "name", name), nil, &out)
}

// SetField changes one field, or nothing: KindUnavailable (no workspace in this
// context), KindNotFound (unknown field), KindDenied (read-only field),
// KindInvalid (the value does not match, with the schema's reason).
func (c *Client) SetField(ctx context.Context, s FieldSetting) (FieldChange, error) {
	var out FieldChange
	return out, c.call(ctx, http.MethodPut, "/v1/fields/value", nil, s, &out)
}
