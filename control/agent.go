package control

import (
	"context"
	"net/http"
	"time"
)

// Agent is a principal: what mounts are made for.
type Agent struct {
	Key      string    `json:"key"`  // [a-z0-9][a-z0-9_-]{0,62}
	Role     string    `json:"role"` // orchestrator, soul, shared
	User     string    `json:"user,omitempty"`
	Parent   string    `json:"parent,omitempty"`
	Access   string    `json:"access"`              // rw, ro, none
	OnlyUser string    `json:"only_user,omitempty"` // an orchestrator limited to this user's agents
	Mode     string    `json:"mode"`                // own, inherit, inherit-ro, home-only, mapped PATH:ro|rw …
	Name     string    `json:"name,omitempty"`
	Email    string    `json:"email"`
	Publish  string    `json:"publish,omitempty"` // of a shared one, what publications may replace: own, any
	RunUID   uint32    `json:"run_uid"`           // the uid `warren run` gives it where the caller is root
	Created  time.Time `json:"created"`
	Home     string    `json:"home"` // tree path
	Work     string    `json:"workspace"`
	Scratch  string    `json:"scratch"`
}

// AgentSpec describes an agent to be added. Empty fields have the defaults
// role soul, access rw, e-mail <key>@warren.local.
type AgentSpec struct {
	Key      string `json:"key"`
	Role     string `json:"role,omitempty"`
	User     string `json:"user,omitempty"`
	Parent   string `json:"parent,omitempty"`
	Access   string `json:"access,omitempty"`
	OnlyUser string `json:"only_user,omitempty"`
	Name     string `json:"name,omitempty"`
	Email    string `json:"email,omitempty"`
}

// AgentChange changes an agent; what is nil stays. "" clears a user or parent.
type AgentChange struct {
	User     *string `json:"user,omitempty"`
	Parent   *string `json:"parent,omitempty"`
	Access   *string `json:"access,omitempty"`
	OnlyUser *string `json:"only_user,omitempty"`
	Mode     *string `json:"mode,omitempty"`
	Name     *string `json:"name,omitempty"`
	Email    *string `json:"email,omitempty"`
	Publish  *string `json:"publish,omitempty"`
}

// AddAgent adds an agent and makes its home, workspace and scratch.
// KindConflict: there is one; KindNotFound: no such user or parent;
// KindInvalid: a bad key, role or access, a parent that would be a cycle.
func (c *Client) AddAgent(ctx context.Context, spec AgentSpec) (Agent, error) {
	var a Agent
	return a, c.call(ctx, http.MethodPost, "/v1/agents", nil, spec, &a)
}

// Agents lists all agents by key.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var as []Agent
	return as, c.call(ctx, http.MethodGet, "/v1/agents", nil, nil, &as)
}

// Agent tells about one agent.
func (c *Client) Agent(ctx context.Context, key string) (Agent, error) {
	var a Agent
	path, err := under("agents", key)
	if err != nil {
		return a, err
	}
	return a, c.call(ctx, http.MethodGet, path, nil, nil, &a)
}

// SetAgent changes an agent. It holds in every mount when it returns.
func (c *Client) SetAgent(ctx context.Context, key string, change AgentChange) (Agent, error) {
	var a Agent
	path, err := under("agents", key)
	if err != nil {
		return a, err
	}
	return a, c.call(ctx, http.MethodPatch, path, nil, change, &a)
}

// RemoveAgent unmounts an agent's mounts and removes it with all its files.
// KindConflict: it is another's parent.
func (c *Client) RemoveAgent(ctx context.Context, key string) error {
	path, err := under("agents", key)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}
