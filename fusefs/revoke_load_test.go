package fusefs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// soulAtWork reads and writes files of a directory in every way there is, each
// way in a process of its own, until that fails, and then tells when the last
// operation that succeeded had begun. "until" ends with a line on stdin.
const soulAtWork = `
import mmap, os, struct, sys, time
where, ways = sys.argv[1], sys.argv[2].split(",")
os.chdir(where)
last = mmap.mmap(-1, 8 * len(ways))
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
        if way == "mapwrite": m[n % 4096] = 1; m.flush()
        if way == "create": os.close(os.open("new", os.O_CREAT | os.O_WRONLY)); os.unlink("new")
        struct.pack_into("q", last, 8 * i, start)
pids = {}
for i, way in enumerate(ways):
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        try: worker(i, way)
        except BaseException: os._exit(1)
    pids[pid] = (i, way)
while not all(struct.unpack_from("q", last, 8 * i)[0] for i in range(len(ways))): time.sleep(0.001)
print("ready", flush=True)
while pids:
    pid, status = os.wait()
    i, way = pids.pop(pid)
    print(way, struct.unpack_from("q", last, 8 * i)[0], status, flush=True)
os.chdir("/")
print("left", flush=True)
`

const grantedDir = workDir + "/site"

// TestRevocationUnderLoad: once the change has returned, no operation of the soul
// that begins later reads or writes a byte by any handle, page or map; nothing
// hangs, and who stands inside can leave.
func TestRevocationUnderLoad(t *testing.T) {
	grant := func(right string) policy.Facts {
		f := testFacts()
		f.Grants = []policy.Grant{{ID: "g", Agent: "other", Path: grantedDir, Right: right, Expires: time.Now().Add(time.Hour)}}
		return f
	}
	member := func(right string) policy.Facts {
		f := testFacts()
		f.Projects = map[string]map[string]string{"site": {}}
		if right != "" {
			f.Projects["site"]["other"] = right
		}
		return f
	}
	access := func(m policy.AccessMode) policy.Facts {
		f := testFacts()
		a := f.Agents["other"]
		a.Access = m
		f.Agents["other"] = a
		return f
	}
	reads := []string{"read", "open", "stat", "list", "map"}
	writes := []string{"write", "append", "mapwrite", "create"}
	all := slices.Concat(reads, writes)
	byHandle := []string{"read", "write", "append", "map", "mapwrite"}
	for name, c := range map[string]struct {
		before policy.Facts
		dir    string
		ways   []string
		end    func(s *stack, gaia *view.View) error
	}{
		"revoked":      {grant("write"), grantedDir, all, publishing(testFacts())},
		"read only":    {grant("write"), grantedDir, writes, publishing(grant("read"))},
		"project left": {member("write"), "/projects/site", all, publishing(member(""))},
		"member reads": {member("write"), "/projects/site", writes, publishing(member("read"))},
		"agent none":   {testFacts(), "/agents/other/workspace", all, publishing(access(policy.NoAccess))},
		"agent ro":     {testFacts(), "/agents/other/workspace", writes, publishing(access(policy.ReadOnly))},
		"moved out": {grant("write"), grantedDir, all, func(_ *stack, gaia *view.View) error {
			return renamed(gaia, grantedDir, workDir+"/elsewhere")
		}},
		"file moved out": {grant("write"), grantedDir, byHandle, func(_ *stack, gaia *view.View) error {
			return renamed(gaia, grantedDir+"/data", workDir+"/data")
		}},
		"file exchanged out": {grant("write"), grantedDir, byHandle, func(_ *stack, gaia *view.View) error {
			_, err := gaia.WriteFile(workDir+"/data", []byte("other"), 0o644)
			if err != nil {
				return err
			}
			return moved(gaia, grantedDir+"/data", workDir+"/data", view.Exchange)
		}},
		"directory above moved": {grant("write"), grantedDir, all, func(_ *stack, gaia *view.View) error {
			return renamed(gaia, workDir+"/site", workDir+"/site2")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t, memDriver)
			s.watch(3 * time.Minute)
			s.publish(c.before)
			if _, ok := c.before.Projects["site"]; ok {
				_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: view.Label{Kind: view.KindProject, Owner: "site"}})
				must(t, err)
			}
			gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
			must(t, err)
			must(t, gaia.MkdirAll(c.dir, 0o755))
			_, err = gaia.WriteFile(c.dir+"/data", make([]byte, 8192), 0o644)
			must(t, err)
			soul := s.mounted("other", Config{Agent: "other", Root: "/"})
			s.work(soul.Dir()+c.dir, c.ways, func() error { return c.end(s, gaia) })
		})
	}
}

func publishing(f policy.Facts) func(*stack, *view.View) error {
	return func(s *stack, _ *view.View) error { return s.space.Publish(context.Background(), f) }
}

func renamed(v *view.View, from, to string) error { return moved(v, from, to, 0) }

func moved(v *view.View, from, to string, flags view.RenameFlags) error {
	dir, name, err := v.ResolveParent(from)
	if err != nil {
		return err
	}
	toDir, toName, err := v.ResolveParent(to)
	if err != nil {
		return err
	}
	return v.Rename(nil, dir.Node, name, toDir.Node, toName, flags)
}

// work lets a soul work in dir, calls end, and checks that nothing it began later
// succeeded.
func (s *stack) work(dir string, ways []string, end func() error) {
	t := s.t
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	script := filepath.Join(s.dir, "soul.py")
	must(t, os.WriteFile(script, []byte(soulAtWork), 0o644))
	ctx, cancel := waits.Context(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script, dir, strings.Join(ways, ","))
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // the ways as well
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the soul does not work: %q, %v", lines.Text(), lines.Err())
	}
	time.Sleep(50 * time.Millisecond) // at full speed
	if err := end(); err != nil {
		t.Error(err)
	}
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts))
	ended, left, told := ts.Nano(), false, 0
	for lines.Scan() {
		var way string
		var last int64
		var status int
		if lines.Text() == "left" {
			left = true
		} else if _, err := fmt.Sscan(lines.Text(), &way, &last, &status); err != nil {
			t.Errorf("the soul says %q", lines.Text())
		} else if told++; last > ended {
			t.Errorf("%s: one that began %v after the right had ended succeeded", way, time.Duration(last-ended))
		}
	}
	if err := cmd.Wait(); err != nil || !left || told != len(ways) {
		t.Errorf("the soul ended with %v after %d of %d ways; left: %v", err, told, len(ways), left)
	}
}
