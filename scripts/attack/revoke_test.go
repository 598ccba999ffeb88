package attack

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

var rounds = flag.Int("rounds", 0, "how often each right is ended; 0: once")

var shared stack.Shared

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(shared.Main(m))
}

// soulAtWork uses a file of its working directory in every way there is, each in
// a process of its own, until that fails, and then tells when the last that
// succeeded had begun and ended.
const soulAtWork = `
import mmap, os, struct, sys, time
where, ways = sys.argv[1], sys.argv[2].split(",")
os.chdir(where)
last = mmap.mmap(-1, 16 * len(ways))
def worker(i, way):
    r, w = os.open("data", os.O_RDONLY), -1
    if way in ("write", "append", "mapwrite"): w = os.open("data", os.O_RDWR | (os.O_APPEND if way == "append" else 0))
    m = mmap.mmap(r, 4096, mmap.MAP_SHARED, mmap.PROT_READ) if way == "map" else None
    if way == "mapwrite": m = mmap.mmap(w, 4096)
    n = 0
    while True:
        start = time.monotonic_ns()
        n += 1
        if way == "read": assert os.pread(r, 4096, 0)
        if way == "open": os.close(os.open("data", os.O_RDONLY))
        if way == "stat": os.stat("data")
        if way == "list": assert "data" in os.listdir(".")
        if way == "write": os.pwrite(w, b"%08d" % n, 8)
        if way == "append": os.write(w, b"a"); os.ftruncate(w, 8192)
        if way == "map": m[n % 4096]
        if way == "mapwrite": m[n % 4096] = n % 251; m.flush()
        if way == "create": os.close(os.open("new", os.O_CREAT | os.O_WRONLY)); os.unlink("new")
        struct.pack_into("qq", last, 16 * i, start, time.monotonic_ns())
pids = {}
for i, way in enumerate(ways):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        try: worker(i, way)
        except BaseException: os._exit(1)
    pids[pid] = (i, way)
while not all(struct.unpack_from("q", last, 16 * i)[0] for i in range(len(ways))): time.sleep(0.001)
print("ready", flush=True)
while pids:
    pid, status = os.wait()
    i, way = pids.pop(pid)
    print(way, *struct.unpack_from("qq", last, 16 * i), flush=True)
os.chdir("/")
print("left", flush=True)
`

var (
	toRead   = []string{"read", "open", "stat", "list", "map"}
	toWrite  = []string{"write", "append", "mapwrite", "create"}
	all      = slices.Concat(toRead, toWrite)
	byHandle = []string{"read", "write", "append", "map", "mapwrite"}
)

// ending is one way in which a right ends.
type ending struct {
	name string
	dir  string   // tree path in which the soul works
	ways []string // what must end
	give func(*revoker) error
	end  func(*revoker) error
	undo func(*revoker) error
}

// revoker gives a soul rights and ends them.
type revoker struct {
	*control.Client
	t   *testing.T
	s   *stack.Stack
	ctx context.Context

	grant control.Grant
	lasts time.Duration // of a grant that expires: long enough to begin work
	soul  string        // mountpoint
}

const (
	soul    = "thief"
	hold    = "/agents/web_designer/workspace/hold"
	granted = hold + "/site"
	own     = "/agents/" + soul + "/workspace/own"
	project = "/projects/vault"
)

func (r *revoker) granting(right, ttl string) func(*revoker) error {
	return func(r *revoker) (err error) {
		r.grant, err = r.Grant(r.ctx, control.GrantSpec{Agent: soul, Path: granted, Right: right, TTL: ttl})
		return err
	}
}

func access(mode string) func(*revoker) error {
	return func(r *revoker) error {
		_, err := r.SetAgent(r.ctx, soul, control.AgentChange{Access: &mode})
		return err
	}
}

func member(right string) func(*revoker) error {
	return func(r *revoker) error {
		_, err := r.SetMember(r.ctx, "vault", control.Member{Agent: soul, Right: right})
		return err
	}
}

func moving(from, to string) func(*revoker) error {
	return func(r *revoker) error {
		_, err := r.Move(r.ctx, control.Move{Agent: "gaia", From: from, To: to})
		return err
	}
}

func command(args ...string) func(*revoker) error {
	return func(r *revoker) error {
		_, err := r.s.Try(args...)
		return err
	}
}

func nothing(*revoker) error { return nil }

// expiring waits until the grant's time has come. What is measured begins then.
func expiring(r *revoker) error {
	time.Sleep(time.Until(r.grant.Expires))
	return nil
}

func revoking(r *revoker) error { return r.RevokeGrant(r.ctx, r.grant.ID) }

