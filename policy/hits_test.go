package policy

import "testing"

// TestRememberedCounts: decisions that were remembered count, over all epochs.
func TestRememberedCounts(t *testing.T) {
	e := newEngine(t, testFacts())
	r := Resource{Zone: ZoneRoot}
	decide := func(n int) {
		for range n {
			e.Decide(principal(t, e, "gaia", ReadWrite), Read, r)
		}
	}
	before, asked := e.Remembered(), e.Evaluations()
	decide(5)
	if n, m := e.Remembered()-before, e.Evaluations()-asked; n != 4 || m != 1 {
		t.Errorf("of 5 equal questions %d were remembered and %d evaluated", n, m)
	}
	if err := e.Swap(testFacts()); err != nil {
		t.Fatal(err)
	}
	decide(3)
	if n, m := e.Remembered()-before, e.Evaluations()-asked; n < 6 || m != 2 {
		t.Errorf("of 8 questions in two epochs %d were remembered and %d evaluated", n, m)
	}
}
