package waits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFactorHasBounds(t *testing.T) {
	f := Factor()
	t.Logf("spin %v, flush %v, factor %.1f", spin(), flush(), f)
	if f < 1 || f > Most {
		t.Errorf("factor %v", f)
	}
}

// TestLimitIsStretchedOnlyAfterwards: what holds within the limit costs no
// measuring, and what never holds ends between the limit and Most times it.
func TestLimitIsStretchedOnlyAfterwards(t *testing.T) {
	const d = 20 * time.Millisecond
	looks := 0
	begun := time.Now()
	if Until(d, func() bool { looks++; return false }) {
		t.Error("what never holds held")
	}
	if took := time.Since(begun); took < d*detector || looks < 2 {
		t.Errorf("%d looks in %v, with a limit of %v", looks, took, d)
	}
	if !Until(0, func() bool { return true }) {
		t.Error("what holds at once is not looked at")
	}
	last := false
	if !Until(0, func() bool { was := last; last = true; return was }) {
		t.Error("no look after the limit")
	}
}

func TestAfterFuncStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := AfterFunc(time.Minute, func() { t.Error("called after stop") })
		stop()
		time.Sleep(2 * Most * time.Minute)
	})
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := Context(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if context.Cause(ctx) != context.DeadlineExceeded {
		t.Error(context.Cause(ctx))
	}
	parent, end := context.WithCancel(t.Context())
	child, cancelChild := Context(parent, time.Hour)
	defer cancelChild()
	end()
	<-child.Done()
	if context.Cause(child) != context.Canceled {
		t.Error(context.Cause(child))
	}
}

func TestReceive(t *testing.T) {
	ch := make(chan int, 1)
	if Received(time.Millisecond, ch) {
		t.Error("received from an empty channel")
	}
	ch <- 3
	if v := Receive(t, "a number", ch); v != 3 {
		t.Error(v)
	}
	close(ch)
	if !Received(time.Minute, ch) {
		t.Error("a closed channel is not received from")
	}
}
