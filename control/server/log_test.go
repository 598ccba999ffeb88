package server

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/workspace"
)

// TestCursorsTellNothing: what an agent is given to go on after is another each
// time, the same place, and its own.
func TestCursorsTellNothing(t *testing.T) {
	c := workspace.NewCursors(make([]byte, 16), "a")
	seen := map[string]bool{}
	for range 100 {
		s, err := c.Seal(7)
		if err != nil || seen[s] {
			t.Fatalf("cursor %q (%v) came before", s, err)
		}
		seen[s] = true
		if seq, err := c.Open(s); seq != 7 || err != nil {
			t.Fatalf("%q opens as %d, %v", s, seq, err)
		}
		if seq, err := workspace.NewCursors(make([]byte, 16), "b").Open(s); err == nil {
			t.Fatalf("another agent opens %q as %d", s, seq)
		}
	}
}

// TestLogTellsNothingOfOthers: the answers of an agent that reads on are the same
// whether or not others did anything meanwhile.
func TestLogTellsNothingOfOthers(t *testing.T) {
	g := newGuestHouse(t)
	a := control.NewClient(g.sock, g.tokens["a"])
	t.Cleanup(a.Close)
	write := func(agent, name string) {
		t.Helper()
		if _, err := g.client.Write(t.Context(), agent, name, strings.NewReader("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	read := func(q control.LogQuery) control.Log {
		t.Helper()
		l, err := a.Log(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	write("a", "1")
	at := read(control.LogQuery{}).Next
	for _, limit := range []int{1, 3, 1000} {
		for range 3 { // nothing, a little, and much of b's in between
			l := read(control.LogQuery{After: at, Limit: limit})
			if len(l.Entries) != 0 || l.More || l.Next == at {
				t.Errorf("limit %d: %+v after %q", limit, l, at)
			}
			at = l.Next
			for i := range 40 {
				write("b", string(rune('a'+i)))
			}
		}
	}
	write("a", "2")
	write("b", "last")
	if l := read(control.LogQuery{After: at, Limit: 1}); len(l.Entries) != 1 || l.Entries[0].Path != "/agents/a/workspace/2" {
		t.Errorf("%+v", l)
	}
}
