package control

import (
	"context"
	"net/http"
)

// Amount is what a volume holds of bytes or of inodes, and what it may hold.
type Amount struct {
	Used uint64 `json:"used"`
	Free uint64 `json:"free"`           // what may still be added; of the store's space all volumes share
	Hard uint64 `json:"hard,omitempty"` // 0: no limit
	Soft uint64 `json:"soft,omitempty"`
	Over bool   `json:"over,omitempty"` // Used is over Soft
}

// Quota is what one volume holds and may hold.
type Quota struct {
	Path   string `json:"path"` // tree path
	Bytes  Amount `json:"bytes"`
	Inodes Amount `json:"inodes"`
}

// QuotaSpec sets limits of the volume at Path; what is nil stays, 0 takes a
// limit away. Agent: through whose view; "" is the administrator.
type QuotaSpec struct {
	Agent      string  `json:"agent,omitempty"`
	Path       string  `json:"path"`
	Bytes      *uint64 `json:"bytes,omitempty"`
	SoftBytes  *uint64 `json:"soft_bytes,omitempty"`
	Inodes     *uint64 `json:"inodes,omitempty"`
	SoftInodes *uint64 `json:"soft_inodes,omitempty"`
}

// Quotas tells of the volume that path is in, or, without a path, of all volumes
// that agent sees something of its own in; agent "" is the administrator.
func (c *Client) Quotas(ctx context.Context, agent, path string) ([]Quota, error) {
	var out []Quota
	return out, c.call(ctx, http.MethodGet, "/v1/quotas", query("agent", agent, "path", path), nil, &out)
}

// SetQuota changes limits. KindInvalid: Path is no volume's root, or the limits
// make no sense; KindDenied: they are not the agent's to set.
func (c *Client) SetQuota(ctx context.Context, s QuotaSpec) (Quota, error) {
	var out Quota
	return out, c.call(ctx, http.MethodPut, "/v1/quotas", nil, s, &out)
}
