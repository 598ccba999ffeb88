package control

import (
	"context"
	"net/http"
	"time"
)

// Version names a daemon.
type Version struct {
	Version string `json:"version"`
	API     int    `json:"api"` // 1
	PID     int    `json:"pid"` // 0 to an agent
}

// Status is how a daemon fares.
type Status struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Store   string    `json:"store"`   // directory
	Content string    `json:"content"` // content driver
	Format  int       `json:"format"`
	Socket  string    `json:"socket"`
	Kernel  string    `json:"kernel"`
	Agents  int       `json:"agents"`
	Users   int       `json:"users"`
	Mounts  int       `json:"mounts"` // up
	Volumes int       `json:"volumes"`
	// Free and Total are the bytes of the disk the store is on.
	Free  uint64 `json:"free_bytes"`
	Total uint64 `json:"total_bytes"`
	// HeapBytes is what Go's heap takes, LimitBytes the soft limit it keeps to.
	HeapBytes  uint64 `json:"heap_bytes"`
	LimitBytes uint64 `json:"limit_bytes"`
	Figures
	// Notes are facts an administrator should know, as sentences.
	Notes []string `json:"notes,omitempty"`
}

// Version asks who answers.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	return v, c.call(ctx, http.MethodGet, "/v1/version", nil, nil, &v)
}

// Status asks how the daemon fares.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &s)
}

// Sync returns when everything acknowledged before the call is on disk.
func (c *Client) Sync(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/sync", nil, nil, nil)
}
