package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// Client speaks to one daemon.
type Client struct {
	socket string
	token  string
	http   *http.Client
}

// NewClient makes a client of the daemon that listens at the unix socket. It
// does not connect yet. The token, if any, is sent with every request.
func NewClient(socket, token string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, token: token, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true},
	}}
}

// Socket is the path the client connects to.
func (c *Client) Socket() string { return c.socket }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Wait returns when the daemon answers. KindUnavailable: it did not before ctx's
// deadline; KindInterrupted: ctx was cancelled.
func (c *Client) Wait(ctx context.Context) error {
	last := error(Errorf(KindUnavailable, "the daemon at %s does not answer", c.socket))
	for {
		_, err := c.Version(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(ctx.Err(), context.DeadlineExceeded) && KindOf(err) == KindInterrupted:
			return last
		case KindOf(err) != KindUnavailable:
			return err
		}
		last = err
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// call sends in as JSON (nil: no body) and decodes the answer into out (nil:
// dropped).
func (c *Client) call(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return Errorf(KindInvalid, "request: %v", err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.send(ctx, method, path, q, body)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if out == nil {
		return nil
	}
	return c.decode(ctx, resp.Body, out)
}

// decode reads the one JSON value of an answer.
func (c *Client) decode(ctx context.Context, body io.Reader, out any) error {
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return c.broken(ctx, err)
	}
	return nil
}

// send makes one request and turns an answer that is a failure into an error.
// The caller closes the answer's body.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body io.Reader) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "warren", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, Errorf(KindInvalid, "request: %v", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer drain(resp.Body)
	var e Error
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(b, &e) != nil || e.Text == "" {
		return nil, Errorf(KindFailed, "%s: the daemon answered %s: %.200s", c.socket, resp.Status, b)
	}
	return nil, &e
}

// unreachable words a request that got no answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return Errorf(KindInterrupted, "interrupted: %v", context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return Errorf(KindUnavailable,
			"no daemon at %s; start one with `warren serve`, or name its socket with --socket or WARREN_SOCKET", c.socket)
	case errors.Is(err, fs.ErrPermission):
		return Errorf(KindDenied,
			"%s: permission denied; the admin socket is for root and the daemon's own user", c.socket)
	}
	return c.broken(ctx, err)
}

// broken words an answer that ended too early.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return Errorf(KindInterrupted, "interrupted: %v", context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return Errorf(KindUnavailable, "the daemon at %s went away: %v", c.socket, err)
}

func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, io.LimitReader(body, 1<<20))
	_ = body.Close()
}

// query builds a query string from pairs; empty values are left out.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// under joins a collection and one name, which is escaped by url.URL. A name
// that would name another resource is refused.
func under(collection, name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", Errorf(KindInvalid, "%q is not a name", name)
	}
	return "/v1/" + collection + "/" + name, nil
}
