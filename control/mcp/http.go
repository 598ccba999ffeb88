package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

// Limits of HTTP.
const (
	// maxBearers is how many tokens may have sessions at once; each may have
	// maxSessions.
	maxBearers  = 256
	maxSessions = 64
	// idleSession is how long a session lasts without a request; what a token
	// needs is dropped that long after its last one.
	idleSession = time.Hour
	// askEvery is how often the daemon is asked about each token that has
	// something here, and askTime how long it may take to answer.
	askEvery = 3 * time.Second
	askTime  = 5 * time.Second
	// endTime bounds the wait for calls that end.
	endTime = 5 * time.Second
	// maxBearer bounds the text of a token, in bytes.
	maxBearer = 512
)

// HTTPPath is where HTTP serves.
const HTTPPath = "/mcp"

// HTTP serves any number of hosts by streamable HTTP, each as the agent of the
// bearer token that it sends with every request. It has no rights of its own,
// but to run git by Options.Git for the token's agent: a request is done with the token it came with, which the daemon is asked about
// each time. A session is its token's: another's does not find it. When a token ends, its
// sessions, streams and calls do, within seconds.
//
// The listener must be on a loopback address: there is no TLS. Requests that a
// browser sends for another site's page are refused, by Host and by Origin.
//
// Answers beside those of the protocol: 401 no token, or one that is worth
// nothing; 429 too many tokens or sessions; 503 the daemon does not answer.
type HTTP struct {
	o       Options
	socket  string
	handler http.Handler

	mu      sync.Mutex
	bearers map[string]*bearer // by the token's hash
	now     func() time.Time
	closed  chan struct{}
	closing sync.Once
}

// bearer is what one token needs.
type bearer struct {
	server *Server
	used   time.Time
	posts  posts
}

// NewHTTP makes one that asks the daemon at socket, its agent.sock. Of o, Client and
// Agent are not used. KindInvalid: as New.
func NewHTTP(socket string, o Options) (*HTTP, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if _, err := New(o); err != nil {
		return nil, err
	}
	h := &HTTP{o: o, socket: socket, bearers: map[string]*bearer{}, now: time.Now, closed: make(chan struct{})}
	serve := sdk.NewStreamableHTTPHandler(h.serverOf, &sdk.StreamableHTTPOptions{
		Logger: o.Log, SessionTimeout: idleSession, MaxRequestBodyBytes: maxMessage})
	bound := auth.RequireBearerToken(h.bind, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(serve)
	h.handler = http.NewCrossOriginProtection().Handler(h.admit(bound))
	go h.watch()
	return h, nil
}

// ServeHTTP serves HTTPPath, and nothing else.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != HTTPPath {
		http.NotFound(w, r)
		return
	}
	h.handler.ServeHTTP(pace(w, r), r)
}

// Close ends all sessions and what goes on in them. It returns when that is done, or
// after endTime.
func (h *HTTP) Close() {
	h.closing.Do(func() { close(h.closed) })
	h.mu.Lock()
	ends := make(chan struct{}, len(h.bearers))
	n := len(h.bearers)
	for id, b := range h.bearers {
		delete(h.bearers, id)
		go func() {
			b.server.end()
			ends <- struct{}{}
		}()
	}
	h.mu.Unlock()
	late := time.After(endTime)
	for range n {
		select {
		case <-ends:
		case <-late:
			return
		}
	}
}

// watch asks the daemon about the tokens, until Close: what goes on with one that has
// ended is ended, though nobody asks for anything.
func (h *HTTP) watch() {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-h.closed:
			return
		case <-tick.C:
		}
		h.mu.Lock()
		all := maps.Clone(h.bearers)
		h.mu.Unlock()
		for id, b := range all {
			ctx, cancel := context.WithTimeout(context.Background(), askTime)
			if refused(ctx, b.server.o.Client, true) == http.StatusUnauthorized {
				h.drop(id)
			}
			cancel()
		}
	}
}

// tokenOf gives the token of a request, "" if there is none.
func tokenOf(r *http.Request) string {
	f := strings.Fields(r.Header.Get("Authorization"))
	if len(f) != 2 || !strings.EqualFold(f[0], "bearer") || len(f[1]) > maxBearer {
		return ""
	}
	return f[1]
}

// tokenID is the part of a token that is no secret, as `warren token list` has it.
func tokenID(token string) string {
	if f := strings.Split(token, "_"); len(f) > 2 {
		return f[1]
	}
	return ""
}

// hashOf names a token without telling it.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// bind makes the SDK keep a session to its token; admit has asked the daemon.
func (h *HTTP) bind(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	return &auth.TokenInfo{UserID: hashOf(token)}, nil
}

