package escapetest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// TestEscapes: no attempt works in any confinement, and each works where it is
// allowed.
func TestEscapes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting by mount(2) needs root")
	}
	if stack.Short() {
		t.Skip("it is not about time or order: once is enough")
	}
	w := newWorld(t)
	worked := map[string]outcome{}
	t.Run("control", func(t *testing.T) {
		worked = w.control(t)
		for name, o := range worked {
			if !o.worked {
				t.Errorf("%s does not work where it is allowed: %s", name, o.what)
			}
		}
	})
	for _, c := range confinements {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			got := c.run(t, w, c)
			for _, name := range slices.Sorted(maps.Keys(worked)) {
				o, tried := got[name]
				switch {
				case o.worked:
					t.Errorf("%s works: %s", name, o.what)
				case !tried && c.skip[name] == "":
					t.Errorf("%s was not tried", name)
				case tried:
					t.Logf("%s: %.200s", name, o.what)
				}
			}
			w.intact(t)
		})
	}
	w.s.Fsck(t)
}

// outcome is what came of one attempt.
type outcome struct {
	worked bool
	what   string
}

// outcomes reads what attempts.py has printed.
func outcomes(t *testing.T, text string) map[string]outcome {
	t.Helper()
	text = strings.TrimSpace(text)
	var raw map[string][2]any
	if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), &raw); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out := map[string]outcome{}
	for name, r := range raw {
		worked, _ := r[0].(bool)
		what, _ := r[1].(string)
		out[name] = outcome{worked, what}
	}
	return out
}

// intact checks that what was attacked is as it was.
func (w *world) intact(t *testing.T) {
	t.Helper()
	for _, name := range []string{w.victim, w.s.Gaia} {
		b, err := os.ReadFile(filepath.Join(name, "agents/victim/workspace/secret"))
		if err != nil || string(b) != w.secret {
			t.Errorf("the victim's file in %s: %q %v", name, b, err)
		}
	}
	if _, err := os.ReadDir(w.doomed); err != nil {
		t.Errorf("a mount was cut off: %v", err)
	}
}