func endings(r *revoker) []ending {
	write, short := r.granting("write", "1h"), r.granting("write", r.lasts.String())
	return []ending{
		{"grant revoked", granted, all, write, revoking, nothing},
		{"grant expired", granted, all, short, expiring, nothing},
		{"agent read-only", own, toWrite, nothing, access("ro"), access("rw")},
		{"agent without access", own, all, nothing, access("none"), access("rw")},
		{"directory moved out", granted, all, write, moving(granted, hold+"/other"), revoking},
		{"file moved out", granted, byHandle, write, moving(granted+"/data", hold+"/data"), revoking},
		{"project left", project, all, member("write"), member(""), nothing},
		{"project read-only", project, toWrite, member("write"), member("read"), nothing},
		{"name denied", own, []string{"read", "open", "write", "append", "map", "mapwrite"}, nothing,
			command("policy", "deny-name", "data"), command("policy", "deny-name", "data", "--remove")},
	}
}

// TestRevocation: once a right has ended no way that needs it goes on, nothing
// hangs, nothing reaches the store, and who stands inside can leave.
func TestRevocation(t *testing.T) {
	if testing.Short() {
		t.Skip("fusefs has the same in short")
	}
	s := shared.Running(t)
	r := newRevoker(t, s)
	figures := map[string][]time.Duration{}
	for range max(*rounds, 1) {
		for i := range endings(r) {
			e := endings(r)[i]
			had, took, late := r.round(e)
			for ; late; had, took, late = r.round(e) { // it expired before the soul was at work
				r.lasts *= 2
				e = endings(r)[i]
			}
			figures[e.name] = append(figures[e.name], had)
			figures["  its command"] = append(figures["  its command"], took)
			if t.Failed() {
				return
			}
		}
	}
	for name, all := range figures {
		slices.Sort(all)
		t.Logf("%-22s %5d times: median %v, longest %v", name, len(all), all[len(all)/2].Round(time.Microsecond*10), all[len(all)-1].Round(time.Microsecond*10))
	}
	s.Fsck(t)
}

func newRevoker(t *testing.T, s *stack.Stack) *revoker {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	r := &revoker{Client: control.NewClient(filepath.Join(s.Dir, "run", "admin", "admin.sock"), ""), t: t, s: s, ctx: t.Context(), lasts: 3 * time.Second}
	t.Cleanup(r.Close)
	hire(t, s)
	s.Warren(t, "project", "create", "vault")
	r.soul = s.Mount(t, "--agent", soul)
	return r
}

// round lets the soul work, ends its right, and tells how long after the end was
// asked for (or, of a grant, was due) it still had something, and how long the
// command took.
//
// late: the grant had expired before the soul was at work.
func (r *revoker) round(e ending) (had, took time.Duration, late bool) {
	t := r.t
	t.Helper()
	dir := r.s.Gaia + e.dir
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(dir+"/data", make([]byte, 8192), 0o644))
	must(t, e.give(r))
	ctx, cancel := waits.Context(r.ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-c", soulAtWork, r.soul+e.dir, strings.Join(e.ways, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		if e.name == "grant expired" && time.Now().After(r.grant.Expires) {
			_ = cmd.Wait()
			return 0, 0, true
		}
		t.Fatalf("%s: the soul does not work: %q", e.name, lines.Text())
	}
	time.Sleep(20 * time.Millisecond) // at full speed
	asked := now(t)
	if err := e.end(r); err != nil {
		t.Errorf("%s: %v", e.name, err)
	}
	done := now(t)
	if e.name == "grant expired" {
		asked = done
	}
	ended := false
	for n := 0; lines.Scan(); n++ {
		var way string
		var begun, until int64
		if ended = lines.Text() == "left"; ended {
			if n != len(e.ways) {
				t.Errorf("%s: %d of %d ways ended", e.name, n, len(e.ways))
			}
		} else if _, err := fmt.Sscan(lines.Text(), &way, &begun, &until); err != nil {
			t.Errorf("%s: the soul says %q", e.name, lines.Text())
		} else {
			if begun > done && e.name != "grant expired" {
				t.Errorf("%s: a %s that began %v after the end succeeded", e.name, way, time.Duration(begun-done))
			}
			had = max(had, time.Duration(until-asked))
		}
	}
	if err := cmd.Wait(); err != nil || !ended {
		t.Errorf("%s: the soul ended with %v; it could leave: %v", e.name, err, ended)
	}
	r.still(e)
	must(t, e.undo(r))
	must(t, os.RemoveAll(r.s.Gaia+hold))
	return had, time.Duration(done - asked), false
}

// still checks that nothing comes into the store any more: not what was in
// dirty pages of maps either.
func (r *revoker) still(e ending) {
	read := func() (b []byte) {
		for _, at := range []string{e.dir + "/data", hold + "/other/data", hold + "/data"} {
			var buf bytes.Buffer
			if r.Read(r.ctx, "gaia", at, &buf) == nil {
				return buf.Bytes()
			}
		}
		return nil
	}
	before := read()
	time.Sleep(20 * time.Millisecond)
	if after := read(); !bytes.Equal(before, after) {
		r.t.Errorf("%s: the file changed afterwards", e.name)
	}
}

func now(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	return ts.Nano()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
