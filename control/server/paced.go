package server

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// pace bounds the time that a request of agent.sock may take.
type pace struct {
	stall time.Duration // without a byte of the body, or of the answer, moving
	plain time.Duration // in all
	long  time.Duration // in all, where content is streamed
}

// agentPace is what agents get.
var agentPace = pace{stall: 30 * time.Second, plain: 2 * time.Minute, long: 24 * time.Hour}

// paced is a request's answer and body under a pace. ctx ends the request: with
// it, reading and writing fail.
type paced struct {
	http.ResponseWriter
	ctl   *http.ResponseController
	body  io.ReadCloser
	stall time.Duration

	mu    sync.Mutex
	limit time.Time // of reading, as a handler has set it; zero: none
	over  bool
}

// newPaced wraps a request; done is to be called when it was answered.
func newPaced(ctx context.Context, w http.ResponseWriter, r *http.Request, stall time.Duration) (p *paced, done func()) {
	p = &paced{ResponseWriter: w, ctl: http.NewResponseController(w), body: r.Body, stall: stall}
	r.Body = pacedBody{p}
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		past := time.Unix(1, 0)
		_ = p.ctl.SetReadDeadline(past)
		_ = p.ctl.SetWriteDeadline(past)
	})
	return p, func() {
		stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.over { // the rest of the body, and of the answer
			_ = p.ctl.SetReadDeadline(time.Now().Add(stall))
			_ = p.ctl.SetWriteDeadline(time.Now().Add(stall))
		}
	}
}

// Unwrap lets http.ResponseController find what is below.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write writes a part of the answer.
func (p *paced) Write(b []byte) (int, error) {
	p.writing()
	return p.ResponseWriter.Write(b)
}

// FlushError sends what was written so far.
func (p *paced) FlushError() error {
	p.writing()
	return p.ctl.Flush()
}

func (p *paced) writing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_ = p.ctl.SetWriteDeadline(time.Now().Add(p.stall))
	}
}

// SetReadDeadline lets a handler bound its reading further.
func (p *paced) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = t
	if p.over {
		return nil
	}
	return p.ctl.SetReadDeadline(t)
}

// pacedBody is the body of a request under a pace.
type pacedBody struct{ p *paced }

// Read reads some of the body.
func (b pacedBody) Read(buf []byte) (int, error) {
	p := b.p
	p.mu.Lock()
	if !p.over {
		end := time.Now().Add(p.stall)
		if !p.limit.IsZero() && p.limit.Before(end) {
			end = p.limit
		}
		_ = p.ctl.SetReadDeadline(end)
	}
	p.mu.Unlock()
	n, err := p.body.Read(buf)
	if err != nil {
		// The server goes on to look for the end of the connection, which has
		// no time.
		p.mu.Lock()
		if !p.over && p.limit.IsZero() {
			_ = p.ctl.SetReadDeadline(time.Time{})
		}
		p.mu.Unlock()
	}
	return n, err
}

// Close ends reading.
func (b pacedBody) Close() error { return b.p.body.Close() }
