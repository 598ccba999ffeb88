package server

import (
	"context"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// TestAMatchCanBeStopped: a pattern of very many states in a long line ends with
// its request, and finds what FindIndex does until then.
func TestAMatchCanBeStopped(t *testing.T) {
	prepare := func(pattern string) stoppable {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		return newStoppable(regexp.MustCompile(pattern), tree)
	}
	long := []byte(strings.Repeat("a", 8<<20))
	huge := prepare(strings.Repeat("a{0,1000}", 60) + "b")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stop := waits.AfterFunc(time.Minute, func() { panic("the match goes on") })
	huge.find(ctx, long)
	stop()
	if ctx.Err() == nil {
		t.Error("it ended by itself: the test shows nothing")
	}
	s := prepare(`(?m)x[^y\n]{3}$|\x{e9}+z`)
	s.size = maxUnstopped // whatever the length
	for _, text := range []string{"", "xabc", "aa\nxabc\nb", "\xff\xc3\xa9\xc3\xa9z", "xab\xc3\xa9", "nothing"} {
		if got, want := s.find(t.Context(), []byte(text)), s.re.FindIndex([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
