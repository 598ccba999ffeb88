package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

const (
	// watchWait is how long one request for changes waits; what no event tells of,
	// such as another member of a project, is noticed then.
	watchWait = 30 * time.Second
	// watchRest is how long the server rests between two looks at the context, so
	// that a run of changes is told once.
	watchRest = time.Second
)

// watch looks after the context while some host has subscribed to it.
type watch struct {
	mu    sync.Mutex
	hosts map[*sdk.ServerSession]bool // true: it subscribes now
	stop  context.CancelFunc          // nil: nobody watches
}

// subscribe begins to look when the first host asks. What it is told of are changes
// from now on.
func (s *Server) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	if r.Params.URI != contextURI {
		return sdk.ResourceNotFoundError(r.Params.URI)
	}
	now := time.Now()
	text := "" // not known: the first look tells
	if c, err := s.o.Client.Context(ctx, s.o.Agent); err == nil {
		text = c.Text
	}
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hosts == nil {
		w.hosts = map[*sdk.ServerSession]bool{}
	}
	if _, known := w.hosts[r.Session]; !known {
		go func() { // a host that goes without a word
			_ = r.Session.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.hosts, r.Session)
			w.rest()
		}()
	}
	w.hosts[r.Session] = true
	if w.stop == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		w.stop = stop
		go s.watchContext(ctx, now, text)
	}
	return nil
}

// listens is told that a host opens its stream, perhaps anew: what was told while it had
// none was told to nobody, so it is told once more, when the stream stands.
func (s *Server) listens(session string) {
	time.AfterFunc(watchRest, func() {
		s.watch.mu.Lock()
		subscribes := false
		for ss, now := range s.watch.hosts {
			subscribes = subscribes || now && ss.ID() == session
		}
		s.watch.mu.Unlock()
		if subscribes {
			_ = s.sdk.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: contextURI})
		}
	})
}

// unsubscribe ends that when the last one has gone.
func (s *Server) unsubscribe(_ context.Context, r *sdk.UnsubscribeRequest) error {
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.hosts[r.Session]; known {
		w.hosts[r.Session] = false
	}
	w.rest()
	return nil
}

// rest ends the watch if nobody subscribes; mu held.
func (w *watch) rest() {
	for _, subscribes := range w.hosts {
		if subscribes {
			return
		}
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// watchContext tells hosts when the context is another one than last, until ctx
// ends. A daemon that restarts is waited for, and one that does not know the
// cursor any more is asked anew.
func (s *Server) watchContext(ctx context.Context, since time.Time, last string) {
	begin := control.LogQuery{Since: since, Limit: 1}
	q := begin
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(watchRest): // the first time the SDK notes down who subscribed
		}
		l, err := s.o.Client.Log(ctx, q)
		if err != nil {
			q = begin
			continue
		}
		q = control.LogQuery{After: l.Next, Limit: 1000, Wait: watchWait}
		c, err := s.o.Client.Context(ctx, s.o.Agent)
		if err != nil {
			continue
		}
		if c.Text != last {
			_ = s.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: contextURI})
		}
		last = c.Text
	}
}
