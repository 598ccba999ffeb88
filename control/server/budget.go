package server

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// searchTime is the processor time that one search may take.
const searchTime = 10 * time.Second

// errSpent is the cause that ends a context whose processor time is used up.
var errSpent = errors.New("the processor time is used up")

// budget is the processor time that the goroutines of one request may take
// together.
type budget struct {
	limit time.Duration
	stop  context.CancelCauseFunc

	mu      sync.Mutex
	spent   time.Duration         // by what has ended
	running map[int]time.Duration // by thread: what its clock showed when it began
}

// withBudget returns a context that ends with the cause errSpent when the functions run
// under the budget have taken limit. The caller must call done in the end.
func withBudget(ctx context.Context, limit time.Duration) (_ context.Context, b *budget, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b = &budget{limit: limit, stop: cancel, running: map[int]time.Duration{}}
	go b.watch(ctx)
	return ctx, b, func() { cancel(nil) }
}

// run runs fn and counts the time of its thread. fn starts no goroutines that work
// for it.
func (b *budget) run(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	start := threadTime(tid)
	b.mu.Lock()
	b.running[tid] = start
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.running, tid)
		b.spent += threadTime(tid) - start
	}()
	fn()
}

// watch ends the context when the time is used up.
func (b *budget) watch(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.used() >= b.limit {
			b.stop(errSpent)
		}
	}
}

func (b *budget) used() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := b.spent
	for tid, start := range b.running {
		sum += threadTime(tid) - start
	}
	return sum
}

// threadTime returns the processor time that a thread of this process has taken, or 0
// if the thread has no such clock.
func threadTime(tid int) time.Duration {
	const perThread, scheduler = 4, 2 // CPUCLOCK_PERTHREAD_MASK, CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^tid)<<3|perThread|scheduler, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
