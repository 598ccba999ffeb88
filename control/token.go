package control

import (
	"context"
	"net/http"
	"time"
)

// Token lets its bearer ask at agent.sock as one agent.
type Token struct {
	ID      string     `json:"id"`
	Agent   string     `json:"agent"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"` // nil: never
	Expired bool       `json:"expired,omitempty"`
}

// TokenSpec asks for a token.
type TokenSpec struct {
	Agent string `json:"agent"`
	// TTL is how long it is worth something, as of time.ParseDuration (24h);
	// "" is until it is revoked.
	TTL string `json:"ttl,omitempty"`
}

// NewToken is a token with its text, which is told this once.
type NewToken struct {
	Token
	Text string `json:"token"`
}

// CreateToken makes a token. KindNotFound: no such agent; KindInvalid: no such
// TTL; KindQuota: the agent has 1,000.
func (c *Client) CreateToken(ctx context.Context, spec TokenSpec) (NewToken, error) {
	var t NewToken
	return t, c.call(ctx, http.MethodPost, "/v1/tokens", nil, spec, &t)
}

// Tokens lists tokens by agent and age, of one agent or ("") all.
func (c *Client) Tokens(ctx context.Context, agent string) ([]Token, error) {
	var ts []Token
	return ts, c.call(ctx, http.MethodGet, "/v1/tokens", query("agent", agent), nil, &ts)
}

// RevokeToken ends a token: when it returns, requests with it are refused, and
// those under way and mounts that it brought have ended.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	path, err := under("tokens", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}
