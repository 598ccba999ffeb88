package control

import (
	"context"
	"net/http"
	"time"
)

// Workspace is a volume people work in.
type Workspace struct {
	UUID         string    `json:"uuid"` // "default" for the one that is there from the start
	Kind         string    `json:"kind"` // agent, user, project, device
	Name         string    `json:"name"`
	Owner        string    `json:"owner"` // agent key, user id, project slug, uuid
	Path         string    `json:"path"`  // tree path
	CreatedAt    time.Time `json:"created_at"`
	LastAccessed time.Time `json:"last_accessed"` // mounted, session, bound or written
	Provider     string    `json:"provider,omitempty"`
	Devices      []string  `json:"devices,omitempty"` // that are bound to it
	Created      bool      `json:"created,omitempty"` // by this very request
}

// WorkspaceSpec describes a device workspace to be made.
type WorkspaceSpec struct {
	Name     string `json:"name,omitempty"` // "": as the UUID
	Provider string `json:"provider,omitempty"`
}

// WorkspaceChange changes a workspace; what is nil stays.
type WorkspaceChange struct {
	Name     *string `json:"name,omitempty"`
	Provider *string `json:"provider,omitempty"`
}

// Collection asks for the removal of device workspaces that nobody uses.
type Collection struct {
	MaxAge int  `json:"max_age_days"` // days without access; 0 is 90
	DryRun bool `json:"dry_run,omitempty"`
}

// Collected tells which were, or with DryRun would be, removed.
type Collected struct {
	Removed []Workspace `json:"removed"`
	DryRun  bool        `json:"dry_run"`
}

// Workspaces lists the workspaces in the agent's view, or all for agent "".
func (c *Client) Workspaces(ctx context.Context, agent string) ([]Workspace, error) {
	var out []Workspace
	return out, c.call(ctx, http.MethodGet, "/v1/workspaces", query("agent", agent), nil, &out)
}

// Workspace tells about one, by UUID.
func (c *Client) Workspace(ctx context.Context, agent, uuid string) (Workspace, error) {
	var out Workspace
	path, err := under("workspaces", uuid)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodGet, path, query("agent", agent), nil, &out)
}

// CreateWorkspace makes a device workspace.
func (c *Client) CreateWorkspace(ctx context.Context, spec WorkspaceSpec) (Workspace, error) {
	var out Workspace
	return out, c.call(ctx, http.MethodPost, "/v1/workspaces", nil, spec, &out)
}

// SetWorkspace changes a workspace's name or provider.
func (c *Client) SetWorkspace(ctx context.Context, uuid string, change WorkspaceChange) (Workspace, error) {
	var out Workspace
	path, err := under("workspaces", uuid)
	if err != nil {
		return out, err
	}
	return out, c.call(ctx, http.MethodPatch, path, nil, change, &out)
}

// DeleteWorkspace removes a device workspace with its bindings, its session and
// all its files. KindInvalid: it is another kind, or the default one;
// KindConflict: it is mounted.
func (c *Client) DeleteWorkspace(ctx context.Context, uuid string) error {
	path, err := under("workspaces", uuid)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

// CollectWorkspaces removes device workspaces that were not accessed for so
// long and are not mounted; never the default one.
func (c *Client) CollectWorkspaces(ctx context.Context, g Collection) (Collected, error) {
	var out Collected
	return out, c.call(ctx, http.MethodPost, "/v1/collect", nil, g, &out)
}
