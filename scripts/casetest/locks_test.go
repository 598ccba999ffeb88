package casetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// locks is Python that the scripts below begin with. A child is a process that
// does what it is told, a line at a time, and answers with a line.
const locks = `
import errno, fcntl, os, select, signal, subprocess, sys, time
child_source = '''
import errno, fcntl, os, signal, struct, sys
files = {}
def lock(name, kind, start=0, length=0, wait=False):
    try: fcntl.lockf(files[name], kind | (0 if wait or kind == fcntl.LOCK_UN else fcntl.LOCK_NB), length, start)
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
def alarmed(seconds, fn):
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(InterruptedError(errno.EINTR, "")))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try: return fn()
    except InterruptedError: return "EINTR"
    finally: signal.setitimer(signal.ITIMER_REAL, 0)
for line in sys.stdin:
    print(eval(line), flush=True)
'''
class Child:
    def __init__(self): self.p = subprocess.Popen([sys.executable, "-c", child_source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    def ask(self, what): print(what, file=self.p.stdin, flush=True)
    def answer(self): return self.p.stdout.readline().strip()
    def do(self, what): self.ask(what); return self.answer()
    def open(self, name, path, flags=os.O_RDWR): self.do(f"files.update({name}=os.open({path!r}, {flags}))")
    def end(self): self.p.kill(); self.p.wait()
EX, SH, UN = fcntl.LOCK_EX, fcntl.LOCK_SH, fcntl.LOCK_UN
M, N = os.environ["M"], os.environ["N"]
for name in "fg": open(f"{M}/{name}", "w").write("x" * 100)
def soon(fn, want):
    end = time.time() + 60
    while (got := fn()) != want and time.time() < end: time.sleep(0.01)
    is_(got, want)
def is_(got, want):
    if got != want: raise SystemExit(f"got {got}, want {want}")
`

// TestLocksOfProcesses: record locks conflict between processes and mounts, are
// waited for, interrupted, seen as deadlocks, kept by exec, and dropped by close,
// by another descriptor's close, and by death.
func TestLocksOfProcesses(t *testing.T) {
	shell(t, `python3 - <<'EOP'`+locks+`
a, b = Child(), Child()
a.open("f", f"{M}/f"); b.open("f", f"{N}/f"); a.open("g", f"{M}/g"); b.open("g", f"{N}/g")
is_(a.do(f"lock('f', {EX}, 10, 10)"), "ok")
is_(b.do(f"lock('f', {SH}, 19, 1)"), "EAGAIN"); is_(b.do(f"lock('f', {EX}, 20, 5)"), "ok")
is_(a.do(f"lock('f', {SH}, 10, 5)"), "ok"); is_(b.do(f"lock('f', {SH}, 0, 15)"), "ok"); is_(b.do(f"lock('f', {EX}, 0, 11)"), "EAGAIN")
is_(b.do(f"lock('f', {UN})"), "ok")
# Waiting, and a signal in between.
is_(b.do(f"alarmed(0.3, lambda: lock('f', {EX}, 0, 0, True))"), "EINTR")
b.ask(f"lock('f', {EX}, 0, 0, True)"); time.sleep(0.2); is_(a.do(f"lock('f', {UN})"), "ok"); is_(b.answer(), "ok")
is_(b.do(f"lock('f', {UN})"), "ok")
# A circle.
is_(a.do(f"lock('f', {EX})"), "ok"); is_(b.do(f"lock('g', {EX})"), "ok")
b.ask(f"lock('f', {EX}, 0, 0, True)"); a.ask(f"lock('g', {EX}, 0, 0, True)")
ready = select.select([a.p.stdout, b.p.stdout], [], [], 60)[0]
first, other, mine = (a, b, "f") if ready == [a.p.stdout] else (b, a, "g")
is_(first.answer(), errno.errorcode[errno.EDEADLK]); is_(first.do(f"lock('{mine}', {UN})"), "ok"); is_(other.answer(), "ok")
for x in (a, b): is_(x.do(f"[lock(x, {UN}) for x in 'fg'][0]"), "ok")
# Any close of the file drops a process's locks on it.
is_(a.do(f"lock('f', {EX})"), "ok"); a.open("again", f"{M}/f"); a.do("os.close(files['again'])")
is_(b.do(f"lock('f', {EX})"), "ok"); is_(b.do(f"lock('f', {UN})"), "ok")
# exec keeps them, a forked child has none of them.
is_(a.do(f"lock('f', {EX})"), "ok")
is_(a.do(f"""os.waitpid(os.fork() or os._exit(lock('f', {EX}) == 'ok'), 0)[1]"""), "0")
is_(b.do(f"lock('f', {EX})"), "EAGAIN")
a.do("os.set_inheritable(files['f'], True)")
a.ask("""os.execvp(sys.executable, [sys.executable, "-c", "import sys; print('here', flush=True); sys.stdin.read()"])"""); is_(a.answer(), "here")
is_(b.do(f"lock('f', {EX})"), "EAGAIN")
# Death drops them, and what it was waiting for.
b.ask(f"lock('f', {EX}, 0, 0, True)"); time.sleep(0.1); a.end(); is_(b.answer(), "ok")
c, d = Child(), Child(); c.open("f", f"{M}/f"); d.open("f", f"{N}/f")
c.ask(f"lock('f', {EX}, 0, 0, True)"); time.sleep(0.1); c.end(); b.end()
soon(lambda: d.do(f"lock('f', {EX})"), "ok"); d.end()
EOP
`)
}

