package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy/view"
)

// hostile makes links of every kind in web's workspace, and beside it, through web's
// own mount S. SECRET and VICTIM are files of the host.
const hostile = `cd $S/agents/web/workspace
mkdir -p app/deep/er lib; echo lib > lib/code; echo plain > app/plain; echo two > app/deep/two
ln -s "$SECRET" report; ln -s "$VICTIM" notes; ln -s "$(dirname "$SECRET")" evildir
ln -s ../../../../../../../../../../../../..$SECRET updots
ln -s ../../.. top; ln -s top/../../../../../../../..$SECRET throughtop
ln -s /proc/self/environ procenv; ln -s /proc/self/root$SECRET procroot; ln -s /dev/stdin devin
ln -s ../../gaia/workspace/mine hers; ln -s ../../../.warren/whoami control; ln -s ../../other/workspace/private others
ln -s $G/agents/../..$SECRET mounted; ln -s $G/../../../../../../..$SECRET absdots
ln -s report chain; ln -s chain chain2; ln -s evildir/secret through
ln -s ../lib/code app/uplib; ln -s plain app/link; ln -s app appdir; ln -s ../../lib app/deep/uplib
ln -s $G/agents/web/workspace/lib/code absin; ln -s ../../../lib/code app/deep/er/code; ln -s ../session.md home
ln -s nowhere app/dangling; ln -s ../lib/new app/newlink
ln report hardreport; ln -s ../lib/code app/twice; ln app/twice lib/twice
`

// following tries, as gaia in her mount G, what must fail and what must work; it
// prints what went wrong.
const following = `cd $G/agents/web/workspace
bad() { echo "$*"; }
for l in report notes evildir updots throughtop procenv procroot devin hers control others mounted absdots chain chain2 through hardreport top app/twice; do
	[ "$(stat -Lc %F $l 2>&1 | head -1)" = "stat: cannot statx '$l': Permission denied" ] || bad "stat -L $l"
	{ cat < $l; } > /dev/null 2>&1 && bad "cat $l"
	{ echo x >> $l; } 2>/dev/null && bad "write $l"
	{ echo x > $l; } 2>/dev/null && bad "overwrite $l"
	readlink $l > /dev/null || bad "readlink $l"
	[ -L $l ] || bad "lstat $l"
done
[ "$(readlink report)" = "$SECRET" ] || bad "readlink says $(readlink report)"
[ "$(cat app/uplib)" = lib ] || bad "up to lib"
[ "$(cat app/link)" = plain ] || bad "beside"
[ "$(cat appdir/deep/two)" = two ] || bad "a directory"
[ "$(cat app/deep/uplib/code)" = lib ] || bad "up two"
[ "$(cat app/deep/er/code)" = lib ] || bad "up three"
[ "$(cat absin)" = lib ] || bad "absolute below the mountpoint"
cat home > /dev/null || bad "to its home"
[ "$(cat app/../appdir/plain)" = plain ] || bad "dots in the path"
( cd app/deep/uplib && [ "$(pwd -P)" = "$G/agents/web/workspace/lib" ] ) || bad "cd by a link"
echo made > app/newlink; [ "$(cat lib/new)" = made ] || bad "creating through a link"
[ "$(readlink app/uplib)" = ../lib/code ] || bad "readlink says $(readlink app/uplib)"
ln -s "$SECRET" $G/agents/gaia/workspace/own; [ "$(cat $G/agents/gaia/workspace/own)" = secret ] || bad "her own link"
# Tools that store or show the text.
ls -l > /dev/null || bad "ls -l"
tar cf $T/a.tar . || bad tar; tar tvf $T/a.tar | grep -q "report -> $SECRET" || bad "tar stores $(tar tvf $T/a.tar | grep report)"
cp -a . $T/copy || bad "cp -a"; [ "$(readlink $T/copy/report)" = "$SECRET" ] || bad "cp -a stores $(readlink $T/copy/report)"
rsync -a ./ $T/rsync/ || bad "rsync -a"; [ "$(readlink $T/rsync/updots)" = "$(readlink updots)" ] || bad "rsync"
find . -type l -printf '%l\n' | grep -q "^$SECRET$" || bad find
python3 -c 'import os; assert os.readlink(b"report").decode() == os.environ["SECRET"]; d = os.open(".", 0); os.readlink("report", dir_fd=d)
import threading; r = []; t = threading.Thread(target=lambda: r.append(os.readlink("report"))); t.start(); t.join(); assert r
def f():
    try: open("report"); r.append("opened")
    except PermissionError: pass
t = threading.Thread(target=f); t.start(); t.join(); assert len(r) == 1, r' || bad "python"
# Tools that follow.
cp -L report $T/cpl 2>/dev/null && bad "cp -L"
cp $T/a.tar notes 2>/dev/null && bad "cp onto a link"
mkdir $T/l; rsync -aL ./report ./lib $T/l/ 2>/dev/null; grep -rqs secret $T/l && bad "rsync -L"
tar chf $T/h.tar report lib 2>/dev/null; tar xOf $T/h.tar 2>/dev/null | grep -q secret && bad "tar h"
find -L . -type f -name secret 2>/dev/null | grep -q . && bad "find -L"
grep -R secret . 2>/dev/null | grep -q . && bad "grep -R"
tee -a notes < /dev/null > /dev/null 2>&1 && bad tee
truncate -s 0 notes 2>/dev/null && bad truncate; chmod 777 notes 2>/dev/null && bad chmod; touch notes 2>/dev/null && bad touch
ln -L report hard 2>/dev/null && bad "ln -L"
( cd evildir ) 2>/dev/null && bad "cd"; sh report 2>/dev/null && bad "sh"; . ./report 2>/dev/null && bad "source"
python3 - <<'END' || bad "python follows"
import os, ctypes, mmap
for call in (lambda: os.open("report", os.O_PATH), lambda: os.stat("report"), lambda: os.listdir("evildir"), lambda: os.chmod("notes", 0o777),
        lambda: os.truncate("notes", 0), lambda: os.utime("notes"), lambda: os.rename("app/plain", "evildir/x"), lambda: os.unlink("evildir/secret"),
        lambda: os.symlink("x", "evildir/x"), lambda: os.mkdir("evildir/x"),
        lambda: os.getxattr("report", "user.x"), lambda: os.execv("report", ["x"]),
        lambda: os.statvfs("report"), lambda: os.chdir("evildir")):
    try: call()
    except PermissionError: continue
    raise SystemExit("followed: %r" % (call.__code__.co_names,))
END
git init -q $T/repo; cp -a report $T/repo/; cd $T/repo; git add report; git cat-file -p :report | grep -q "^$SECRET$" || bad "git stores"
true
`

