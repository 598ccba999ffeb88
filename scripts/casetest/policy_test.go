package casetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// neighbours makes two souls whose keys, users and files begin alike, and
// gives a mount of each. They stay, as later cases may use them.
func neighbours(t *testing.T, s *stack.Stack) (abc, abcdef string) {
	t.Helper()
	if _, err := s.Try("agent", "show", "abc"); err != nil {
		s.Warren(t, "user", "add", "ad")
		s.Warren(t, "user", "add", "adam")
		s.Warren(t, "agent", "add", "abc", "--role", "soul", "--user", "ad")
		s.Warren(t, "agent", "add", "abcdef", "--role", "soul", "--user", "adam")
	}
	return s.Mount(t, "--agent", "abc"), s.Mount(t, "--agent", "abcdef")
}

func TestCase33_PicoclawSiblingPrefix(t *testing.T) {
	s := shared.Running(t)
	abc, abcdef := neighbours(t, s)
	s.Script(t, stack.Script{Dir: s.Dir, Text: `
echo secret >"$ABCDEF/agents/abcdef/workspace/secret"; echo secret >"$ABCDEF/users/adam/secret"
echo mine >"$ABC/agents/abc/workspace/mine"; echo mine >"$ABC/users/ad/mine"
is "$(ls "$ABC/agents")" abc; is "$(ls "$ABC/users")" ad
is "$(ls "$ABCDEF/agents")" abcdef; is "$(ls "$ABCDEF/users")" adam
is "$(cat "$GAIA/agents/abcdef/workspace/secret" "$GAIA/users/ad/mine" | tr '\n' ' ')" "secret mine "

# Whatever is tried on a hidden name goes as it does for a name that is not there.
try() {
	local d=$1 name=$2
	cd "$ABC/$d"
	for c in 'stat X' 'ls -la X' 'cat X/secret' 'cat X/workspace/secret' 'cd X' 'mkdir X' 'rmdir X' 'rm -rf X/workspace' 'rm X' 'touch X' 'touch X/new' \
		'echo 1 >X' 'mv X Y' 'mv Y X' "mv $ABC/agents/abc/workspace/mine X/mine" "ln $ABC/agents/abc/workspace/mine X" 'ln X/secret Y' 'ln -s a X' \
		'chmod 777 X' 'chown 1 X' 'truncate -s 0 X/secret' 'getfattr -d X' 'setfattr -n user.a -v b X' 'stat -f X' 'readlink X' 'python3 -c "import os; os.chdir(\"X\")"' \
		'stat X/..' 'ls X/../abc' 'python3 -c "import os; os.mkfifo(\"X\")"'; do
		out=$(eval "${c//X/$name}" 2>&1) && status=0 || status=$?
		echo "$c: $status $(sed -E "s,$name,X,g; s,line [0-9]+,line,; s,Inode: [0-9]+,," <<<"$out")"
	done
}
for d in agents users; do
	case $d in agents) hidden=abcdef absent=abcxyz ;; users) hidden=adam absent=adzz ;; esac
	diff <(try $d $hidden) <(try $d $absent) || { echo "$d: < hidden, > absent"; exit 1; }
done
is "$(cat "$ABCDEF/agents/abcdef/workspace/secret" "$ABCDEF/users/adam/secret" | tr '\n' ' ')" "secret secret "
is "$(cat "$ABC/agents/abc/workspace/mine")" mine
`, Env: []string{"ABC=" + abc, "ABCDEF=" + abcdef, "GAIA=" + s.Gaia}})

	// The same at the other doors.
	for _, path := range []string{"/agents/abcdef", "/agents/abcxyz", "/agents/abcdef/workspace/secret", "/users/adam/secret", "/agents/abc/../abcdef/workspace/secret"} {
		s.Refused(t, 10, "fs", "ls", "--agent", "abc", path)
		s.Refused(t, 10, "fs", "cat", "--agent", "abc", path)
		s.Refused(t, 10, "mount", "--agent", "abc", "--root", path, t.TempDir())
	}

	// An exception for one directory is none for the directory beside it.
	w := "/agents/abc/workspace"
	s.Script(t, stack.Script{Dir: filepath.Join(abc, w), Text: `mkdir -p p/a p/ab; fails eval 'echo 1 >p/a/.env'; fails eval 'echo 1 >p/ab/.env'`})
	s.Warren(t, "policy", "allow-name", ".env", "--under", w+"/p/a")
	s.Script(t, stack.Script{Dir: filepath.Join(abc, w), Text: `
echo 1 >p/a/.env; is "$(cat p/a/.env)" 1
fails eval 'echo 1 >p/ab/.env'; fails mv p/a/.env p/ab/.env; fails ln p/a/.env p/ab/.env; fails cat p/ab/.env; is "$(ls -A p/ab)" ""
rm -r p
`})
	s.Fsck(t)
}

