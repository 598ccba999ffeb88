package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// RunSpec asks for a mount that lives as long as the caller holds it.
type RunSpec struct {
	Agent  string  `json:"agent"`
	Access string  `json:"access,omitempty"` // rw (default), ro
	UID    *uint32 `json:"uid,omitempty"`    // nil: the agent's own where the caller is root, else the caller's
	GID    *uint32 `json:"gid,omitempty"`    // nil: the same number, or the caller's
	// Project is where it starts: a directory of the agent's workspace, made if
	// it is not there; "-", a fresh one; or "/projects/NAME". "": the workspace.
	Project string `json:"project,omitempty"`
	// Mode says what it sees; "": as the agent's mode says, or mapped if Map is
	// not empty. own, all that the agent does; inherit
	// and inherit-ro, that, working in its parent's workspace; home-only, its
	// home read-only and its scratch; mapped, that and what Map names.
	Mode string    `json:"mode,omitempty"`
	Map  []RunPart `json:"map,omitempty"`
}

// RunPart is a directory that a command sees.
type RunPart struct {
	Path  string `json:"path"` // tree path
	Write bool   `json:"write"`
}

// Run is what `warren run` needs to set up its namespaces.
type Run struct {
	ID    string `json:"id"`
	Dir   string `json:"dir"` // where the daemon mounted the view
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Agent Agent  `json:"agent"`
	Work  string `json:"work"` // tree path where the command starts
	Home  string `json:"home"` // tree path of its HOME
	// Delegation tells what the command changed at Work (DelegationChanges), of
	// which the administrator asks.
	Delegation string `json:"delegation,omitempty"`
	// Parts are what it may see of what is mounted at Dir, parents before
	// children; nil: all. The caller sees to that, in the command's own mount
	// namespace.
	Parts []RunPart `json:"parts,omitempty"`
	// Hide lists host directories that the command must not see: the store,
	// the daemon's sockets and its other mounts.
	Hide []string `json:"hide"`
}

// Hold keeps a run's mount alive until it is closed.
type Hold struct {
	Run    Run
	body   io.ReadCloser
	cancel context.CancelFunc
}

// Gone is closed by the caller's own reading: it returns when the daemon ends
// the run or goes away.
func (h *Hold) Gone() { _, _ = io.Copy(io.Discard, h.body) }

// Close lets the daemon take the mount away. It may be called twice.
func (h *Hold) Close() {
	h.cancel()
	_ = h.body.Close()
}

// StartRun mounts an agent's view for one command, with the agent's home in
// caches and its temporary directory made ready. The mount goes when the Hold
// is closed, when ctx ends or when the caller dies.
func (c *Client) StartRun(ctx context.Context, spec RunSpec) (*Hold, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return nil, Errorf(KindInvalid, "request: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.send(ctx, http.MethodPost, "/v1/runs", nil, strings.NewReader(string(b)))
	if err != nil {
		cancel()
		return nil, err
	}
	h := &Hold{body: resp.Body, cancel: cancel}
	// The answer is one JSON value and then nothing until the run ends; the
	// decoder reads no further than what has arrived.
	if err := json.NewDecoder(resp.Body).Decode(&h.Run); err != nil {
		h.Close()
		return nil, c.broken(ctx, err)
	}
	return h, nil
}

// EndRun takes a run's mount away and returns when it is gone.
func (c *Client) EndRun(ctx context.Context, id string) error {
	path, err := under("runs", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}
