package server

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestScannerGivesUp: a pattern whose states are big is given up before it has
// cost much, in one line that does not end.
func TestScannerGivesUp(t *testing.T) {
	m, err := newMatcher(&control.Search{Pattern: "a" + strings.Repeat("[ab]{900}", 8) + "c"})
	if err != nil {
		t.Fatal(err)
	}
	r, text := rand.New(rand.NewPCG(1, 2)), make([]byte, 1<<20)
	for i := range text {
		text[i] = "ab"[r.IntN(2)]
	}
	s := newScanner(m.prog)
	if at, known := s.next(text, 0); known || !s.off || s.forgot > 0 {
		t.Errorf("at %d, known %v, off %v, forgot %d times", at, known, s.off, s.forgot)
	}
	if s.set.work > 2*maxWork {
		t.Errorf("%d nodes were looked at", s.set.work)
	}
	if _, known := s.next(text, 0); known {
		t.Error("it goes on")
	}
}
