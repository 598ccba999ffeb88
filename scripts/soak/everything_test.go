package soak

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

var lasts = flag.Duration("for", 0, "how long TestEverything lasts; it is not run if 0")

// chores are what TestEverything has going on all the time. Each is a bash script
// that is run again and again, in rounds of some seconds, $ROUND being their
// number (without stress-ng's getdent, which walks the whole machine): A, B and C are one directory, through three mounts.
var chores = map[string]string{
	"fsx": `"$FSX" -ops 3000 -name fsx$ROUND -other "$C/fsx-other" "$A" "$B" "$C"`,
	"stress-ng": `
all=(access chmod chown dentry dir dirdeep fallocate fcntl filename flock fpunch fstat full hdd link locka lockf lockofd mknod mmap mmapmany msync open rename seek symlink touch utime xattr)
s=${all[ROUND % ${#all[@]}]}
for d in "$A" "$C"; do stress-ng --temp-path "$d" --$s 1 -t 8s --verify --no-rand-seed -q & one[${#one[@]}]=$!; done
for p in "${one[@]}"; do wait $p || { echo "stress-ng --$s: $?"; exit 1; }; done`,
	"git": `
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main "$A/one"; cd "$A/one"
for i in {1..300}; do mkdir -p d$((i % 20)); echo $i $ROUND >d$((i % 20))/$i; done
git add .; git commit -qm one; git clone -q "$A/one" "$B/two"
cd "$B/two"; git checkout -qb side; for i in {1..40}; do echo more >>d$((i % 20))/$i; done; git commit -qam side
cd "$C/one"; git rm -q d1/101; git commit -qm less; git worktree add -q "$C/three"
cd "$C/two"; git fetch -q; git rebase -q origin/main; git gc -q; [[ -z $(git fsck --full 2>&1 | grep -v '^dangling') ]]
[[ -z $(git -C "$A/two" status --porcelain; git -C "$B/one" status --porcelain; git -C "$B/three" status --porcelain) ]]
rm -rf "$A/one" "$B/two" "$C/three"`,
	"sqlite": `
modes=(delete truncate persist); m=${modes[ROUND % 3]}
sqlite3 "$A/db" "pragma journal_mode=$m; create table t(n int); insert into t values(0)" >/dev/null
add() { for _ in {1..15}; do sqlite3 -cmd '.timeout 60000' "$1/db" "pragma journal_mode=$m; update t set n=n+1" >/dev/null || exit 1; done; }
for d in "$A" "$B" "$C" "$A"; do add "$d" & one[${#one[@]}]=$!; done
for p in "${one[@]}"; do wait $p; done
[[ $(sqlite3 "$C/db" 'pragma integrity_check; select n from t' | tr '\n' ' ') == 'ok 60 ' ]] || { sqlite3 "$C/db" 'pragma integrity_check; select n from t'; exit 1; }
rm "$B"/db*`,
	"listings": `
mkdir "$A/l"; cd "$A/l"; touch keep{1..3000}; touch go{1..1000}; ls "$B/l" "$C/l" >/dev/null
(for i in {1..1000}; do rm go$i; touch new$i; done) & p=$!
while kill -0 $p 2>/dev/null; do for d in "$B" "$C"; do
ls -U "$d/l" >"$OUT"; [[ $(grep -c keep "$OUT") == 3000 && $(sort "$OUT" | uniq -d | wc -l) == 0 ]] || { echo "the listing is wrong"; exit 1; }; done; done
wait $p; [[ $(ls "$B/l" | md5sum) == $(ls "$C/l" | md5sum) && $(find "$B/l" -type f | wc -l) == 4000 ]]; rm -r "$B/l"`,
	"copies": `
cp -r "$TOP/backend" "$B/backend"; tar -C "$C" -cf - backend | tar -C "$TMP" -xf -; diff -r "$TOP/backend" "$TMP/backend"
rg -c func "$A/backend" | wc -l >/dev/null; rm -r "$A/backend" "$TMP/backend"`,
}

// TestEverything: all of it at once over three mounts.
func TestEverything(t *testing.T) {
	if *lasts == 0 {
		t.Skip("without -for")
	}
	s := stack.ForTest(t, stack.Options{})
	k := &soak{s: s}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	exerciser := filepath.Join(s.Dir, "fsx")
	if out, err := exec.Command("go", "build", "-o", exerciser, top+"/scripts/fsx").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mounts := []string{s.Soul, s.Gaia, s.Mount(t, "--agent", "gaia")}
	ctx, cancel := context.WithTimeout(context.Background(), *lasts)
	defer cancel()
	before, err := take(k.pid(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before: %d MiB of anonymous memory, %d descriptors, %d threads", before.anon>>20, before.fds, before.threads)
	stop := watch(t, k.pid(t), max(*lasts/400, 200*time.Millisecond))
	var wg sync.WaitGroup
	for name, text := range chores {
		wg.Go(func() {
			rounds := 0
			for ; ctx.Err() == nil && !t.Failed(); rounds++ {
				chore(t, s, name, text, rounds, mounts, "FSX="+exerciser, "TOP="+top)
			}
			t.Logf("%s: %d rounds", name, rounds)
		})
	}
	wg.Wait()
	all := stop()
	k.requests(t)
	grew(t, all, *lasts >= time.Hour)
	for end := waits.In(time.Minute); ; time.Sleep(time.Second) {
		after, err := take(k.pid(t))
		if err != nil {
			t.Fatal(err)
		}
		if over := end.Passed(); over || after.fds <= before.fds+24 {
			t.Logf("after: %d MiB of anonymous memory, %d descriptors, %d threads", after.anon>>20, after.fds, after.threads)
			if over {
				t.Error("descriptors were not given back")
			}
			break
		}
	}
	s.Fsck(t)
}

// chore does one round of a chore. What hangs is ended after twenty minutes, with
// every goroutine of the daemon in its log.
func chore(t *testing.T, s *stack.Stack, name, text string, round int, mounts []string, env ...string) {
	work := filepath.Join("agents/web_designer/workspace", name)
	for i, m := range mounts {
		dir := filepath.Join(m, work)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Error(name, err)
			return
		}
		env = append(env, fmt.Sprintf("%c=%s", 'A'+i, dir))
	}
	ctx, cancel := waits.Context(context.Background(), 20*time.Minute)
	defer cancel()
	tmp := t.TempDir()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", "shopt -s inherit_errexit\none=()\n"+text)
	cmd.Env = append(append(os.Environ(), env...), fmt.Sprint("ROUND=", round), "TMP="+tmp, "OUT="+filepath.Join(tmp, "out"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := s.Signal(syscall.SIGQUIT); err != nil {
			t.Error(err)
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s, round %d: %v: %s; the daemon's log:\n%s", name, round, err, out, s.Log())
	}
	_ = os.RemoveAll(tmp)
}
