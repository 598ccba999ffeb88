package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Export says which tree leaves.
type Export struct {
	Agent string // through whose view; "" is the administrator
	Path  string // tree path
	Owner *Owner // what "the owner" is written as; nil: the caller
	// ChangedSince leaves out what was neither changed nor renamed since; the
	// zero time leaves out nothing.
	ChangedSince time.Time
}

// reportTrailer is the HTTP trailer that has an export's Transfer.
const reportTrailer = "Warren-Report"

// Export writes a tree as an uncompressed tar stream to w. After an error what
// w got is not whole.
func (c *Client) Export(ctx context.Context, e Export, w io.Writer) (Transfer, error) {
	var t Transfer
	q := query("agent", e.Agent, "path", e.Path, "owner", e.Owner.query())
	if !e.ChangedSince.IsZero() {
		q.Set("changed_since", e.ChangedSince.Format(time.RFC3339Nano))
	}
	resp, err := c.send(ctx, http.MethodGet, "/v1/export", q, nil)
	if err != nil {
		return t, err
	}
	defer drain(resp.Body)
	if err := c.copy(ctx, w, resp.Body); err != nil {
		return t, err
	}
	if err := json.Unmarshal([]byte(resp.Trailer.Get(reportTrailer)), &t); err != nil {
		return t, c.broken(ctx, fmt.Errorf("%s: the stream has no report: %w", e.Path, err))
	}
	return t, nil
}

// copy copies an answer's bytes and tells a failure of w from one of the
// connection.
func (c *Client) copy(ctx context.Context, w io.Writer, body io.Reader) error {
	sink := &sinkWriter{w: w}
	_, err := io.Copy(sink, body)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return c.broken(ctx, err)
	case sink.err != nil:
		return sink.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("it broke off; the daemon's log has the reason")
	}
	return c.broken(ctx, err)
}

type sinkWriter struct {
	w   io.Writer
	err error
}

// Write passes p on.
func (s *sinkWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.err = err
	}
	return n, err
}
