package control

import (
	"context"
	"net/http"
	"time"
)

// Policy is what decides in one agent's view, or in all. An agent is told of the
// settings that it may know of, and no Cedar.
type Policy struct {
	Agent      string            `json:"agent,omitempty"`
	Cedar      string            `json:"cedar,omitempty"`    // the policies in force
	Access     string            `json:"access,omitempty"`   // of the agent: rw, ro, none
	Mode       string            `json:"mode,omitempty"`     // of the agent
	Projects   map[string]string `json:"projects,omitempty"` // that the agent is a member of: read, write
	DenyNames  []string          `json:"deny_names"`         // for everybody, everywhere
	Rules      []DeniedName      `json:"rules"`              // for one agent, or under a path
	Exceptions []NameException   `json:"exceptions"`
	Epoch      uint64            `json:"epoch,omitempty"`
}

// NameException lets one name of the deny-list be used under one tree path.
type NameException struct {
	Name  string `json:"name"`
	Under string `json:"under"`
}

// Explanation is why something is allowed or not.
type Explanation struct {
	Agent  string       `json:"agent"`
	Action string       `json:"action"`
	Path   string       `json:"path"`
	Allow  bool         `json:"allow"`
	Rules  []PolicyRule `json:"rules"`
	Errors []string     `json:"errors,omitempty"`
	Note   string       `json:"note,omitempty"`
}

// PolicyRule is one rule that decided.
type PolicyRule struct {
	ID     string `json:"id"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Policy shows the Cedar in force, for one agent ("": all).
func (c *Client) Policy(ctx context.Context, agent string) (Policy, error) {
	var p Policy
	return p, c.call(ctx, http.MethodGet, "/v1/policy", query("agent", agent), nil, &p)
}

// AllowName adds an exception to the name deny-list; one that is there already
// is no error. It holds in every mount when it returns.
func (c *Client) AllowName(ctx context.Context, e NameException) error {
	return c.call(ctx, http.MethodPut, "/v1/policy/exceptions", nil, e, nil)
}

// DisallowName takes an exception away again.
func (c *Client) DisallowName(ctx context.Context, e NameException) error {
	return c.call(ctx, http.MethodDelete, "/v1/policy/exceptions", query("name", e.Name, "under", e.Under), nil, nil)
}

// DenyName puts a glob on the name deny-list; one that is there already is no
// error. It holds in every mount when it returns.
func (c *Client) DenyName(ctx context.Context, x DeniedName) error {
	return c.call(ctx, http.MethodPut, "/v1/policy/names", nil, x, nil)
}

// UndenyName takes an entry off the name deny-list.
func (c *Client) UndenyName(ctx context.Context, x DeniedName) error {
	return c.call(ctx, http.MethodDelete, "/v1/policy/names", query("name", x.Name, "agent", x.Agent, "under", x.Under), nil, nil)
}

// DeniedName is an entry of the name deny-list.
type DeniedName struct {
	Name  string `json:"name"`            // a glob, of regular files' names, in any case
	Agent string `json:"agent,omitempty"` // only for this agent
	Under string `json:"under,omitempty"` // only below this tree path
}

// SettingsText gives the settings as a settings file (TOML).
func (c *Client) SettingsText(ctx context.Context) (PolicyText, error) {
	var t PolicyText
	return t, c.call(ctx, http.MethodGet, "/v1/policy/settings", nil, nil, &t)
}

// SetSettings makes what a settings file says hold, all at once; what it does not
// name stays. KindInvalid: with file, line and column of all that is wrong.
func (c *Client) SetSettings(ctx context.Context, t PolicyText) error {
	return c.call(ctx, http.MethodPut, "/v1/policy/settings", nil, t, nil)
}

// Explain tells which rules decide about action (see, read, write, create,
// remove) on path for the agent.
func (c *Client) Explain(ctx context.Context, agent, action, path string) (Explanation, error) {
	var e Explanation
	q := query("agent", agent, "action", action, "path", path)
	return e, c.call(ctx, http.MethodGet, "/v1/policy/explain", q, nil, &e)
}

// ExplainOwn is Explain as the agent itself is told, whoever asks: what is hidden
// from it does not exist.
func (c *Client) ExplainOwn(ctx context.Context, agent, action, path string) (Explanation, error) {
	var e Explanation
	q := query("agent", agent, "action", action, "path", path, "discreet", "true")
	return e, c.call(ctx, http.MethodGet, "/v1/policy/explain", q, nil, &e)
}

// PolicyFile is a file of Cedar policies that an expert loaded.
type PolicyFile struct {
	Name   string    `json:"name"`
	Text   string    `json:"text"`
	Loaded time.Time `json:"loaded"`
}

// PolicyText is a file of Cedar policies, or of settings, to be checked or loaded.
type PolicyText struct {
	Name string `json:"name"` // ends with .cedar; of settings, to be checked, with .toml
	Text string `json:"text"`
}

// PolicyFiles lists the files that are in force, by name.
func (c *Client) PolicyFiles(ctx context.Context) ([]PolicyFile, error) {
	var fs []PolicyFile
	return fs, c.call(ctx, http.MethodGet, "/v1/policy/files", nil, nil, &fs)
}

// LoadPolicy checks a file, strictly and by its own examples, and puts it in force
// in the place of one of the same name. KindInvalid: with file, line and column of
// all that is wrong; nothing has changed then.
func (c *Client) LoadPolicy(ctx context.Context, p PolicyText) (PolicyFile, error) {
	var f PolicyFile
	return f, c.call(ctx, http.MethodPut, "/v1/policy/files", nil, p, &f)
}

// CheckPolicy tells what LoadPolicy would say, and changes nothing.
func (c *Client) CheckPolicy(ctx context.Context, p PolicyText) error {
	return c.call(ctx, http.MethodPost, "/v1/policy/check", nil, p, nil)
}

// RemovePolicy takes a file out of force.
func (c *Client) RemovePolicy(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/policy/files", query("name", name), nil, nil)
}