// TestLocksOfOpenFiles: flock, which belongs to an open file: forked children share
// it, and the last close drops it.
func TestLocksOfOpenFiles(t *testing.T) {
	shell(t, `python3 - <<'EOP'`+locks+`
a, b = os.open(f"{M}/f", os.O_RDWR), os.open(f"{N}/f", os.O_RDONLY)
def flock(fd, how):
    try: fcntl.flock(fd, how | fcntl.LOCK_NB)
    except OSError as e: return errno.errorcode[e.errno]
    return "ok"
is_(flock(a, EX), "ok"); is_(flock(b, SH), "EAGAIN"); is_(flock(a, SH), "ok"); is_(flock(b, SH), "ok"); is_(flock(a, EX), "EAGAIN")
is_(flock(b, UN), "ok"); soon(lambda: flock(a, EX), "ok")
r, w = os.pipe()
if not (pid := os.fork()):
    os.close(w); os.read(r, 1); os._exit(0)
os.close(r); os.close(a)
is_(flock(b, EX), "EAGAIN")  # the child has the open file still
os.close(w); os.waitpid(pid, 0); soon(lambda: flock(b, EX), "ok")
# A record lock and an flock do not see each other.
c = Child(); c.open("f", f"{M}/f"); is_(c.do(f"lock('f', {EX})"), "ok"); is_(flock(b, EX), "ok"); c.end()
EOP
`)
}

// TestLocksEndWithTheDaemon: a new daemon knows no locks of the one before, and who
// held one is told when it touches the file.
func TestLocksEndWithTheDaemon(t *testing.T) {
	s := shared.Running(t)
	m, n := filepath.Join(s.Gaia, workspace, "locks"), filepath.Join(s.Soul, workspace, "locks")
	if err := os.Mkdir(m, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(m, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	env := []string{"M=" + m, "N=" + n}
	s.Script(t, stack.Script{Dir: s.Dir, Env: env, Text: `flock -n "$M/f" true; (flock 9; fails flock -n "$N/f" true) 9>"$M/f"`})
	holder := exec.Command("flock", f.Name(), "sleep", "60")
	holder.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-holder.Process.Pid, syscall.SIGKILL); _ = holder.Wait() }()
	s.Script(t, stack.Script{Dir: s.Dir, Env: env, Text: `for i in $(seq 600); do flock -n "$N/f" true || exit 0; sleep 0.1; done; exit 1`})
	if err := s.Kill(m, n); err != nil {
		t.Fatal(err)
	}
	s.Script(t, stack.Script{Dir: s.Dir, Env: env, Text: `flock -n "$M/f" true; flock -n "$N/f" true`})
	if _, err := f.WriteString("x"); err == nil {
		t.Error("a file that was open in the mount of a daemon that is gone was written to")
	}
}
