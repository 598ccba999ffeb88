package casetest

import "testing"

// repo makes the script's git quiet and of one name.
const repo = `
export GIT_CONFIG_GLOBAL="$REF/gitconfig" GIT_CONFIG_NOSYSTEM=1
git config --global user.name t; git config --global user.email t@example.org
git config --global init.defaultBranch main; git config --global safe.directory '*'; git config --global gc.auto 0
`

func TestCase10_AgentfsSwitchBranches(t *testing.T) {
	shell(t, repo+`
git init -q .; echo 1 >f; git add f; git commit -qm 1
git switch -qc b; echo 2 >f; git commit -qam 2; git switch -q -
is "$(cat f)" 1; is "$(cat "$N/f")" 1
for i in $(seq $(n 40 10)); do
	git switch -q b; is "$(cat "$N/f")" 2; git switch -q -; is "$(cat "$N/f")" 1
done
# The log of HEAD is appended to from both sides, and read whole from both.
(cd "$N"; git switch -q b; echo 3 >f; git commit -qam 3; git switch -q main)
is "$(git reflog | wc -l)" "$(cd "$N"; git reflog | wc -l)"
is "$(git rev-list --all --count)" 3
git worktree add -q "$M/w" b; is "$(cat "$N/w/f")" 3; (cd "$N/w"; git status --short; git fsck --strict); git worktree remove w
git commit -q --amend -m again; git rebase -q main b; is "$(cat "$N/f")" 3; git fsck --strict; (cd "$N"; git fsck --strict)
`)
}

func TestCase11_Drive9ManyRemotes(t *testing.T) {
	shell(t, repo+`
git init -q .
for i in $(seq 50); do git config remote.o$i.url u; done
is "$(git config -l | grep -c remote.o)" 50; is "$(cd "$N"; git config -l | grep -c remote.o)" 50
for i in $(seq 25); do (cd "$N"; git config --unset remote.o$i.url); git config remote.p$i.url v; done
is "$(git config -l | grep -c 'remote.[op]')" 50
fails stat .git/config.lock
`)
}

// TestCase12: 30,000 files in one clone, gathered again, and checked by git from
// both sides.
func TestCase12_SandboxCloneOfManyFiles(t *testing.T) {
	shellMany(t, repo+`
files=$(n 30000 2000)
git init -q --bare "$REF/origin"
python3 - "$files" <<'EOP' | git -C "$REF/origin" fast-import --quiet
import sys
print("commit refs/heads/main\ncommitter t <t@example.org> 0 +0000\ndata 1\nm")
for i in range(int(sys.argv[1])):
    text = f"file {i}\n" * (1 + i % 40)
    print(f"M 100644 inline d{i % 150}/s{i % 7}/f{i}\ndata {len(text)}\n{text}")
EOP
git clone -q "$REF/origin" c; cd c
is "$(git ls-files | wc -l)" $files; is "$(find . -path ./.git -prune -o -type f -print | wc -l)" $files
is "$(git status --porcelain)" ""; git fsck --strict; (cd "$N/c"; is "$(git status --porcelain)" "")
git gc -q; git fsck --strict; (cd "$N/c"; git fsck --strict)
git switch -qc b; rm -rf d1; git commit -qam gone; git switch -q main; is "$(git status --porcelain)" ""
is "$(ls "$N/c/d1" | wc -l)" 7
`)
}

func TestCase20_BunHardLinks(t *testing.T) {
	shell(t, `
echo 1 >a; ln a b; is "$(stat -c %h a)" 2; is "$(stat -c %i "$N/b")" "$(stat -c %i a)"
echo 2 >b; is "$(cat "$N/a")" 2; rm a; is "$(cat b)" 2; is "$(stat -c %h "$N/b")" 1
# A store of packages, as of pnpm and bun: hard links to the files, symbolic links to the directories.
packages=$(n 40 8)
for p in $(seq $packages); do
	mkdir -p store/$p/lib node_modules/.pnpm/p$p/node_modules/p$p/lib
	for f in $(seq 10); do echo "$p $f" >store/$p/lib/$f.js; done
	for f in store/$p/lib/*; do ln $f node_modules/.pnpm/p$p/node_modules/p$p/lib/; done
	ln -s .pnpm/p$p/node_modules/p$p node_modules/p$p
done
is "$(cat "$N"/node_modules/p*/lib/*.js | sort | sha256sum)" "$(cat store/*/lib/*.js | sort | sha256sum)"
is "$(find "$N/node_modules" -type f -links 2 | wc -l)" $((packages * 10))
# Another install from the same store beside it; what was replaced there stays in the store.
cp -al node_modules second; is "$(stat -c %h "$N/store/1/lib/1.js")" 3
echo new >t; mv t second/p1/lib/1.js; is "$(cat "$N/store/1/lib/1.js")" "1 1"; is "$(stat -c %h store/1/lib/1.js)" 2
rm -rf "$N/second"; is "$(stat -c %h store/2/lib/1.js)" 2
rm -rf store; is "$(cat "$N/node_modules/p2/lib/1.js")" "2 1"; is "$(stat -c %h node_modules/p2/lib/1.js)" 1
`)
}

func TestCase32_GoBuildBesideFlock(t *testing.T) {
	shell(t, `
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOWORK=off GOMODCACHE="$M/modcache" GOPROXY=off GOSUMDB=off
mkdir -p mod/sub; cd mod
printf 'module example.org/m\n\ngo 1.21\n' >go.mod
printf 'package sub\n\nfunc Text() string { return "built" }\n' >sub/sub.go
printf 'package main\n\nimport "example.org/m/sub"\n\nfunc main() { println(sub.Text()) }\n' >main.go
touch f; flock f true; go build ./...
flock "$N/mod/f" go build -o "$M/prog" .; is "$("$N/prog" 2>&1)" built
(flock -n 9; fails flock -n "$N/mod/f" true) 9>f; flock -n "$N/mod/f" true
go mod edit -require=example.org/none@v1.0.0; grep -q none "$N/mod/go.mod"
rm -rf "$M/modcache"
`)
}
