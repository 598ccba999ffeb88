package attack

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// hire makes the soul that attacks, if it is not there yet.
func hire(t *testing.T, s *stack.Stack) {
	t.Helper()
	if _, err := s.Try("agent", "show", soul); err != nil {
		s.Warren(t, "agent", "add", soul, "--role", "soul")
	}
}

// thief mounts the view of the soul that attacks.
func thief(t *testing.T, s *stack.Stack) (mount string, env []string) {
	t.Helper()
	hire(t, s)
	mount = s.Mount(t, "--agent", soul)
	return mount, []string{"ME=" + mount + "/agents/" + soul, "TOP=" + mount, "GAIA=" + s.Gaia}
}

// attack is a script that ends with 0 if nothing it tried succeeded. Their
// numbers are those of the list of failures that users of other systems reported.
type attack struct{ name, text string }

func attacks() []attack {
	return []attack{
		{"35: links and renames around a denied name", `
cd "$ME/workspace"; echo KEY=1 >plain
for n in .env .ENV .Env .env.local .netrc id_rsa ID_RSA; do
	fails eval "echo 1 >$n"; fails mv plain $n; fails ln plain $n; fails touch $n; fails cp plain $n;
	fails test -e $n
done
# One that was there before the rule, with a second name made before it too.
mkdir -p old; echo secret >old/later.key; ln old/later.key old/innocent; ln -s later.key old/soft
warren policy deny-name '*.key'
for n in later.key innocent soft; do fails cat old/$n; fails eval "echo 1 >>old/$n"; done
fails mv old/later.key old/free; fails ln old/later.key old/free; fails mv old/innocent old/free; fails ln old/innocent old/free
fails truncate -s 0 old/later.key; fails dd if=old/later.key of=/dev/null; fails cp old/later.key old/free; fails cp -l old/later.key old/free
is "$(ls old | tr '\n' ' ')" "innocent later.key soft "
rm old/later.key                      # that may be removed
for n in innocent soft; do fails cat old/$n; done
warren policy deny-name '*.key' --remove
fails cat old/innocent                # what lost a denied name stays denied
rm -r old plain`},
		{"36: every change bears the name of who made it", `
cd "$ME/workspace"; mkdir d36; echo 1 >d36/f
warren log >"$REF/told"               # what follows is no part of the creation
echo 2 >>d36/f; truncate -s 1 d36/f; chmod 600 d36/f; ln d36/f d36/g; mv d36/g d36/h; ln -s f d36/s
touch d36/f; setfattr -n user.a -v b d36/f; rm d36/h d36/s; fallocate -l 10 d36/f; cp d36/f d36/c; rm -r d36
warren log --path /agents/thief/workspace/d36 --json >"$REF/log36"
for op in mkdir create write attr link rename symlink xattr unlink rmdir; do
	grep '"op":"'$op'"' "$REF/log36" | grep -q '"agent":"thief"' || { echo "no $op of thief's"; cat "$REF/log36"; exit 1; }
done
is "$(grep -vc '"agent":"thief"' "$REF/log36" || true)" 0`},
		{"38: an unknown field is an error", `
printf '@id("x") @colour("red") permit (principal, action, resource);' >"$REF/x.cedar"; fails warren policy load "$REF/x.cedar"
printf '@id("x") permit (principal, action, resource) when { resource.colour == "red" };' >"$REF/x.cedar"; fails warren policy load "$REF/x.cedar"
is "$(warren policy list | grep -c x.cedar || true)" 0
fails eval 'warren agent set thief --colour red'`},
		{"39: a move overwrites nothing, an edit keeps what it does not change", `
cd "$ME/workspace"; echo a >a39; echo b >b39
fails warren fs mv --agent thief a39 b39; is "$(cat a39 b39 | tr '\n' ' ')" "a b "
printf 'one\r\ntwo\r\n' >crlf39; chmod 751 crlf39; warren fs edit --agent thief crlf39 --old two --new three
is "$(od -An -c crlf39 | tr -d ' \n')" 'one\r\nthree\r\n'; is "$(stat -c %a crlf39)" 751; rm a39 b39 crlf39`},
		{"names that look alike, that are no text, and that have lines", `
cd "$ME/workspace"
e1=$(printf 'caf\303\251'); e2=$(printf 'cafe\314\201'); bad=$(printf 'x\377\376y'); nl=$(printf 'a\nagent fake created x')
echo 1 >"$e1"; echo 2 >"$e2"; echo 3 >"$bad"; echo 4 >"$nl"; echo 5 >README; echo 6 >readme; echo 7 >"$(printf '\342\200\256txt.exe')"
is "$(cat "$e1" "$e2" "$bad" "$nl" README readme | tr -d '\n')" 123456
is "$(ls | wc -l)" 8 "ls shows the line of one name as two"
# A look-alike of a hidden name is another name, and one of a denied name too: it may be used.
fails ls "$TOP/agents/web_d$(printf '\321\226')signer"; fails ls "$TOP/agents/WEB_DESIGNER"; fails ls "$TOP/agents/web_designer "; fails ls "$TOP/Agents"
echo 1 >"$(printf '.\320\265nv')"
# In the log a name is one line, and shows what it is made of.
warren log --path /agents/thief/workspace >"$REF/lognl"; is "$(grep -c '^agent fake' "$REF/lognl" || true)" 0
grep -q 'a\\n' "$REF/lognl" || { echo "the newline is not shown"; cat "$REF/lognl"; exit 1; }
is "$(grep -c $'\377\|\342\200\256' "$REF/lognl" || true)" 0
rm -f -- * .?nv .[!.]*; is "$(ls -A)" ""`},
		{"33: links to what is hidden, by every name of it", `
cd "$ME/workspace"; echo secret >"$GAIA/agents/web_designer/workspace/s33"
hidden="$TOP/agents/web_designer/workspace/s33"
for c in "ln $hidden l" "cp $hidden l" "mv $hidden l" "cat $hidden" "ln -s $hidden l && cat l" "cat /proc/self/cwd/../../web_designer/workspace/s33" \
	"cd $TOP/agents/web_designer" "cat $TOP/agents/./thief/../web_designer/workspace/s33" "cat $TOP//agents//web_designer//workspace//s33"; do fails eval "$c"; done
rm -f l; fails ln -L "$TOP/agents/thief/soul.md" x; fails mv "$ME/soul.md" x; fails eval 'echo 1 >"$ME/soul.md"'; fails rm "$ME/soul.md"
fails rmdir "$ME/workspace"; fails mv "$ME/workspace" "$ME/w2"; fails mkdir "$ME/x"; fails rm -d "$TOP/agents"
rm "$GAIA/agents/web_designer/workspace/s33"`},
		{"control files", `
cd "$TOP/.warren"
for f in whoami denials quota; do fails eval "echo 1 >$f"; fails rm -f $f; fails mv $f x; fails ln $f x; fails truncate -s 0 $f; fails chmod 777 $f; done
fails mkdir x; fails touch x; fails mv "$ME/workspace" x; fails rmdir "$TOP/.warren"; fails mv "$TOP/.warren" "$TOP/w"
is "$(ls -A "$TOP" | grep -c warren || true)" 0 "it is not listed"
grep -q '"agent":"thief"' whoami; fails grep -q web_designer denials quota whoami
fails ls snapshots/web_designer; fails cat ../.warren/../agents/web_designer/soul.md`},
	}
}

// TestAttacks runs what a soul may try by its shell.
func TestAttacks(t *testing.T) {
	if testing.Short() {
		t.Skip("policy/view and fusefs have the parts")
	}
	s := shared.Running(t)
	_, env := thief(t, s)
	for _, c := range attacks() {
		t.Run(strings.Fields(c.name)[0], func(t *testing.T) {
			s.Script(t, stack.Script{Dir: s.Dir, Text: c.text, Env: env})
		})
	}
	s.Fsck(t)
}
