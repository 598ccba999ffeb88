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
	hosts int
	stop  context.CancelFunc // nil: nobody watches
}

// subscribe begins to look when the first host asks.
func (s *Server) subscribe(ctx context.Context, r *sdk.SubscribeRequest) error {
	if r.Params.URI != contextURI {
		return sdk.ResourceNotFoundError(r.Params.URI)
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if s.watch.hosts++; s.watch.stop == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		s.watch.stop = stop
		go s.watchContext(ctx)
	}
	return nil
}

// unsubscribe ends that when the last one has gone.
func (s *Server) unsubscribe(context.Context, *sdk.UnsubscribeRequest) error {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if s.watch.hosts = max(0, s.watch.hosts-1); s.watch.hosts == 0 && s.watch.stop != nil {
		s.watch.stop()
		s.watch.stop = nil
	}
	return nil
}

// watchContext tells hosts when the context is another one, until ctx ends. A
// daemon that restarts is waited for.
func (s *Server) watchContext(ctx context.Context) {
	last, known := "", false
	q := control.LogQuery{Since: time.Now(), Limit: 1}
	for ctx.Err() == nil {
		l, err := s.o.Client.Log(ctx, q)
		if err == nil {
			q = control.LogQuery{After: l.Next, Limit: 1000, Wait: watchWait}
			if c, err := s.o.Client.Context(ctx, s.o.Agent); err == nil {
				if known && c.Text != last {
					_ = s.sdk.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: contextURI})
				}
				last, known = c.Text, true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchRest):
		}
	}
}
