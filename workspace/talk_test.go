package workspace_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/workspace"
)

// TestSessionKeepsWhatHandsWrite: a new model is put into the front matter, and
// everything else stays as somebody has set it out; opening changes nothing.
func TestSessionKeepsWhatHandsWrite(t *testing.T) {
	h := newHouse(t)
	web := h.as("web")
	const rest = "---\n\n\n\n## User  \nno empty line\n\n\n## Assistant\n\n\n\nthree of them\n\n\n"
	const front = "---\nmood:  calm\nmodel:   \"m\"\nprovider: p\n"
	is := func(want string) {
		t.Helper()
		if b, _, err := web.ReadFile("/agents/web/session.md", -1); err != nil || string(b) != want {
			t.Errorf("%q, %v", b, err)
		}
	}
	for _, text := range []string{front + rest, front + "---"} {
		h.write("web", "/agents/web/session.md", text)
		if _, err := h.layer.NewSession(t.Context(), web, "", "p", "m"); err != nil {
			t.Error(err)
		}
		is(text)
	}
	h.write("web", "/agents/web/session.md", front+rest)
	s, err := h.layer.NewSession(t.Context(), web, "", "", "other")
	if err != nil || s.Model != "other" || len(s.Messages) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	is(strings.Replace(front, `model:   "m"`, "model: other", 1) + rest)
	h.write("web", "/agents/web/session.md", "spoilt")
	if s, err = h.layer.NewSession(t.Context(), web, "", "", "other"); err != nil || s.Warning == "" {
		t.Errorf("%+v, %v", s, err)
	}
	is("spoilt")
}

// TestSessionOfManyWriters: messages that are added by the layer and by hand, while
// somebody changes the front matter, are all there.
func TestSessionOfManyWriters(t *testing.T) {
	h := newHouse(t)
	web := h.as("web")
	_, err := h.layer.NewSession(t.Context(), web, "", "p", "m")
	h.ok(err)
	f, err := web.Find("/agents/web/session.md", false)
	h.ok(err)
	const rounds = 40
	var wg sync.WaitGroup
	work := func(do func(i int) error) {
		wg.Go(func() {
			for i := range rounds {
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range 2 {
		work(func(i int) error {
			_, err := h.layer.AppendSession(t.Context(), web, "", workspace.Message{Role: "user", Text: fmt.Sprintf("tool %d-%d", w, i)})
			return err
		})
		work(func(i int) error {
			_, err := web.Append(nil, f.Attr.Node, fmt.Appendf(nil, "\n## Assistant\n\nhand %d-%d\n", w, i))
			return err
		})
	}
	work(func(i int) error {
		_, err := h.layer.NewSession(t.Context(), web, "", "", strings.Repeat("m", i%7+1))
		return err
	})
	wg.Wait()
	s, err := h.layer.ReadSession(t.Context(), web, "")
	if err != nil || s.Warning != "" {
		t.Fatalf("%q, %v", s.Warning, err)
	}
	seen := map[string]int{}
	for _, m := range s.Messages {
		seen[m.Text]++
	}
	for w := range 2 {
		for i := range rounds {
			for _, who := range []string{"tool", "hand"} {
				if n := seen[fmt.Sprintf("%s %d-%d", who, w, i)]; n != 1 {
					t.Errorf("%s %d-%d is there %d times", who, w, i, n)
				}
			}
		}
	}
}

// TestSessionStaysTheSouls: when an orchestrator has written a soul's session by a tool,
// it is the soul's to go on with.
func TestSessionStaysTheSouls(t *testing.T) {
	h := newHouse(t)
	web := h.as("web")
	for _, who := range []string{"gaia", "", "gaia"} {
		h.write(who, "/agents/web/session.md", "---\nprovider: p\n---\n")
		if _, err := h.layer.AppendSession(t.Context(), web, "", workspace.Message{Role: "user", Text: "x"}); err != nil {
			t.Errorf("after %q: %v", who, err)
		}
	}
	h.write("gaia", "/agents/web/soul.md", "you are")
	_, err := web.Put("/agents/web/soul.md", strings.NewReader("I am"), 0)
	h.is(err, backend.Denied, "the soul's soul.md")
}
