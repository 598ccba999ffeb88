package stack

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// prelude is what every script starts with.
//
//	is GOT WANT [WHAT]   ends the script unless they are equal
//	fails COMMAND        ends the script if COMMAND succeeds
//	n LONG SHORT         prints LONG, or SHORT where tests should be short
const prelude = `set -euo pipefail
shopt -s inherit_errexit
is() { [[ $1 == "$2" ]] || { echo "line ${BASH_LINENO[0]}: got '${1:0:300}', want '${2:0:300}' ${3:-}" >&2; exit 1; }; }
fails() { ! "$@" 2>/dev/null || { echo "line ${BASH_LINENO[0]}: did not fail: $*" >&2; exit 1; }; }
n() { if [[ $SHORT ]]; then echo "$2"; else echo "$1"; fi; }
`

// Script is a bash script to run.
type Script struct {
	Text  string
	Dir   string        // where it starts
	Env   []string      // "NAME=value", besides the environment
	Limit time.Duration // on an idle machine, after which it hangs; 0 is five minutes
}

// Script runs a script, which finds this Stack's warren on its path, and gives
// its output. REF in its environment is an empty plain directory.
func (s *Stack) Script(t *testing.T, sc Script) string {
	t.Helper()
	return run(t, s, sc)
}

// Plain runs a script without any warren.
func Plain(t *testing.T, sc Script) string {
	t.Helper()
	return run(t, nil, sc)
}

func run(t *testing.T, s *Stack, sc Script) string {
	t.Helper()
	if sc.Limit == 0 {
		sc.Limit = 5 * time.Minute
	}
	begun := time.Now()
	ctx, cancel := waits.Context(context.Background(), sc.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", prelude+sc.Text)
	cmd.Dir, cmd.Env = sc.Dir, os.Environ()
	if s != nil {
		cmd.Env = s.env
	}
	short := ""
	if Short() {
		short = "1"
	}
	cmd.Env = append(append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "REF="+t.TempDir(), "SHORT="+short), sc.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if s != nil && s.Alive() {
			if err := s.Signal(syscall.SIGQUIT); err != nil {
				t.Error(err)
			}
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil && s != nil:
		t.Fatalf("hangs: not done in %v; it said:\n%s\nand the daemon's log:\n%s", time.Since(begun).Round(time.Second), &out, s.Log())
	case err != nil:
		t.Fatalf("%v:\n%s", err, &out)
	}
	return out.String()
}
