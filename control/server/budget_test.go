package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/control"
)

// TestSearchHasABudget: an expression that would take long is stopped, and the matches
// found by then are returned.
func TestSearchHasABudget(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	v, err := f.server.files("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteFile("/agents/a/workspace/0", []byte("found aa b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("a b", 100) + "\n"
	for i := range 4 {
		text := []byte(strings.Repeat(line, control.MaxSearched/len(line)))
		if _, err := v.WriteFile(fmt.Sprintf("/agents/a/workspace/big%d", i), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.server.searchTime = 5 * time.Millisecond // less than one big file takes on any machine
	slow := control.Search{Agent: "a", Pattern: `(a|b| ){20,200}([ab ]{1,300}x|found){2}|found`}
	began := threadsTime(t)
	got, sum := f.found(slow)
	if took := threadsTime(t) - began; took > 20*time.Second {
		t.Errorf("it took %v of processor time", took)
	}
	if !sum.Partial || !sum.Truncated || len(got) != 1 || sum.Files < 1 {
		t.Errorf("%v, %+v", got, sum)
	}
	f.server.searchTime = time.Hour
	if got, sum := f.found(control.Search{Agent: "a", Pattern: "found"}); sum.Partial || sum.Truncated || len(got) != 1 || sum.Files != 5 {
		t.Errorf("within the budget: %v, %+v", got, sum)
	}
}

// TestBudgetCountsWork: only the time that was worked counts.
func TestBudgetCountsWork(t *testing.T) {
	ctx, b, done := withBudget(t.Context(), 100*time.Millisecond)
	defer done()
	b.run(func() { time.Sleep(300 * time.Millisecond) })
	if ctx.Err() != nil {
		t.Errorf("ended by a sleep: %v", context.Cause(ctx))
	}
	b.run(func() {
		for n := 0; ctx.Err() == nil; n++ {
			_ = n
		}
	})
	if !errors.Is(context.Cause(ctx), errSpent) || b.used() < 100*time.Millisecond {
		t.Errorf("%v after %v", context.Cause(ctx), b.used())
	}
}

// threadsTime returns the processor time of this process.
func threadsTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
