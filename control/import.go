package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Owner is a user and a group by number.
type Owner struct{ UID, GID uint32 }

func (o *Owner) query() string {
	if o == nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", o.UID, o.GID)
}

// Import says where a tree goes.
type Import struct {
	Agent string // through whose view; "" is the administrator
	Path  string // tree path of the directory that becomes the archive's top
	Owner *Owner // whose files are "the owner's"; nil: the archive says it
	Force bool   // replace files that are there
}

// Transfer is what an import or export did.
type Transfer struct {
	Path         string    `json:"path"` // tree path
	Entries      int64     `json:"entries"`
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`             // of files, holes included
	Skipped      []Skipped `json:"skipped,omitempty"` // at most 100
	SkippedCount int64     `json:"skipped_count"`
	Millis       int64     `json:"millis"`
}

// Skipped is something that was left out, and why.
type Skipped struct {
	Path   string `json:"path"` // in the archive
	Reason string `json:"reason"`
}

// MaxSkipped bounds Transfer.Skipped.
const MaxSkipped = 100

// Skip notes what was left out.
func (t *Transfer) Skip(path, reason string) {
	if t.SkippedCount++; len(t.Skipped) < MaxSkipped {
		t.Skipped = append(t.Skipped, Skipped{path, reason})
	}
}

// Import makes the tree of an uncompressed tar stream below i.Path. An archive
// that is refused (KindInvalid, or KindConflict where something is in the way)
// has changed nothing. What policy forbids is in Skipped; KindDenied if that is
// all of it.
func (c *Client) Import(ctx context.Context, i Import, tar io.Reader) (Transfer, error) {
	var t Transfer
	q := query("agent", i.Agent, "path", i.Path, "owner", i.Owner.query())
	if i.Force {
		q.Set("force", "true")
	}
	body, stop := abandon(ctx, tar)
	defer stop()
	resp, err := c.send(ctx, http.MethodPost, "/v1/import", q, body)
	if err != nil {
		return t, err
	}
	defer drain(resp.Body)
	return t, c.decode(ctx, resp.Body, &t)
}

// abandon gives a reader of r that fails when ctx ends, also while r blocks. The
// goroutine that reads r then ends with its next Read. stop is to be called.
func abandon(ctx context.Context, r io.Reader) (body io.ReadCloser, stop func()) {
	pr, pw := io.Pipe()
	off := context.AfterFunc(ctx, func() { _ = pr.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.CopyBuffer(pw, struct{ io.Reader }{r}, make([]byte, 128<<10))
		_ = pw.CloseWithError(err)
	}()
	return pr, func() {
		off()
		_ = pr.Close()
	}
}
