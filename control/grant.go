package control

import (
	"context"
	"net/http"
	"time"
)

// Grant is a permission on one subtree for one agent until a time.
type Grant struct {
	ID        string    `json:"id"`
	Agent     string    `json:"agent"`
	Path      string    `json:"path"`
	Right     string    `json:"right"`        // read, write
	By        string    `json:"by,omitempty"` // the agent that gave it, if the asker may know; "": the administrator
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires"`
	Suspended bool      `json:"suspended,omitempty"` // not in force: its giver is not above the agent now
}

// GrantSpec asks for a grant.
type GrantSpec struct {
	Agent string `json:"agent"`
	Path  string `json:"path"` // what is there, and all below it
	Right string `json:"right"`
	TTL   string `json:"ttl"` // as of time.ParseDuration (2h); a year at most
}

// Grant gives an agent a right on a subtree for a time. It holds in every mount
// when it returns. KindDenied: not the asker's to give.
func (c *Client) Grant(ctx context.Context, spec GrantSpec) (Grant, error) {
	var g Grant
	return g, c.call(ctx, http.MethodPost, "/v1/grants", nil, spec, &g)
}

// Grants lists those that the asker may know of, of one agent or ("") all.
func (c *Client) Grants(ctx context.Context, agent string) ([]Grant, error) {
	var gs []Grant
	return gs, c.call(ctx, http.MethodGet, "/v1/grants", query("agent", agent), nil, &gs)
}

// RevokeGrant ends a grant: when it returns, no mount shows what was granted.
func (c *Client) RevokeGrant(ctx context.Context, id string) error {
	path, err := under("grants", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}
