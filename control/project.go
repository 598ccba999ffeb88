package control

import (
	"context"
	"net/http"
	"time"
)

// Project is a tree shared by its members.
type Project struct {
	Slug    string            `json:"slug"` // same letters as an agent's key
	Created time.Time         `json:"created"`
	Members map[string]string `json:"members"` // agent key -> read, write
	// Trust are the agents that take the members' files for their own; "*": each member.
	Trust []string `json:"trust,omitempty"`
	Path  string   `json:"path"`
}

// ProjectSpec describes a project to be made.
type ProjectSpec struct {
	Slug    string            `json:"slug"`
	Members map[string]string `json:"members,omitempty"`
	// Template is what it begins with: "" nothing, "shared" the files by which
	// agents that share a project tell each other what they do.
	Template string `json:"template,omitempty"`
}

// Member gives one agent a right on a project: read, write, or "" to leave.
type Member struct {
	Agent string `json:"agent"`
	Right string `json:"right"`
}

// CreateProject makes a project and /projects/<slug>.
func (c *Client) CreateProject(ctx context.Context, spec ProjectSpec) (Project, error) {
	var p Project
	return p, c.call(ctx, http.MethodPost, "/v1/projects", nil, spec, &p)
}

// Projects lists all projects by slug.
func (c *Client) Projects(ctx context.Context) ([]Project, error) {
	var ps []Project
	return ps, c.call(ctx, http.MethodGet, "/v1/projects", nil, nil, &ps)
}

// Project tells about one project.
func (c *Client) Project(ctx context.Context, slug string) (Project, error) {
	var p Project
	path, err := under("projects", slug)
	if err != nil {
		return p, err
	}
	return p, c.call(ctx, http.MethodGet, path, nil, nil, &p)
}

// Trust sets whether an agent ("": each member) trusts what members make in a project.
type Trust struct {
	Agent string `json:"agent,omitempty"`
	On    bool   `json:"on"`
}

// SetTrust changes whose files an agent trusts. It holds in every mount when it returns.
func (c *Client) SetTrust(ctx context.Context, slug string, t Trust) (Project, error) {
	var p Project
	path, err := under("projects", slug)
	if err != nil {
		return p, err
	}
	return p, c.call(ctx, http.MethodPut, path+"/trust", nil, t, &p)
}

// SetMember changes one membership. It holds in every mount when it returns.
func (c *Client) SetMember(ctx context.Context, slug string, m Member) (Project, error) {
	var p Project
	path, err := under("projects", slug)
	if err != nil {
		return p, err
	}
	return p, c.call(ctx, http.MethodPut, path+"/members", nil, m, &p)
}
