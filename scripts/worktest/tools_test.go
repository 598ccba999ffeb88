package worktest

import (
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
	"time"
)

// goSource puts Go's own source, or the named part of it, into IN/src. With
// -short it is a small part.
func goSource(part string) string {
	return `
mkdir "$IN/src"
cp -r --no-preserve=mode "$(go env GOROOT)"/src/$(n ` + part + ` net)/. "$IN/src"
find "$IN/src" -exec touch -h -d '2020-02-02 02:02:02.123456789Z' {} +
`
}

func TestUntar(t *testing.T) {
	do(t, workload{
		prepare: goSource(".") + `tar -C "$IN" -cf "$IN/src.tar" src`,
		work: `
tar -xf "$IN/src.tar"
tar -cf - src | tar -tf - | LC_ALL=C sort | sha256sum
tar -df "$IN/src.tar"
`,
		see: `TIMES=1 manifest "$W"`,
	})
}

func TestCopySearchAndRemove(t *testing.T) {
	do(t, workload{
		prepare: goSource("cmd"),
		work: `
rsync -a "$IN/src/" one/
rsync -a one/ two/
rsync -anc --delete --itemize-changes one/ two/
cp -a one three
diff -r two three
rg -c --no-heading -e 'func ' one | LC_ALL=C sort | sha256sum
find two -name '*_test.go' | wc -l
rm -rf one
find three -name '*.go' -size +20k -delete
ls
`,
		see: `TIMES=1 manifest "$W"`,
	})
}

func TestGit(t *testing.T) {
	do(t, workload{
		prepare: goSource(".") + `
git() { command git -C "$IN/src" -c user.name=a -c user.email=a@b -c gc.auto=0 "$@"; }
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q -b main; git add -A; git commit -qm one
for i in conn file addr; do
	find "$IN/src" -name "*$i*.go" -exec sh -c 'for f; do echo "// $f" >>"$f"; done' sh {} +
	git commit -qam "change $i"; git tag v$i
done
`,
		work: `
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git clone -q "file://$IN/src" clone 2>&1; cd clone
git config user.name a; git config user.email a@b
git fsck --full --strict 2>&1
git status --porcelain
git switch -qc b; git switch -q -; git switch -q b
echo new >new; git add new; git commit -qm new; git rev-parse HEAD
git checkout -q vconn; git checkout -q b; git status --porcelain
echo changed >>new; git stash -q; git stash pop -q; git diff --stat; git checkout -q new
git gc -q --prune=now; git fsck --full --strict 2>&1 | grep -v dangling || true
git log --oneline | wc -l; git count-objects -v | grep -E '^(count|packs|garbage)'
for i in $(seq 50); do git config remote.o$i.url u; done; git config -l | grep -c 'remote.o.*url'
`,
		see: `
manifest "$W" -not -path '*/.git/*'
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
cd "$W/clone"; git status --porcelain; git fsck --full --strict 2>&1 | grep -v dangling || true; git rev-parse HEAD
`,
	})
}

func TestSQLite(t *testing.T) { do(t, sqlite()) }

// TestSQLiteOverBadgerContent is TestSQLite in a store made with the content
// driver that is not the default.
func TestSQLiteOverBadgerContent(t *testing.T) {
	if stack.Short() {
		t.Skip("TestSQLite is the same work")
	}
	t.Setenv("STACK_CONTENT", "badger")
	on(t, stack.ForTest(t, stack.Options{}), sqlite())
}

func sqlite() workload {
	return workload{
		prepare: `
for i in $(seq $(n 1000 200)); do
	echo "begin; insert into t values ($i, hex(zeroblob($i))); update t set v = 'u' where k = $((i / 2)); commit;"
done >"$IN/work.sql"
`,
		work: `
for mode in delete wal truncate persist; do
	sqlite3 $mode.db "pragma journal_mode=$mode; create table t (k integer primary key, v text)"
	sqlite3 $mode.db <"$IN/work.sql"
	sqlite3 $mode.db 'pragma integrity_check; select count(*), sum(length(v)) from t'
	sqlite3 $mode.db 'begin; delete from t; rollback; vacuum; pragma integrity_check'
done
# Several writers at once.
sqlite3 many.db 'pragma journal_mode=wal; create table t (w, i)'
for w in 1 2 3 4; do
	(for i in $(seq $(n 50 15)); do printf '.timeout 20000\ninsert into t values (%d, %d);\n' $w $i | sqlite3 many.db; done) &
done
wait
sqlite3 many.db 'pragma integrity_check; select w, count(*) from t group by w order by w'
`,
		see: `
for db in "$W"/*.db; do
	rm -f "$REF"/copy*; cp "$db" "$REF/copy.db"
	for side in wal journal; do [[ ! -e $db-$side ]] || cp "$db-$side" "$REF/copy.db-$side"; done
	echo "${db##*/}"; sqlite3 "$REF/copy.db" 'pragma integrity_check'; sqlite3 "$REF/copy.db" .dump | LC_ALL=C sort | sha256sum
done
`,
	}
}

