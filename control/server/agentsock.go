package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/workspace"
)

// newAgentServer makes what answers agent.sock. Everybody may connect; who a
// request is from, only its token says.
func (s *Server) newAgentServer() *http.Server {
	return &http.Server{
		Handler:           s.agentHandler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext:       withGuest,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug), // a stranger must not fill the log
	}
}

// ServeAgents answers connections of l, agent.sock, until Shutdown.
func (s *Server) ServeAgents(l net.Listener) error {
	if err := s.agents.Serve(guestListener{l, s.guests}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// agentHandler finds out whose a request is and lets it have what its role may.
func (s *Server) agentHandler() http.Handler {
	routers := map[policy.Role]http.Handler{}
	for _, role := range []policy.Role{policy.Orchestrator, policy.Soul, policy.Shared} {
		routers[role] = s.router(s.routes(), asker{agent: "any", role: role}.of)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sess, a, err := s.identify(r)
		if err != nil {
			refuseToken(w, err)
			return
		}
		defer sess.work.Done()
		limit := s.pace.plain
		if streams[r.Method+" "+r.URL.Path] {
			limit = s.pace.long
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		defer context.AfterFunc(sess.ctx, cancel)()
		ctx = context.WithValue(ctx, sessionKey{}, sess)
		r = r.WithContext(withAsker(ctx, a))
		p, done := newPaced(ctx, w, r, s.pace.stall)
		defer done()
		end, err := sess.turns.wait(ctx, r)
		if err != nil {
			s.fail(p, r, err)
			return
		}
		defer end()
		routers[a.role].ServeHTTP(p, r)
	})
}

type sessionKey struct{}

// sessionOf is what goes on with the token that made the request.
func sessionOf(r *http.Request) *session {
	got, _ := r.Context().Value(sessionKey{}).(*session)
	return got
}

// identify tells whose a request is, by its token alone. It has begun work in the
// session that it gives.
func (s *Server) identify(r *http.Request) (*session, asker, error) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) != 1 {
		return nil, asker{}, failf(backend.Denied, "a token is needed here: --token, --token-file or WARREN_TOKEN; "+
			"`warren token create AGENT` makes one (the administrator's socket is admin/admin.sock, beside this one)")
	}
	text = strings.TrimSpace(text)
	t, _, err := s.Registry.Authenticate(text)
	if err != nil {
		return nil, asker{}, err
	}
	conn := guestOf(r)
	if conn == nil {
		return nil, asker{}, errors.New("a request without a connection")
	}
	sess, err := s.guests.show(conn, t)
	if err != nil {
		return nil, asker{}, err
	}
	if !s.guests.begin(sess) {
		return nil, asker{}, workspace.ErrToken()
	}
	// Again: if it was revoked before begin, this finds it; if after, the
	// session was ended.
	_, agent, err := s.Registry.Authenticate(text)
	if err != nil {
		sess.work.Done()
		return nil, asker{}, err
	}
	return sess, asker{agent: agent.Key, role: agent.Role, token: t.ID}, nil
}

// refuseToken answers whoever has not proved to be an agent. It tells nothing
// of what is asked for.
func refuseToken(w http.ResponseWriter, err error) {
	var e *control.Error
	if errors.As(err, &e) {
		w.Header().Set("Connection", "close")
		writeError(w, statuses[e.Kind], e)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="warren"`)
	writeError(w, http.StatusUnauthorized, control.Errorf(control.KindDenied, "%s", text(err)))
}

// endTokens ends what goes on with tokens that are worth nothing any more.
func (s *Server) endTokens(tokens []workspace.Token) {
	for _, t := range tokens {
		s.guests.end(t.ID)
	}
}

// tokensOf lists an agent's tokens.
func (s *Server) tokensOf(agent string) []workspace.Token {
	var out []workspace.Token
	for _, t := range s.Registry.Tokens() {
		if t.Agent == agent {
			out = append(out, t)
		}
	}
	return out
}
