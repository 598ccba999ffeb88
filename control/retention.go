package control

import (
	"context"
	"net/http"
)

// Retention is how long a kind of file is kept: "scratch", "caches" or
// "screenshots". Age is as "168h0m0s", or "never": it is not collected.
type Retention struct {
	Kind string `json:"kind"`
	Age  string `json:"age"`
}

// OldFiles is what a collection of old files removed, or would remove.
type OldFiles struct {
	Removed uint64 `json:"removed"` // files and directories
	Bytes   uint64 `json:"bytes"`
	Failed  uint64 `json:"failed"`
}

// Retention tells how long each kind is kept, by kind.
func (c *Client) Retention(ctx context.Context) ([]Retention, error) {
	var out []Retention
	return out, c.call(ctx, http.MethodGet, "/v1/retention", nil, nil, &out)
}

// SetRetention sets how long a kind is kept; Age is as "7d", "36h" or "never".
// KindInvalid: no such kind, or no age.
func (c *Client) SetRetention(ctx context.Context, r Retention) error {
	return c.call(ctx, http.MethodPut, "/v1/retention", nil, r, nil)
}

// CollectOld removes now what is older than it is kept, which the daemon does every
// hour; dry: it only tells what it would.
func (c *Client) CollectOld(ctx context.Context, dry bool) (OldFiles, error) {
	var out OldFiles
	in := struct {
		DryRun bool `json:"dry_run"`
	}{dry}
	return out, c.call(ctx, http.MethodPost, "/v1/retention/collect", nil, in, &out)
}
