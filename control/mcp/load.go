package mcp

import (
	"context"
	"sync"

	"github.com/warrenfs/warren/control"
)

// Limits of the calls of one Server, whether or not their hosts still wait for them.
const (
	maxRunning   = 32               // at once; more wait
	maxCalls     = 1024             // that run or wait
	maxCallBytes = 2 * maxArguments // arguments of these together
)

// load counts the calls that run or wait, and ends them.
type load struct {
	ended context.Context // done: none goes on
	end   context.CancelFunc
	turns chan struct{}

	mu    sync.Mutex
	calls int
	bytes int // of arguments
}

func newLoad() *load {
	l := &load{turns: make(chan struct{}, maxRunning)}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// begin waits until a call with arguments of n bytes may run, and gives it a context
// that ends with the load; done is to be called after it. KindUnavailable: there are too
// many; KindInterrupted: ctx or the load has ended.
func (l *load) begin(ctx context.Context, n int) (_ context.Context, done func(), err error) {
	l.mu.Lock()
	full := l.calls >= maxCalls || l.calls > 0 && l.bytes+n > maxCallBytes
	if !full {
		l.calls, l.bytes = l.calls+1, l.bytes+n
	}
	l.mu.Unlock()
	if full {
		return ctx, nil, control.Errorf(control.KindUnavailable, "too many calls at once; wait for some to end")
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ended, cancel)
	leave := func() {
		stop()
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.calls, l.bytes = l.calls-1, l.bytes-n
	}
	select {
	case l.turns <- struct{}{}:
		return ctx, func() { <-l.turns; leave() }, nil
	case <-ctx.Done():
		leave()
		return ctx, nil, control.Errorf(control.KindInterrupted, "the call was not begun: %v", ctx.Err())
	}
}
