package server

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

// Bounds on who connects to agent.sock.
const (
	// maxStrangers is how many connections may be open that have not shown a
	// token. The oldest makes room: whoever floods the socket does not keep
	// others out.
	maxStrangers = 256
	// maxPerToken is how many connections one token may have.
	maxPerToken = 64
)

// guests are the connections of agent.sock and what tokens have under way.
type guests struct {
	mu        sync.Mutex
	strangers []*guestConn // that have shown no token, oldest first
	sessions  map[string]*session

	// lasting returns a context that ends when a token expires.
	lasting func(context.Context, *workspace.Token) (context.Context, context.CancelFunc)
}

// session is all that goes on with one token. It is there while anything is.
type session struct {
	token string
	ctx   context.Context // ends with the token
	stop  context.CancelFunc

	conns int // guarded by guests.mu
	holds int // of other things: mounts; guarded by guests.mu
	work  sync.WaitGroup

	handing atomic.Int32 // mounts being handed over
	turns   turns
}

func newGuests(lasting func(context.Context, *workspace.Token) (context.Context, context.CancelFunc)) *guests {
	return &guests{sessions: map[string]*session{}, lasting: lasting}
}

// guestConn is one connection.
type guestConn struct {
	net.Conn
	of   *guests
	sess *session // whose token it has shown; guarded by guests.mu
	gone bool     // it was closed; guarded by guests.mu
	once sync.Once
}

type guestKey struct{}

// guestListener counts what it accepts.
type guestListener struct {
	net.Listener
	of *guests
}

// Accept implements net.Listener.
func (l guestListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g := &guestConn{Conn: c, of: l.of}
	l.of.mu.Lock()
	l.of.strangers = append(l.of.strangers, g)
	var oldest *guestConn
	if len(l.of.strangers) > maxStrangers {
		oldest = l.of.strangers[0]
	}
	l.of.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return g, nil
}

// Close implements net.Conn.
func (c *guestConn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.gone = true
		if c.sess == nil {
			c.of.unknow(c)
			return
		}
		c.sess.conns--
		c.of.drop(c.sess)
	})
	return c.Conn.Close()
}

// unknow takes c off the strangers. mu held.
func (g *guests) unknow(c *guestConn) {
	for n, other := range g.strangers {
		if other == c {
			g.strangers = append(g.strangers[:n:n], g.strangers[n+1:]...)
			return
		}
	}
}

// drop forgets a session in which nothing is left. mu held.
func (g *guests) drop(s *session) {
	if s.conns > 0 || s.holds > 0 {
		return
	}
	s.stop()
	if g.sessions[s.token] == s {
		delete(g.sessions, s.token)
	}
}

// show notes that t was shown on c. KindConflict: it has too many connections.
// KindInterrupted: c has been closed, to make room for others, and counts for nothing.
func (g *guests) show(c *guestConn, t workspace.Token) (*session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.gone {
		return nil, control.Errorf(control.KindInterrupted, "too many connect here that show no token; connect again")
	}
	if c.sess != nil && c.sess.token == t.ID && c.sess.ctx.Err() == nil {
		return c.sess, nil
	}
	s := g.sessions[t.ID]
	if s == nil {
		s = &session{token: t.ID, turns: newTurns()}
		s.ctx, s.stop = g.lasting(context.Background(), &t)
		g.sessions[t.ID] = s
	}
	if s.conns >= maxPerToken {
		return nil, control.Errorf(control.KindConflict, "this token has %d connections already; close some", maxPerToken)
	}
	s.conns++
	if c.sess == nil {
		g.unknow(c)
	} else {
		c.sess.conns--
		g.drop(c.sess)
	}
	c.sess = s
	return s, nil
}

// begin notes that a request goes on with the token, unless it has ended.
func (g *guests) begin(s *session) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.work.Add(1)
	return true
}

// hold keeps a session alive without a connection, until let go.
func (g *guests) hold(s *session) (letGo func()) {
	g.mu.Lock()
	s.holds++
	g.mu.Unlock()
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		s.holds--
		g.drop(s)
	})
}

// endTime bounds the wait for what goes on with a token that ends.
const endTime = 10 * time.Second

// end ends what goes on with a token: its requests, streams and mounts. It
// returns when the requests are done, or after endTime.
func (g *guests) end(id string) {
	g.mu.Lock()
	s := g.sessions[id]
	delete(g.sessions, id)
	if s != nil {
		s.stop() // under mu: whoever begins after it does not
	}
	g.mu.Unlock()
	if s == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(endTime):
	}
}

// withGuest remembers the connection of a request.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

func guestOf(r *http.Request) *guestConn {
	c, _ := r.Context().Value(guestKey{}).(*guestConn)
	return c
}
