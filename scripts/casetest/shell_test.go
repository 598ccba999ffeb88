package casetest

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

// workspace is where the two mounts show one directory.
const workspace = "agents/web_designer/workspace"

// shell runs a script on a plain directory, then on the mounts, and fsck.
// In its environment M and N are two ways to one empty directory, M the one it
// starts in, and REF is a plain directory.
func shell(t *testing.T, script string) {
	t.Helper()
	onPlain(t, script, 0)
	onMounts(t, script, 0, "gaia-soul", "soul-gaia")
}

// shellMany is shell for scripts with very many files: one way, and it may take
// its time.
func shellMany(t *testing.T, script string) {
	t.Helper()
	onPlain(t, script, 6*time.Minute)
	onMounts(t, script, 6*time.Minute, "gaia-soul")
}

func onPlain(t *testing.T, script string, limit time.Duration) {
	t.Run("plain", func(t *testing.T) {
		dir := t.TempDir()
		stack.Plain(t, stack.Script{Text: script, Dir: dir, Env: []string{"M=" + dir, "N=" + dir}, Limit: limit})
	})
}

func onMounts(t *testing.T, script string, limit time.Duration, ways ...string) {
	s := shared.Running(t)
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			name := strings.ReplaceAll(t.Name(), "/", "-")
			m, n := filepath.Join(s.Gaia, workspace, name), filepath.Join(s.Soul, workspace, name)
			if err := os.Mkdir(m, 0o755); err != nil {
				t.Fatal(err)
			}
			if way == "soul-gaia" {
				m, n = n, m
			}
			env := []string{"M=" + m, "N=" + n}
			s.Script(t, stack.Script{Text: script, Dir: m, Env: env, Limit: limit})
			s.Script(t, stack.Script{Text: `rm -rf "$M"; fails stat "$N"; fails stat "$M"`, Dir: s.Dir, Env: env, Limit: limit})
			s.Fsck(t)
		})
	}
}