// admit lets through what comes with a token that the daemon takes.
func (h *HTTP) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := tokenOf(r)
		if token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a token is needed: Authorization: Bearer TOKEN (`warren token create AGENT` makes one)", http.StatusUnauthorized)
			return
		}
		b, status := h.bearer(r, token)
		switch {
		case status == http.StatusUnauthorized:
			h.drop(hashOf(token))
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			http.Error(w, "the token is not known, has expired or was revoked", status)
			return
		case status == http.StatusServiceUnavailable:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the daemon does not answer; is it running?", status)
			return
		case status != 0:
			http.Error(w, "too many tokens have sessions here; try again later", status)
			return
		}
		leave, why := h.enter(b, r)
		if why != "" {
			http.Error(w, why, http.StatusTooManyRequests)
			return
		}
		defer leave()
		if r.Method == http.MethodPost && isBatch(r) {
			http.Error(w, "one message at a time; batches are not understood", http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer asks the daemon about a token and gives what it needs, or the status of
// a refusal. A token that was good is let through while the daemon restarts: what is
// asked with it fails by itself.
func (h *HTTP) bearer(r *http.Request, token string) (b *bearer, status int) {
	id := hashOf(token)
	h.mu.Lock()
	b = h.bearers[id]
	h.mu.Unlock()
	if b != nil {
		if status := refused(r.Context(), b.server.o.Client, true); status != 0 {
			return nil, status
		}
		return h.keep(id, nil)
	}
	o := h.o
	o.Client, o.Log = control.NewClient(h.socket, token), h.o.Log.With("token", tokenID(token))
	defer func() {
		if b == nil || b.server.o.Client != o.Client { // its connection would stay
			o.Client.Close()
		}
	}()
	if status := refused(r.Context(), o.Client, false); status != 0 {
		return nil, status
	}
	fresh, err := New(o)
	if err != nil { // NewHTTP has tried
		return nil, http.StatusServiceUnavailable
	}
	if c, err := o.Client.Context(r.Context(), ""); err == nil {
		fresh.who = c.Agent
	}
	if err := fresh.EnterProject(r.Context()); err != nil {
		o.Log.Warn("the project is not there yet", "project", o.Project, "err", err)
	}
	return h.keep(id, fresh)
}

// refused asks the daemon about a client's token: 0, it is good, or was and the daemon
// is not there.
func refused(ctx context.Context, c *control.Client, was bool) (status int) {
	_, err := c.Version(ctx)
	switch kind := control.KindOf(err); {
	case err == nil, was && kind == control.KindUnavailable:
		return 0
	case kind == control.KindDenied:
		return http.StatusUnauthorized
	}
	return http.StatusServiceUnavailable
}

// keep gives what a token has, which is fresh unless there is something already.
func (h *HTTP) keep(id string, fresh *Server) (b *bearer, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	h.sweep(now)
	b = h.bearers[id]
	switch {
	case b != nil:
	case fresh == nil: // it was dropped meanwhile
		return nil, http.StatusUnauthorized
	case len(h.bearers) >= maxBearers && !h.makeRoom():
		return nil, http.StatusTooManyRequests
	default:
		b = &bearer{server: fresh}
		h.bearers[id] = b
	}
	b.used = now
	return b, 0
}

// sweep forgets tokens that nobody uses; mu held.
func (h *HTTP) sweep(now time.Time) {
	for id, b := range h.bearers {
		if now.Sub(b.used) > idleSession && b.server.sessions() == 0 && b.posts.n == 0 {
			b.server.end()
			delete(h.bearers, id)
		}
	}
}

// makeRoom forgets the token, of those that have nothing here, that was used longest
// ago; mu held. false: each has something.
func (h *HTTP) makeRoom() bool {
	oldest := ""
	for id, b := range h.bearers {
		if b.server.sessions() == 0 && b.posts.n == 0 && (oldest == "" || b.used.Before(h.bearers[oldest].used)) {
			oldest = id
		}
	}
	if oldest == "" {
		return false
	}
	h.bearers[oldest].server.end() // it has no sessions, so this does not wait
	delete(h.bearers, oldest)
	return true
}

// drop ends what goes on with a token that is worth nothing any more, without waiting
// for it.
func (h *HTTP) drop(id string) {
	h.mu.Lock()
	b := h.bearers[id]
	delete(h.bearers, id)
	h.mu.Unlock()
	if b != nil {
		go b.server.end()
	}
}

// serverOf is what the SDK asks for the server of a request that was admitted.
func (h *HTTP) serverOf(r *http.Request) *sdk.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.bearers[hashOf(tokenOf(r))]; b != nil {
		return b.server.sdk
	}
	return nil
}

// sessions counts the hosts.
func (s *Server) sessions() (n int) {
	for range s.sdk.Sessions() {
		n++
	}
	return n
}

// end ends all calls and sessions and lets go of the client. It waits for the calls to
// have ended.
func (s *Server) end() {
	s.load.end()
	for x := range s.sdk.Sessions() {
		_ = x.Close()
	}
	s.o.Client.Close()
}
