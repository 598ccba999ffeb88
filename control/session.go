package control

import (
	"context"
	"net/http"
	"time"
)

// A session is one conversation, kept in the session.md of an agent's home or
// of a device workspace. Where a method takes workspace, it is the UUID of a
// device workspace, or "default"; "" is the agent's own session.

// Message is one message of a session.
type Message struct {
	Role string `json:"role"` // user, assistant, system
	Text string `json:"text"`
}

// Session is one session.
type Session struct {
	UUID      string     `json:"uuid"` // of the workspace it belongs to
	Name      string     `json:"name"` // of the workspace
	Path      string     `json:"path"` // tree path of the session.md
	Provider  string     `json:"provider"`
	Model     string     `json:"model"`
	CreatedAt *time.Time `json:"created_at,omitempty"` // left out where there is no front matter yet
	Count     int        `json:"message_count"`
	Messages  []Message  `json:"messages,omitempty"`
	// Warning tells why the file is not understood. There are no messages then,
	// and the file stays as it is.
	Warning string `json:"warning,omitempty"`
}

// SessionStart opens a session, and begins it where there is none.
type SessionStart struct {
	Agent     string `json:"agent,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Device    string `json:"device_id,omitempty"` // instead of Workspace: the device's, made and bound if it has none
	Provider  string `json:"provider,omitempty"`  // "": as configured
	Model     string `json:"model,omitempty"`     // "": as configured
}

// SessionMessage is a message to be added.
type SessionMessage struct {
	Agent     string `json:"agent,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Role      string `json:"role"` // user, assistant, system, in any case
	Text      string `json:"text"` // UTF-8
}

// Appended answers a message that was added.
type Appended struct {
	Path string `json:"path"`
	Role string `json:"role"`
}

// NewSession opens a session: one that is there goes on, with its messages.
func (c *Client) NewSession(ctx context.Context, s SessionStart) (Session, error) {
	var out Session
	return out, c.call(ctx, http.MethodPost, "/v1/session", nil, s, &out)
}

// ReadSession gives a session with its messages. A corrupt file is no error:
// Warning tells of it.
func (c *Client) ReadSession(ctx context.Context, agent, workspace string) (Session, error) {
	var out Session
	return out, c.call(ctx, http.MethodGet, "/v1/session", query("agent", agent, "workspace", workspace), nil, &out)
}

// AppendSession adds one message as one step, also beside other writers.
// KindInvalid: another role (tools' are refused) or text that is none;
// KindConflict: the file is corrupt, and stays as it is.
func (c *Client) AppendSession(ctx context.Context, m SessionMessage) (Appended, error) {
	var out Appended
	return out, c.call(ctx, http.MethodPost, "/v1/session/messages", nil, m, &out)
}

// ClearSession makes an empty session with the front matter it had, or a new
// one where that is corrupt.
func (c *Client) ClearSession(ctx context.Context, agent, workspace string) (Session, error) {
	var out Session
	return out, c.call(ctx, http.MethodDelete, "/v1/session", query("agent", agent, "workspace", workspace), nil, &out)
}
