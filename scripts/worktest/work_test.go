package worktest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

var shared stack.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const workspace = "agents/web_designer/workspace"

// manifest prints all that must be the same of the tree below a directory; what
// follows the directory are expressions of find(1) that choose in it. TIMES, if
// set, takes in the times of files.
const manifest = `
manifest() {
	cd "$1"; shift
	find . -mindepth 1 "$@" \( -type d -printf 'd %m %p\n' -o -type l -printf 'l %p -> %l\n' \
		-o -type f -printf "f %m %s %n ${TIMES:+%T@} %p\n" -o -printf 'other %y %p\n' \) | LC_ALL=C sort
	find . "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
}
`

// workload is something an agent does.
type workload struct {
	// prepare runs once, in a plain directory, IN; what it leaves is the input.
	// TOP is the top of this repository.
	prepare string
	// work runs in an empty directory, W, with IN at hand. Its output must be
	// the same everywhere.
	work string
	// see prints what must be the same afterwards, from W. By default the
	// manifest of all that is there.
	see string
	// limit for each of the three.
	limit time.Duration
}

// do runs a workload on a plain directory and in the soul's mount, and compares.
func do(t *testing.T, wl workload) { on(t, shared.Running(t), wl) }

// on is do with a Stack that the test made.
func on(t *testing.T, s *stack.Stack, wl workload) {
	s.Mount(t, "--agent", other(t, s, "researcher", "soul"))
	s.Mount(t, "--agent", other(t, s, "concierge", "shared"))
	if wl.limit == 0 {
		wl.limit = 5 * time.Minute
	}
	if wl.see == "" {
		wl.see = `manifest "$W"`
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	in, plain := t.TempDir(), t.TempDir()
	name := strings.ReplaceAll(t.Name(), "/", "-")
	soul, gaia := filepath.Join(s.Soul, workspace, name), filepath.Join(s.Gaia, workspace, name)
	if err := os.Mkdir(soul, 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(dir, text string) stack.Script {
		return stack.Script{Text: manifest + text, Dir: dir, Env: []string{"W=" + dir, "IN=" + in, "TOP=" + top}, Limit: wl.limit}
	}
	stack.Plain(t, at(in, wl.prepare))
	timed := func(where string, f func() string) string {
		start := time.Now()
		out := f()
		t.Logf("%s: %.1f s", where, time.Since(start).Seconds())
		return out
	}
	said := timed("plain", func() string { return stack.Plain(t, at(plain, wl.work)) })
	same(t, "what the work says", said, timed("mount", func() string { return s.Script(t, at(soul, wl.work)) }))
	want := stack.Plain(t, at(plain, wl.see))
	same(t, "through the soul's mount", want, s.Script(t, at(soul, wl.see)))
	same(t, "through Gaia's mount", want, s.Script(t, at(gaia, wl.see)))
	s.Fsck(t)
	if err := s.Kill(soul, gaia); err != nil {
		t.Fatal(err)
	}
	same(t, "after kill -9, through Gaia's mount", want, s.Script(t, at(gaia, wl.see)))
	same(t, "after kill -9, through the soul's mount", want, s.Script(t, at(soul, wl.see)))
	s.Fsck(t)
	s.Script(t, stack.Script{Text: `rm -rf "$SOUL"; fails stat "$GAIA"`, Env: []string{"SOUL=" + soul, "GAIA=" + gaia}, Dir: s.Dir, Limit: wl.limit})
	s.Fsck(t)
}

// other makes an agent unless it is there, and gives its key.
func other(t *testing.T, s *stack.Stack, key, role string) string {
	if _, err := s.Try("agent", "show", key); err != nil {
		s.Warren(t, "agent", "add", key, "--role", role)
	}
	return key
}

// same fails with the first lines that differ.
func same(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	shown := 0
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			t.Errorf("%s, line %d: want %q, got %q", what, i+1, a, b)
			if shown++; shown == 10 {
				break
			}
		}
	}
	t.Fatalf("%s differs: %d lines where %d are right", what, len(g), len(w))
}
