package control

import (
	"context"
	"net/http"
)

// Context is the state that an agent's prompt includes.
type Context struct {
	Agent string `json:"agent"`
	// Text is Markdown of at most 16 KiB: who the agent is, where it may write,
	// quota, projects, fields (those it may set are marked [EDITABLE]), recent
	// denials. It is the same until one of them changes.
	Text string `json:"text"`
}

// Context gives what /.warren/context.md of the agent's mounts has.
func (c *Client) Context(ctx context.Context, agent string) (Context, error) {
	var out Context
	return out, c.call(ctx, http.MethodGet, "/v1/context", query("agent", agent), nil, &out)
}
