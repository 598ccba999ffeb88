package casetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

// TestReadmeStepsWork runs what README.md tells a newcomer to type, from
// building the program to ending the daemon.
func TestReadmeStepsWork(t *testing.T) {
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps := indented(section(t, string(readme), "## Gaia's mount, step by step", "## What confines an agent"))
	allow := indented(section(t, string(readme), "## Names that never get in", "## Where to go next"))
	if len(steps) < 15 || len(allow) != 1 {
		t.Fatalf("found %d steps and %d lines of policy", len(steps), len(allow))
	}
	// The exception of the deny-list is made while all is up, for a directory
	// that the README takes for granted.
	for i, s := range steps {
		if strings.HasPrefix(s, "warren umount") {
			steps = append(steps[:i:i], append([]string{
				`site=~/warren/web_designer/agents/web_designer/workspace/site; mkdir $site; fails eval 'echo 1 >$site/.env'`,
				allow[0], `echo 1 >$site/.env`,
			}, steps[i:]...)...)
			break
		}
	}
	// Root's default places are the machine's own: use others at their names.
	out := stack.Plain(t, stack.Script{Dir: top, Limit: 6 * time.Minute, Env: []string{"STEPS=" + strings.Join(steps, "\n")}, Text: `
eval "export $(go env GOMODCACHE GOCACHE | paste -sd' ' | sed 's/^/GOMODCACHE=/; s/ / GOCACHE=/')"
export HOME=$REF/home XDG_RUNTIME_DIR=$REF/run; mkdir "$HOME" "$XDG_RUNTIME_DIR"; unset WARREN_STORE WARREN_SOCKET XDG_STATE_HOME
cat >"$REF/steps.sh" <<'EOS'
set -euo pipefail
fails() { ! "$@" 2>/dev/null; }
if [[ $(id -u) = 0 ]]; then
	mount -t tmpfs store /var/lib; mount -t tmpfs sockets /run
	# This namespace keeps nobody else's mounts alive.
	awk '$3 == "fuse.warren" { print $2 }' /proc/self/mounts | while read -r m; do umount -l "$(printf %b "$m")" || true; done
fi
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
eval "$STEPS"
wait
! grep "$HOME" /proc/self/mounts
EOS
if [[ $(id -u) = 0 ]]; then unshare -m --propagation private bash "$REF/steps.sh"; else bash "$REF/steps.sh"; fi 2>&1
`})
	for _, want := range []string{"gaia\nweb_designer\n", `"agent":"web_designer"`, "hello\n", "/warren/agents/web_designer/workspace\nweb_designer\nhello\n", ".env is allowed"} {
		if !strings.Contains(out, want) {
			t.Errorf("the steps do not print %q; they print:\n%s", want, out)
		}
	}
}

// section is what stands between two headings.
func section(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	body, _, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("README.md has no %q or no %q", from, to)
	}
	return body
}

// indented gives the lines of code blocks.
func indented(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(code))
		}
	}
	return lines
}