func TestNpm(t *testing.T) {
	do(t, workload{
		limit: 8 * time.Minute,
		prepare: `
more='"react": "18.3.1", "react-dom": "18.3.1", "webpack": "5.97.1", "webpack-cli": "5.1.4", "eslint": "8.57.1", "jest": "29.7.0", "typescript": "5.7.2",'
printf '{"name": "app", "version": "1.0.0", "private": true, "dependencies": { %s "express": "4.21.2"}}\n' "$(n "$more" '')" >package.json
npm install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel=error --cache "$IN/cache"
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --cache "$IN/cache"; rm -rf node_modules
`,
		work: `
cp "$IN/package.json" "$IN/package-lock.json" .
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --cache "$IN/cache" --prefer-offline | grep -o 'added [0-9]* packages'
npm ls --all >/dev/null
node -e 'require("express")(); console.log(Object.keys(require("./package-lock.json").packages).length)'
if [[ -e node_modules/.bin/webpack ]]; then
	echo 'console.log(require("react").version)' >index.js
	npx --no-install webpack --mode production --target=node ./index.js >/dev/null; node dist/main.js
	npx --no-install tsc --version; npx --no-install eslint --version
fi
rm -f node_modules/.package-lock.json
`,
	})
}

func TestPython(t *testing.T) {
	if stack.Short() {
		t.Skip("one program after the other, as the rest of the work is")
	}
	do(t, workload{
		work: `
python3 -m venv v
v/bin/python - <<'EOP'
import os, shutil, sys, tempfile, zipfile
assert sys.prefix != sys.base_prefix
tempfile.tempdir = os.getcwd()
with tempfile.NamedTemporaryFile() as f:
    f.write(b"x" * 100_000); f.flush()
    assert os.path.getsize(f.name) == 100_000
with zipfile.ZipFile("z.zip", "w") as z:
    for root, _, files in os.walk("v/lib"):
        for f in files: z.write(os.path.join(root, f))
with zipfile.ZipFile("z.zip") as z:
    assert z.testzip() is None
    print(len(z.namelist()))
shutil.copytree("v", "w", symlinks=True)
shutil.rmtree("w")
os.remove("z.zip")
EOP
v/bin/pip --version | cut -d' ' -f1,2
v/bin/pip list --format=freeze --disable-pip-version-check | LC_ALL=C sort
v/bin/python -m compileall -qf v/lib
`,
		// Scripts and compiled files have the directory's name in them.
		see: `
cd "$W"; find . -printf '%y %m %p %l\n' | LC_ALL=C sort; find . -name '*.py' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
v/bin/python -c 'import pip; print(pip.__version__)'
`,
	})
}

func TestGo(t *testing.T) {
	do(t, workload{
		limit: 8 * time.Minute,
		prepare: `
dir=$(cd "$TOP"; go list -m -f '{{.Dir}}' github.com/spf13/pflag)
cp -r --no-preserve=mode "$dir" pflag
`,
		work: `
cp -r "$IN/pflag" .; cd pflag
# The cache is where the work is, but for the plain directory: there nothing is to be learnt from it.
case $W in */agents/*) export GOCACHE=$W/cache ;; esac
export GOTMPDIR=$W GOWORK=off
if [[ $SHORT ]]; then
	# The runtime alone, not all that pflag and testing are made of.
	mkdir prog; printf 'package main\nimport "os"\nfunc main() { println(len(os.Args) - 1) }\n' >prog/main.go
else
	go test . | sed -E "s/([0-9.]+s|.cached.)$//"
	go test . | grep -c cached
	mkdir prog; printf 'package main\nimport "github.com/spf13/pflag"\nfunc main() { pflag.Parse(); println(pflag.NArg()) }\n' >prog/main.go
fi
go build -trimpath -buildvcs=false -o ../out ./prog; ../out a b c 2>&1
case $W in */agents/*) find "$GOCACHE" -type f | wc -l >"$REF/n"; [[ $(cat "$REF/n") -gt $(n 100 50) ]]; go clean -cache ;; esac
`,
		see: `manifest "$W" -not -path './cache*'`,
	})
}
