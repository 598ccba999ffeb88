package crashtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// tools are SQLite and git at work in a mount, with a record of what they were
// told is done kept elsewhere.
type tools struct {
	s    *stack.Stack
	dir  string // in the mount
	acks string // elsewhere
	cmds []*exec.Cmd
}

// startTools makes a database in each journal mode and a repository.
func startTools(t *testing.T, s *stack.Stack, workspace string) *tools {
	x := &tools{s: s, dir: filepath.Join(workspace, "tools"), acks: t.TempDir()}
	if err := os.Mkdir(x.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Script(t, stack.Script{Dir: x.dir, Text: `
for mode in delete wal; do sqlite3 $mode.db "pragma journal_mode=$mode; create table t (i integer primary key)"; done
git init -q -b main repo; git -C repo config user.name a; git -C repo config user.email a@b; git -C repo config gc.auto 20
git -C repo commit -q --allow-empty -m start
`})
	return x
}

// run starts the work, which goes on until the mount fails.
func (x *tools) run(t *testing.T) {
	x.cmds = nil
	for _, text := range []string{`
i=$(sqlite3 delete.db 'select coalesce(max(i), 0) from t')
while i=$((i + 1)); sqlite3 -cmd '.timeout 5000' delete.db "insert into t values ($i)"; do echo $i >"$ACKS/delete.tmp"; mv "$ACKS/delete.tmp" "$ACKS/delete"; done`, `
i=$(sqlite3 wal.db 'select coalesce(max(i), 0) from t')
while i=$((i + 1)); sqlite3 -cmd '.timeout 5000' wal.db "insert into t values ($i)"; do echo $i >"$ACKS/wal.tmp"; mv "$ACKS/wal.tmp" "$ACKS/wal"; done`, `
cd repo; rm -f .git/*.lock .git/refs/heads/*.lock; git reset -q --hard
i=0; while i=$((i + 1)); echo $RANDOM >f$((i % 7)) && git add -A && git commit -q --allow-empty -m $i; do git rev-parse HEAD >"$ACKS/git.tmp" && mv "$ACKS/git.tmp" "$ACKS/git"; done`} {
		cmd := exec.Command("bash", "-c", text)
		cmd.Dir, cmd.Env = x.dir, append(os.Environ(), "ACKS="+x.acks)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		x.cmds = append(x.cmds, cmd)
	}
}

// ended waits for the work to have failed.
func (x *tools) ended(t *testing.T) {
	for _, cmd := range x.cmds {
		stop := waits.AfterFunc(waits.Idle, func() {
			t.Error("a tool goes on without its filesystem")
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended since
		})
		_ = cmd.Wait() // its filesystem has gone: an error is what is expected
		stop()
	}
}

// check has the tools check what they find, and that all that was acknowledged
// is there.
func (x *tools) check(t *testing.T) {
	t.Helper()
	said := x.s.Script(t, stack.Script{Dir: x.dir, Env: []string{"ACKS=" + x.acks}, Text: `
for mode in delete wal; do
	is "$(sqlite3 $mode.db 'pragma integrity_check')" ok "$mode"
	acked=$(cat "$ACKS/$mode" 2>/dev/null || echo 0)
	is "$(sqlite3 $mode.db "select count(*) from t where i <= $acked")" $acked "rows of $mode"
	echo "$mode: $acked rows"
done
cd repo; rm -f .git/*.lock .git/refs/heads/*.lock
git fsck --full --strict 2>&1 | { grep -v dangling || true; }
if [[ -e $ACKS/git ]]; then git merge-base --is-ancestor "$(cat "$ACKS/git")" HEAD; fi
echo "git: $(git rev-list --count HEAD) commits"
`})
	t.Log(said)
}