func TestCase34_PicoclawSymlinkOut(t *testing.T) {
	s := shared.Running(t)
	abc, abcdef := neighbours(t, s)
	s.Script(t, stack.Script{Dir: s.Dir, Text: `
echo secret >"$ABCDEF/agents/abcdef/workspace/secret34"
cd "$ABC/agents/abc/workspace"
ln -sfn ../../abcdef/workspace leak; ln -sfn ../../../agents/abcdef/workspace/secret34 leak2
ln -sfn "$GAIA/agents/abcdef/workspace/secret34" leak3; ln -sfn "$GAIA" leak4
ln -sfn /warren/agents/abcdef/workspace/secret34 leak5; ln -sfn "$STORE" leak6
for l in leak/secret34 leak2; do
	is "$(cat $l 2>&1)" "cat: $l: No such file or directory"
	fails stat -L $l; fails stat -L leak; fails ls leak/; fails eval "echo 1 >$l"; fails mkdir leak/x; fails rm leak/secret34; fails touch leak/new
done
is "$(cat "$GAIA/agents/abcdef/workspace/secret34")" secret
is "$(readlink "$GAIA/agents/abc/workspace/leak")" ../../abcdef/workspace
fails cat "$GAIA/agents/abc/workspace/leak/secret34" # its maker may not look there, so it leads Gaia nowhere
`, Env: []string{"ABC=" + abc, "ABCDEF=" + abcdef, "GAIA=" + s.Gaia, "STORE=" + filepath.Join(s.Dir, "store")}})

	// Through the API, where the daemon follows the links.
	for _, l := range []string{"leak/secret34", "leak2", "leak3", "leak4/agents/abcdef/workspace/secret34", "leak5", "leak6/FORMAT"} {
		s.Refused(t, 10, "fs", "cat", "--agent", "abc", "/agents/abc/workspace/"+l)
	}

	// From inside a run, where the mounted path of the orchestrator does not exist either.
	out := s.Script(t, stack.Script{Dir: s.Dir, Text: `
warren run --agent abc -- sh -c '
	cd /warren/agents/abc/workspace || exit 9
	for l in leak/secret34 leak2 leak3 leak4/agents/abcdef/workspace/secret34 leak5; do cat $l; done
	ls leak4/ leak6/; true' 2>&1
`})
	if strings.Contains(out, "secret\n") || strings.Count(out, "No such file or directory") != 7 {
		t.Errorf("a run that follows links out of its view saw:\n%s", out)
	}
	s.Script(t, stack.Script{Dir: s.Dir, Text: `rm "$ABC"/agents/abc/workspace/leak* "$ABCDEF/agents/abcdef/workspace/secret34"`, Env: []string{"ABC=" + abc, "ABCDEF=" + abcdef}})
	s.Fsck(t)
}

func TestCase37_NexusTrailingSlash(t *testing.T) {
	s := shared.Running(t)
	abc, _ := neighbours(t, s)
	w := "/agents/abc/workspace"
	s.Script(t, stack.Script{Dir: filepath.Join(abc, w), Text: `mkdir -p with without; fails eval 'echo 1 >with/.env'; fails eval 'echo 1 >without/.env'`})
	s.Warren(t, "policy", "allow-name", ".env", "--under", w+"/with/")
	s.Warren(t, "policy", "allow-name", ".env", "--under", w+"/without")
	s.Script(t, stack.Script{Dir: filepath.Join(abc, w), Text: `
for d in with without; do
	mkdir $d/sub; echo 1 >$d/.env; echo 2 >$d/sub/.env; is "$(cat $d/.env $d/sub/.env | tr -d '\n')" 12
done
fails eval 'echo 1 >.env'
`})
	if a, b := s.Warren(t, "fs", "ls", "--agent", "abc", w+"/with"), s.Warren(t, "fs", "ls", "--agent", "abc", w+"/with/"); a != b || a == "" {
		t.Errorf("fs ls with and without a slash: %q and %q", a, b)
	}
	rooted := s.Mount(t, "--agent", "abc", "--root", w+"/with/")
	if _, err := os.Stat(filepath.Join(rooted, "sub/.env")); err != nil {
		t.Error(err)
	}
	s.Script(t, stack.Script{Dir: filepath.Join(abc, w), Text: `rm -r with without`})
	s.Fsck(t)
}

func TestCase40_HermesNoSilentFallback(t *testing.T) {
	s := shared.Running(t)
	neighbours(t, s)
	// Inside, no further namespace can be made: run must fail, and must not
	// have started the command.
	s.Script(t, stack.Script{Dir: s.Dir, Text: `
is "$(warren run --agent abc -- echo ran)" ran
status=0
unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec warren run --agent abc -- touch "$REF/ran"' 2>"$REF/err" || status=$?
is $status 125 "$(cat "$REF/err")"
fails test -e "$REF/ran"
[[ -s $REF/err ]] || { echo "run failed without a word"; exit 1; }
# The same where mounts cannot be made.
status=0
unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_mnt_namespaces && exec warren run --agent abc -- touch "$REF/ran"' 2>"$REF/err" || status=$?
is $status 125 "$(cat "$REF/err")"
fails test -e "$REF/ran"
`})
	s.Fsck(t)
}
