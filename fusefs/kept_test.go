package fusefs

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// keeper opens the files of a directory in every way there is, and then uses all of
// them for each line on stdin: "kept" if that works, else what does not.
const keeper = `
import fcntl, mmap, os, sqlite3, struct, subprocess, sys
where, writes = sys.argv[1], sys.argv[2] == "true"
os.chdir(where)
OFD_SETLK, OFD_GETLK = 37, 36
r = os.open("data", os.O_RDONLY)
w = os.open("data", os.O_RDWR) if writes else -1
m = mmap.mmap(r, 8192, mmap.MAP_SHARED, mmap.PROT_READ)
mw = mmap.mmap(w, 8192) if writes else None
lock = lambda t: struct.pack("hhqqi", t, 0, 0, 0, 0)
if writes: fcntl.fcntl(w, OFD_SETLK, lock(fcntl.F_WRLCK))
fcntl.flock(r, fcntl.LOCK_SH)
if writes:
    db = sqlite3.connect("db", isolation_level=None)
    db.execute("pragma journal_mode=wal")
    db.execute("insert into t values (1)")
else:
    db = sqlite3.connect("file:db?mode=ro&immutable=1", uri=True)
db.execute("select count(*) from t").fetchone()
prog = subprocess.Popen(["./prog", "-c", "while read x; do echo got $x; done"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
git = subprocess.Popen(["git", "-C", "repo", "cat-file", "--batch-check"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
def ask(p, q):
    p.stdin.write(q + "\n"); p.stdin.flush()
    a = p.stdout.readline().strip()
    if not a or "missing" in a: raise OSError("%s: %r, ended with %s" % (q, a, p.poll()))
n = 0
def ways():
    global n
    n += 1
    yield "read", lambda: os.pread(r, 8192, 0)[4097:4098] == b"d" or 1/0
    yield "stat", lambda: os.fstat(r)
    yield "reopen", lambda: os.close(os.open("/proc/self/fd/%d" % r, os.O_RDONLY))
    yield "program", lambda: ask(prog, "x%d" % n)
    yield "git", lambda: ask(git, "HEAD~%d^{tree}" % (n % 3))
    yield "sqlite", lambda: db.execute("select sum(a) from t").fetchone()
    if writes:
        yield "write", lambda: (os.pwrite(w, b"w%d" % n, 4098), os.fsync(w))
        yield "append", lambda: (os.ftruncate(w, 16384), os.ftruncate(w, 8192))
        yield "insert", lambda: db.execute("insert into t values (1)")
        yield "lock", lambda: fcntl.fcntl(w, OFD_SETLK, lock(fcntl.F_WRLCK))
    yield "flock", lambda: fcntl.flock(r, fcntl.LOCK_SH | fcntl.LOCK_NB)
def maps():
    if m[4097:4098] != b"d": return False
    if writes:
        mw[1] = n % 256
        mw.flush()
    return True
print("ready", flush=True)
for line in sys.stdin:
    if line == "replace\n": # what an editor does
        for name in ("data", "db", "prog"):
            with open(name, "rb") as f, open(name + ".new", "wb") as g: g.write(f.read())
            os.rename(name + ".new", name)
    bad = []
    for what, do in ways():
        try: do()
        except Exception as e: bad.append("%s: %s" % (what, e))
    pid = os.fork() # a lost map is SIGBUS
    if pid == 0: os._exit(0 if maps() else 1)
    status = os.waitpid(pid, 0)[1]
    if status: bad.append("map: status %d" % status)
    print("; ".join(bad) or "kept", flush=True)
for p in git, prog:
    p.stdin.close(); p.wait()
`

// ended is the answer of a keeper that a signal ended.
const ended = "the keeper has ended"

// standing starts keeper in dir and returns how to ask it: with "" or "replace".
func (s *stack) standing(dir string, writes bool) (ask func(string) string) {
	t := s.t
	t.Helper()
	script := filepath.Join(s.dir, "keeper.py")
	must(t, os.WriteFile(script, []byte(keeper), 0o644))
	ctx, cancel := waits.Context(context.Background(), 3*time.Minute)
	cmd := exec.CommandContext(ctx, "python3", script, dir, map[bool]string{true: "true", false: "false"}[writes])
	cmd.Env = append(os.Environ(), gitEnv...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		defer cancel()
		in.Close()
		_ = cmd.Wait()
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // its children, if it was killed itself
	})
	read := func() string {
		if !lines.Scan() {
			return ended
		}
		return lines.Text()
	}
	if got := read(); got != "ready" {
		t.Fatalf("the keeper says %q", got)
	}
	return func(how string) string {
		_, err := io.WriteString(in, how+"\n")
		must(t, err)
		return read()
	}
}

// gitEnv lets git work anywhere, without any user's settings.
var gitEnv = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
	"GIT_CONFIG_VALUE_0=*", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}