// TestLinksOfOthersDoNotLeadOut: in an orchestrator's mount a link that another agent
// made shows its text, and is followed only to where that agent may look.
func TestLinksOfOthersDoNotLeadOut(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(4 * time.Minute)
	for _, l := range []view.Label{{Kind: view.KindHome, Owner: "gaia"}, {Kind: view.KindWorkspace, Owner: "gaia"}} {
		_, err := s.space.EnsureVolume(t.Context(), view.VolumeSpec{Label: l})
		must(t, err)
	}
	soul, gaia := s.mount("soul", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	secret, victim := filepath.Join(s.dir, "host", "secret"), filepath.Join(s.dir, "host", "victim")
	must(t, os.Mkdir(filepath.Dir(secret), 0o755))
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	must(t, os.WriteFile(victim, []byte("orig"), 0o600))
	must(t, os.WriteFile(gaia+"/agents/gaia/workspace/mine", []byte("hers"), 0o600))
	must(t, os.WriteFile(gaia+"/agents/other/workspace/private", []byte("private"), 0o600))
	must(t, os.WriteFile(gaia+"/agents/web/session.md", []byte("session"), 0o644))
	env := append(append(os.Environ(), gitEnv...), "S="+soul, "G="+gaia, "SECRET="+secret, "VICTIM="+victim, "T="+t.TempDir())
	run := func(script string) string {
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := run("set -e\n" + hostile); out != "" {
		t.Fatal(out)
	}
	if out := run(following); out != "" {
		t.Error(out)
	}
	if b, _ := os.ReadFile(victim); string(b) != "orig" {
		t.Errorf("the host's file holds %q", b)
	}
	if b, _ := os.ReadFile(gaia + "/agents/gaia/workspace/mine"); string(b) != "hers" {
		t.Errorf("gaia's file holds %q", b)
	}
	if err := unix.Access(soul+"/agents/web/workspace/report", unix.R_OK); err != nil {
		t.Errorf("the soul follows its own link: %v", err)
	}
	// The API follows by the same rule.
	v, err := s.space.Open(view.Options{Agent: "gaia"})
	must(t, err)
	for name, want := range map[string]bool{"hers": false, "others": false, "report": false, "top": false, "app/uplib": true, "app/link": true, "home": true} {
		if _, err := v.Resolve(workDir + "/" + name); (err == nil) != want {
			t.Errorf("resolving %s: %v", name, err)
		}
	}
}
