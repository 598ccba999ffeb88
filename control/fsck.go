package control

import (
	"context"
	"net/http"
)

// Problem is one broken invariant of a store.
type Problem struct {
	Volume string `json:"volume,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text"`
}

// Check is the outcome of fsck.
type Check struct {
	Clean    bool      `json:"clean"`
	Problems []Problem `json:"problems"` // at most 10,000
	Count    int       `json:"count"`    // of all problems
	Millis   int64     `json:"millis"`
	Repaired []Problem `json:"repaired,omitempty"` // what was done, in order
}

// Fsck checks every invariant of the daemon's store; nothing is changed.
func (c *Client) Fsck(ctx context.Context) (Check, error) {
	var r Check
	return r, c.call(ctx, http.MethodPost, "/v1/fsck", nil, nil, &r)
}
