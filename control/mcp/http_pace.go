package mcp

import (
	"bufio"
	"io"
	"net/http"
	"time"
)

// Limits of what one token may have under way.
const (
	// maxPosts is how many messages may be on their way in or wait for their answer.
	maxPosts = 32
	// maxPostBytes bounds the bodies of these together, as they announce it; one
	// that does not counts as maxMessage.
	maxPostBytes = 2 * maxMessage
	// stall is how long a host may take to send, or to take, any byte of what is on
	// its way.
	stall = time.Minute
)

// posts are the messages that a token has under way; guarded by HTTP.mu.
type posts struct {
	n     int
	bytes int64
}

// enter takes a request of a token in; leave is to be called when it was answered.
// why tells what there is too much of; "" if it may go on. Sessions that are begun at
// once may become more than maxSessions, by maxPosts at most.
func (h *HTTP) enter(b *bearer, r *http.Request) (leave func(), why string) {
	if r.Method == http.MethodGet {
		b.server.listens(r.Header.Get("Mcp-Session-Id"))
	}
	if r.Method != http.MethodPost {
		return func() {}, ""
	}
	size := r.ContentLength
	if size < 0 {
		size = maxMessage
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &b.posts
	switch {
	case p.n >= maxPosts, p.n > 0 && p.bytes+size > maxPostBytes:
		return nil, "this token has too much under way; wait for answers"
	case r.Header.Get("Mcp-Session-Id") == "" && b.server.sessions() >= maxSessions:
		return nil, "this token has too many sessions; end some"
	}
	p.n, p.bytes = p.n+1, p.bytes+size
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		p.n, p.bytes = p.n-1, p.bytes-size
	}, ""
}

// paced is an answer of which each part must be taken in time.
type paced struct {
	http.ResponseWriter
	ctl *http.ResponseController
}

// pace puts a request's body and answer under stall.
func pace(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	p := &paced{ResponseWriter: w, ctl: http.NewResponseController(w)}
	r.Body = &pacedBody{ReadCloser: r.Body, ctl: p.ctl}
	return p
}

// Unwrap lets http.ResponseController find what is below.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write writes a part.
func (p *paced) Write(b []byte) (int, error) {
	_ = p.ctl.SetWriteDeadline(time.Now().Add(stall)) // there is none without a connection
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (p *paced) FlushError() error {
	_ = p.ctl.SetWriteDeadline(time.Now().Add(stall))
	return p.ctl.Flush()
}

// pacedBody is a body of which each part must come in time.
type pacedBody struct {
	io.ReadCloser
	ctl *http.ResponseController
}

// Read reads a part.
func (b *pacedBody) Read(p []byte) (int, error) {
	_ = b.ctl.SetReadDeadline(time.Now().Add(stall))
	n, err := b.ReadCloser.Read(p)
	if err != nil { // the server goes on to look for the end of the connection
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	return n, err
}

// isBatch looks whether a body is a list of messages. One such could ask for any
// number of answers at once.
func isBatch(r *http.Request) bool {
	body := bufio.NewReader(io.LimitReader(r.Body, maxMessage+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for {
		c, err := body.ReadByte()
		switch {
		case err != nil:
			return false
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			continue
		}
		return body.UnreadByte() == nil && c == '['
	}
}
