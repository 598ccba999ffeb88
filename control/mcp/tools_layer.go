package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/warrenfs/warren/control"
)

func itemTools() []tool {
	key := func(s *jsonschema.Schema) { length(s, "key", 1, 255) }
	return []tool{
		define(about{name: "workspace_list", group: "items", title: "List shared items", effect: reads,
			text: "List the items that this agent shares, newest first, with a preview of each. A private agent shares them with all agents of its user; a shared agent has its own."},
			listItems),
		define(about{name: "workspace_read", group: "items", title: "Read a shared item", effect: reads, limits: key,
			text: "Read one shared item: its whole value, who made it, and when it was made and changed."}, readItem),
		define(about{name: "workspace_write", group: "items", title: "Write a shared item", effect: settles,
			text: "Make or replace a shared item: a list, a plan, notes, anything other agents should find. The value is text, for structured data JSON.",
			limits: func(s *jsonschema.Schema) {
				key(s)
				length(s, "value", 0, control.MaxItem)
			}}, writeItem),
		define(about{name: "workspace_delete", group: "items", title: "Delete a shared item", effect: settles, limits: key,
			text: "Delete a shared item."}, deleteItem),
		define(about{name: "workspace_publish", group: "items", title: "Publish an item to a shared agent", effect: settles,
			text: "Copy one of your items into the workspace of a shared agent, whom other users can ask. Only from a private agent to a shared one.",
			limits: func(s *jsonschema.Schema) {
				key(s)
				length(s, "target_agent_id", 1, 63)
				length(s, "target_key", 1, 255)
			}}, publishItem),
	}
}

type itemInfo struct {
	Key       string    `json:"key" jsonschema:"of a directory with a slash at the end"`
	Preview   string    `json:"preview" jsonschema:"the first 100 characters; empty for what is no text"`
	Type      string    `json:"type" jsonschema:"text, binary, dir, or another type of file"`
	Size      uint64    `json:"size" jsonschema:"bytes"`
	CreatedBy string    `json:"created_by"`
	UpdatedAt time.Time `json:"updated_at"`
}

type itemsOut struct {
	Items []itemInfo `json:"items"`
}

func listItems(ctx context.Context, s *Server, _ struct{}) (itemsOut, said, error) {
	got, err := s.o.Client.Items(ctx, s.o.Agent)
	if err != nil {
		return itemsOut{}, said{}, err
	}
	out := itemsOut{Items: []itemInfo{}}
	var text strings.Builder
	for _, i := range got {
		one := itemInfo{Key: i.Key, Type: i.Type, Size: i.Size, CreatedBy: i.CreatedBy, UpdatedAt: i.UpdatedAt}
		if i.Preview != nil {
			one.Preview = *i.Preview
		}
		out.Items = append(out.Items, one)
		fmt.Fprintf(&text, "%s (%s, by %s, %s): %s\n", one.Key, one.Type, one.CreatedBy, one.UpdatedAt.Format(time.RFC3339), one.Preview)
	}
	if len(out.Items) == 0 {
		text.WriteString("no items\n")
	}
	return out, said{text: text.String()}, nil
}

type keyIn struct {
	Key string `json:"key" jsonschema:"the item's key, a file name"`
}

func readItem(ctx context.Context, s *Server, in keyIn) (control.Item, said, error) {
	got, err := s.o.Client.ReadItem(ctx, s.o.Agent, in.Key)
	return got, said{text: got.Value}, err
}

type itemIn struct {
	Key   string `json:"key" jsonschema:"the item's key, a file name such as shopping-list"`
	Value string `json:"value" jsonschema:"text of at most 8 MiB"`
}

func writeItem(ctx context.Context, s *Server, in itemIn) (control.ItemWritten, said, error) {
	got, err := s.o.Client.WriteItem(ctx, s.o.Agent, in.Key, in.Value)
	return got, said{text: fmt.Sprintf("%s %s in %s\n", got.Status, got.Key, got.WorkspaceID)}, err
}

func deleteItem(ctx context.Context, s *Server, in keyIn) (control.ItemDeleted, said, error) {
	got, err := s.o.Client.DeleteItem(ctx, s.o.Agent, in.Key)
	return got, said{text: fmt.Sprintf("%s %s\n", got.Status, got.Key)}, err
}

type publishIn struct {
	Key       string `json:"key" jsonschema:"key of an item of yours"`
	Target    string `json:"target_agent_id" jsonschema:"key of the shared agent"`
	TargetKey string `json:"target_key,omitempty" jsonschema:"its key there; default: the same"`
}

func publishItem(ctx context.Context, s *Server, in publishIn) (control.ItemPublished, said, error) {
	got, err := s.o.Client.Publish(ctx, control.Publication{Agent: s.o.Agent, Key: in.Key, Target: in.Target, TargetKey: in.TargetKey})
	return got, said{text: fmt.Sprintf("%s %s to %s as %s\n", got.Status, got.FromKey, got.ToAgent, got.ToKey)}, err
}

func fieldTools() []tool {
	return []tool{
		define(about{name: "update_workspace", group: "fields", title: "Set an editable field", effect: settles,
			text:   "Set a field that the context marks as [EDITABLE]. The value must match the field's schema; null clears it.",
			limits: func(s *jsonschema.Schema) { length(s, "field_name", 1, 255) }}, setField),
	}
}

