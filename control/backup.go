package control

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Backup is what a backup file holds.
type Backup struct {
	File     string    `json:"file,omitempty"`
	ID       string    `json:"id"`
	Since    string    `json:"since,omitempty"` // the backup it goes on from
	LSN      uint64    `json:"lsn"`             // the last update that is in it
	Created  time.Time `json:"created"`
	Records  uint64    `json:"records"`
	Contents uint64    `json:"contents"`
	Bytes    uint64    `json:"bytes"` // of contents
	SHA256   string    `json:"sha256"`
}

// Restored is what restore-store made.
type Restored struct {
	Store string `json:"store"`
	LSN   uint64 `json:"lsn"` // of the store that the newest backup was made of
	Keys  uint64 `json:"keys"`
	// Problems are invariants that did not hold when it was backed up.
	Problems int `json:"problems"`
	// Mounts are those that were recorded, and which the next daemon makes.
	Mounts int   `json:"mounts"`
	Millis int64 `json:"millis"`
}

// Backup writes a backup of the daemon's store to w, with the index of an earlier
// one (nil: none) what changed since. After an error what w got is no backup.
func (c *Client) Backup(ctx context.Context, index io.Reader, w io.Writer) error {
	var body io.Reader
	if index != nil {
		b, stop := abandon(ctx, index)
		defer stop()
		body = b
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/backup", nil, body)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	return c.copy(ctx, w, resp.Body)
}
