// Package waits waits in tests for conditions, with limits that fit the machine.
//
// A test waits until something holds, never for a time that it hopes is enough.
// The limit only ends a test that would hang. [Idle] is the usual limit, for an
// idle machine. When a limit has passed, and only then, the processors and the
// disk are measured, and the wait goes on for as many times the limit as the
// machine is slower than an idle one, at most [Most] times. So a pass costs
// nothing, a failure on an idle machine is quick, and a failure on a busy one is
// no guess. Under the race detector every limit is four times as long.
//
// A time that the product promises is not such a limit: a test compares it without this
// package, and names the promise.
package waits

import (
	"context"
	"testing"
	"time"
)

// Idle is the limit of a wait on an idle machine.
const Idle = 30 * time.Second

// Most is the largest factor by which a wait is extended on a slow machine.
const Most = 20

// longestPause is the longest time between two looks at a condition.
const longestPause = 50 * time.Millisecond

// For waits until ok reports true, and fails the test with what if that takes
// longer than [Idle]. Only the test's own goroutine calls it.
func For(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, Idle, what, ok)
}

// Within does the same as [For] with a limit of d.
func Within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	begun := time.Now()
	if !Until(d, ok) {
		t.Fatalf("not after %v: %s", time.Since(begun).Round(time.Millisecond), what)
	}
}

// Receive waits for a value of ch, or until ch is closed, and returns what it
// received. It fails the test with what if that takes longer than [Idle].
func Receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	v, ok := received(Idle, ch)
	if !ok {
		t.Fatalf("nothing received in time: %s", what)
	}
	return v
}

// Received reports whether ch had a value or was closed within a limit of d.
func Received[T any](d time.Duration, ch <-chan T) bool {
	_, ok := received(d, ch)
	return ok
}

func received[T any](d time.Duration, ch <-chan T) (v T, ok bool) {
	ctx, cancel := Context(context.Background(), d)
	defer cancel()
	select {
	case v = <-ch:
		return v, true
	case <-ctx.Done():
	}
	select { // both at once
	case v = <-ch:
		return v, true
	default:
		return v, false
	}
}

// Until waits until ok reports true and reports whether it did within a limit
// of d. It looks at least twice: first, and after the limit.
func Until(d time.Duration, ok func() bool) bool {
	ctx, cancel := Context(context.Background(), d)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(pause*2, longestPause) {
		if ok() {
			return true
		}
		select {
		case <-ctx.Done():
			return ok()
		case <-time.After(pause):
		}
	}
}

// Context returns a context that ends when parent does or when a limit of d has
// passed. Its cause is then [context.DeadlineExceeded]; it has no deadline to
// read, since nobody knows how slow the machine will be.
func Context(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// AfterFunc calls f on a goroutine of its own when a limit of d has passed,
// unless stop is called first. It is how a test ends what hangs.
func AfterFunc(d time.Duration, f func()) (stop func()) {
	stopped, cancel := context.WithCancel(context.Background())
	begun := time.Now()
	time.AfterFunc(detector*d, func() {
		if stopped.Err() != nil {
			return
		}
		rest := time.NewTimer(time.Until(begun.Add(Limit(d))))
		defer rest.Stop()
		select {
		case <-stopped.Done():
		case <-rest.C:
			f()
		}
	})
	return cancel
}

// Limit returns how long d lasts as fast as this machine is now. It measures,
// which takes a moment: it is for what takes a limit as a number, for example a
// script or another program.
func Limit(d time.Duration) time.Duration {
	return time.Duration(float64(detector*d) * Factor())
}

// After returns a channel that is closed when a limit of d has passed, unless
// the test has ended before. It is for a select with other cases than [Receive]'s.
func After(t testing.TB, d time.Duration) <-chan struct{} {
	t.Helper()
	passed := make(chan struct{})
	t.Cleanup(AfterFunc(d, func() { close(passed) }))
	return passed
}