type fieldIn struct {
	Name  string `json:"field_name" jsonschema:"name of the field"`
	Value any    `json:"value" jsonschema:"new value of the field's type; null clears it"`
}

type fieldOut struct {
	Name     string `json:"field_name"`
	Previous any    `json:"previous" jsonschema:"the value before, or null"`
	Value    any    `json:"value" jsonschema:"the value now: null if it was cleared and has no default"`
}

func setField(ctx context.Context, s *Server, in fieldIn) (fieldOut, said, error) {
	value, err := json.Marshal(in.Value)
	if err != nil {
		return fieldOut{}, said{}, control.Errorf(control.KindInvalid, "value: %v", err)
	}
	got, err := s.o.Client.SetField(ctx, control.FieldSetting{Agent: s.o.Agent, Name: in.Name, Value: value})
	if err != nil {
		return fieldOut{}, said{}, err
	}
	return fieldOut{Name: got.Name, Previous: got.Previous, Value: got.Value},
		said{text: fmt.Sprintf("Successfully updated field '%s':\n- Previous value: %s\n- New value: %s\n", got.Name, orNull(got.Previous), orNull(got.Value))}, nil
}

func orNull(b json.RawMessage) string {
	if len(b) == 0 {
		return "null"
	}
	return string(b)
}

func sessionTools() []tool {
	where := func(s *jsonschema.Schema) { length(s, "workspace", 1, 63) }
	return []tool{
		define(about{name: "session_new", group: "sessions", title: "Open a session", effect: addsOnce,
			text: "Open the session of this agent or of a device workspace; one that is there goes on, with its messages.",
			limits: func(s *jsonschema.Schema) {
				where(s)
				for _, name := range []string{"device_id", "provider", "model"} {
					length(s, name, 1, 1000)
				}
			}}, newSession),
		define(about{name: "session_append", group: "sessions", title: "Add a message to a session", effect: adds,
			text: "Add one message to the end of a session.",
			limits: func(s *jsonschema.Schema) {
				where(s)
				choice(s, "role", "user", "assistant", "system")
				length(s, "text", 0, 768<<10) // a daemon takes so many bytes
			}}, appendSession),
		define(about{name: "session_read", group: "sessions", title: "Read a session", effect: reads, limits: where,
			text: "Read a session with all its messages."}, readSession),
		define(about{name: "session_clear", group: "sessions", title: "Clear a session", effect: settles, limits: where,
			text: "Begin a session anew: its messages are gone."}, clearSession),
	}
}

type sessionIn struct {
	Workspace string `json:"workspace,omitempty" jsonschema:"UUID of a device workspace, or default; left out: the agent's own session"`
}

type newSessionIn struct {
	sessionIn
	Device   string `json:"device_id,omitempty" jsonschema:"instead of workspace: the device's, made and bound if it has none"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

type sessionOut struct {
	UUID     string            `json:"uuid" jsonschema:"of the workspace it belongs to"`
	Name     string            `json:"name" jsonschema:"of the workspace"`
	Path     string            `json:"path" jsonschema:"tree path of the session.md"`
	Provider string            `json:"provider"`
	Model    string            `json:"model"`
	Count    int               `json:"message_count"`
	Messages []control.Message `json:"messages"`
	Warning  string            `json:"warning,omitempty" jsonschema:"why the file is not understood"`
}

func sessionOf(got control.Session, err error) (sessionOut, said, error) {
	out := sessionOut{UUID: got.UUID, Name: got.Name, Path: got.Path, Provider: got.Provider, Model: got.Model, Count: got.Count,
		Messages: got.Messages, Warning: got.Warning}
	if out.Messages == nil {
		out.Messages = []control.Message{}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d messages\n", out.Path, out.Count)
	if out.Warning != "" {
		fmt.Fprintf(&text, "warning: %s\n", out.Warning)
	}
	for _, m := range out.Messages {
		fmt.Fprintf(&text, "\n[%s]\n%s\n", m.Role, m.Text)
	}
	return out, said{text: text.String()}, err
}

func newSession(ctx context.Context, s *Server, in newSessionIn) (sessionOut, said, error) {
	return sessionOf(s.o.Client.NewSession(ctx, control.SessionStart{Agent: s.o.Agent, Workspace: in.Workspace, Device: in.Device,
		Provider: in.Provider, Model: in.Model}))
}

type appendIn struct {
	sessionIn
	Role string `json:"role" jsonschema:"user, assistant or system"`
	Text string `json:"text"`
}

func appendSession(ctx context.Context, s *Server, in appendIn) (control.Appended, said, error) {
	got, err := s.o.Client.AppendSession(ctx, control.SessionMessage{Agent: s.o.Agent, Workspace: in.Workspace, Role: in.Role, Text: in.Text})
	return got, said{text: fmt.Sprintf("added to %s\n", got.Path)}, err
}

func readSession(ctx context.Context, s *Server, in sessionIn) (sessionOut, said, error) {
	return sessionOf(s.o.Client.ReadSession(ctx, s.o.Agent, in.Workspace))
}

func clearSession(ctx context.Context, s *Server, in sessionIn) (sessionOut, said, error) {
	return sessionOf(s.o.Client.ClearSession(ctx, s.o.Agent, in.Workspace))
}