// runs runs a script of sh in dir. The shell enters dir, not os/exec: between fork and
// exec this process stands still, and it may serve dir.
func (s *stack) runs(dir, script string) {
	s.t.Helper()
	cmd := exec.Command("sh", "-euc", "cd \"$0\"\n"+script, dir)
	cmd.Env = append(os.Environ(), gitEnv...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// furnishing makes what keeper opens, in p.
const furnishing = `mkdir -p p; cd p
head -c 8192 /dev/zero | tr '\0' d > data
sqlite3 db 'create table t (a)'
cp /bin/sh prog
git init -q repo; cd repo
for i in 1 2 3 4; do head -c 20000 /dev/urandom > f$i; git add .; git commit -qm c$i; done
git repack -qad`

// namesGo are the ways by which files of p lose all names in it while links to them
// stay in h. Each is run in the directory above both.
var namesGo = []struct{ name, script string }{
	{"unlink", `mkdir h; for f in data db prog; do ln p/$f h/$f; rm p/$f; done`},
	{"rename over", `mkdir h; for f in data db prog; do ln p/$f h/$f; echo new > p/$f.new; mv p/$f.new p/$f; done`},
	{"exchange and unlink", `mkdir h; for f in data db prog; do ln p/$f h/$f; echo new > p/$f.new; mv --exchange p/$f.new p/$f 2>/dev/null ||
		python3 -c 'import ctypes,sys; l=ctypes.CDLL(None); sys.exit(l.renameat2(-100,sys.argv[1].encode(),-100,sys.argv[2].encode(),2)!=0)' p/$f.new p/$f; rm p/$f.new; done`},
	{"cp -al", `cp -al p h; rm -rf p/data p/db p/prog`},
	{"rsync --link-dest", `rsync -a --link-dest="$PWD/p" p/ h/; mkdir new; echo new > new/data; rsync -a --delete --exclude repo --exclude 'db-*' new/ p/`},
	{"a pnpm store", `mkdir -p h/v1 h/v2; for f in data db prog; do ln p/$f h/v1/$f; echo new > h/v2/$f; rm p/$f; ln h/v2/$f p/$f; done`},
	{"git repack beside a local clone", `mkdir h; git clone -q --local p/repo h/clone; cd p/repo; echo more > f5; git add .; git commit -qm c5; git repack -qad; git prune-packed`},
	{"its own replace", `mkdir h; for f in data db prog; do ln p/$f h/$f; done`},
}

// mountKinds are the kinds of mount in which p is and h is not, except where the
// view sees all of the volume.
var mountKinds = []struct {
	name   string
	cfg    Config
	dir    string // of p below the mountpoint
	writes bool
	facts  func(*policy.Facts)
}{
	{"root view", Config{Agent: "gaia", Root: "/"}, workDir + "/p", true, nil},
	{"--root", Config{Agent: "web", Root: workDir + "/p"}, "", true, nil},
	{"grant read", Config{Agent: "other", Root: "/"}, workDir + "/p", false, granting("read")},
	{"grant write", Config{Agent: "other", Root: "/"}, workDir + "/p", true, granting("write")},
	{"ro", Config{Agent: "web", Root: workDir + "/p", Access: view.ReadOnly}, "", false, nil},
	{"allow-other", Config{Agent: "web", Root: workDir + "/p", AllowOther: true}, "", true, nil},
	{"orchestrator", Config{Agent: "gaia", Root: workDir + "/p"}, "", true, nil},
	{"--user", Config{Agent: "boss", Root: workDir + "/p"}, "", true, func(f *policy.Facts) {
		f.Agents["boss"] = policy.Agent{Key: "boss", Role: "orchestrator", User: "ada"}
	}},
	{"two mounts", Config{Agent: "web", Root: workDir + "/p"}, "", true, nil},
	{"project member", Config{Agent: "other", Root: "/projects/site/p"}, "", true, func(f *policy.Facts) {
		f.Projects = map[string]map[string]string{"site": {"other": "write"}}
	}},
}

func granting(right string) func(*policy.Facts) {
	return func(f *policy.Facts) {
		f.Grants = []policy.Grant{{ID: "g", Agent: "other", Path: workDir + "/p", Right: right, Expires: time.Now().Add(time.Hour)}}
	}
}

// TestNamesGoHandlesStay: what an agent has open, mapped, locked or running stays its
// own when the last name of the file in its view goes, while a hard link stays outside.
// In short, each kind of mount and each way is tried once.
func TestNamesGoHandlesStay(t *testing.T) {
	for _, tool := range []string{"python3", "sqlite3", "git", "rsync"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs " + tool)
		}
	}
	for i, kind := range mountKinds {
		for j, way := range namesGo {
			own := way.name == "its own replace"
			if testing.Short() && j != i%len(namesGo) || own && !kind.writes {
				continue
			}
			t.Run(kind.name+"/"+way.name, func(t *testing.T) {
				s := newStack(t, memDriver)
				s.watch(5 * time.Minute)
				facts := testFacts()
				if kind.facts != nil {
					kind.facts(&facts)
				}
				s.publish(facts)
				above := workDir
				if facts.Projects != nil {
					above = "/projects/site"
					_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: view.Label{Kind: view.KindProject, Owner: "site"}})
					must(t, err)
				}
				gaia := s.mount("gaia", Config{Root: "/"}) + above
				s.runs(gaia, furnishing)
				m := s.mount("m", kind.cfg)
				asks := []func(string) string{s.standing(m+kind.dir, kind.writes)}
				if kind.name == "two mounts" {
					asks = append(asks, s.standing(s.mount("m2", Config{Agent: "web", Root: workDir + "/p", Access: view.ReadOnly}), false))
				}
				s.runs(gaia, way.script)
				how := ""
				if own {
					how = "replace"
				}
				for range 2 {
					for i, ask := range asks {
						if got := ask(how); got != "kept" {
							t.Errorf("mount %d: %s", i, got)
						}
					}
				}
				if facts.Grants == nil {
					return
				}
				s.publish(testFacts())
				got := asks[0]("")
				lost := strings.Contains(got, "read: ") && strings.Contains(got, "map: status") && strings.Contains(got, "reopen: ")
				if !lost && got != ended { // SQLite's own map
					t.Errorf("after the revocation: %s", got)
				}
			})
		}
	}
}
