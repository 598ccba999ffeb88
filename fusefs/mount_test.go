package fusefs

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

func TestMountErrors(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	path := func(name string) string { return filepath.Join(s.dir, name) }
	must(t, os.Mkdir(path("empty"), 0o755))
	must(t, os.MkdirAll(path("full/x"), 0o755))
	must(t, os.WriteFile(path("file"), nil, 0o644))
	must(t, os.Symlink("empty", path("link")))
	live := s.mounted("live", Config{})
	must(t, os.Mkdir(live.Dir()+"/inside", 0o755))
	for _, c := range []struct {
		name string
		cfg  Config
		kind backend.Kind
		says string
	}{
		{"missing", Config{Agent: "gaia", Dir: path("nothing")}, backend.NotFound, "missing"},
		{"missing parent", Config{Agent: "gaia", Dir: path("no/thing")}, backend.NotFound, ""},
		{"file", Config{Agent: "gaia", Dir: path("file")}, backend.NotDir, "directory"},
		{"link", Config{Agent: "gaia", Dir: path("link")}, backend.NotDir, "symbolic link"},
		{"not empty", Config{Agent: "gaia", Dir: path("full")}, backend.NotEmpty, "empty"},
		{"mounted", Config{Agent: "gaia", Dir: live.Dir()}, backend.Busy, "already"},
		{"inside", Config{Agent: "gaia", Dir: live.Dir() + "/inside"}, backend.Invalid, "inside"},
		{"agent", Config{Agent: "nobody", Dir: path("empty")}, backend.NotFound, "no such agent"},
		{"root", Config{Agent: "web", Root: "/agents/other", Dir: path("empty")}, backend.NotFound, "tree path"},
		{"root that is no tree path", Config{Agent: "web", Root: "agents/web", Dir: path("empty")}, backend.Invalid, "tree path"},
		{"transport", Config{Agent: "gaia", Dir: path("empty"), Transport: "pigeon"}, backend.Invalid, "no such transport"},
	} {
		m, err := s.hub.Mount(context.Background(), c.cfg)
		if err == nil {
			t.Errorf("%s: mounted %s", c.name, m.Dir())
			continue
		}
		if backend.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%v), want %v, …%s…", c.name, err, backend.KindOf(err), c.kind, c.says)
		}
	}
	if e, ok := topMount(path("empty")); ok {
		t.Errorf("a failed mount stays: %+v", e)
	}
	if n := len(*s.hub.kernels.Load()); n != 1 {
		t.Errorf("%d kernels, want 1", n)
	}
}

// TestUnmountedBySomebody: an umount(8) is noticed, and what the mount held goes.
func TestUnmountedBySomebody(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	must(t, os.WriteFile(m.Dir()+"/f", []byte("x"), 0o644))
	must(t, unix.Unmount(m.Dir(), 0))
	select {
	case <-m.Done():
	case <-waits.After(t, time.Minute):
		t.Fatal("not noticed")
	}
	if !m.Taken() {
		t.Error("it is not known that it was unmounted")
	}
	if len(s.hub.Mounts()) != 0 {
		t.Error("still listed")
	}
	s.unmount(m)
	again := s.mounted("m", Config{})
	if b, err := os.ReadFile(again.Dir() + "/f"); string(b) != "x" {
		t.Errorf("after mounting again: %q %v", b, err)
	}
}

// TestConnectionAborted: the dead mountpoint is cleared and can be used again;
// open and unlinked files of it are let go.
func TestConnectionAborted(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	f, err := os.Create(m.Dir() + "/f")
	must(t, err)
	defer f.Close()
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	must(t, os.Remove(m.Dir()+"/f"))
	must(t, unix.Unmount(m.Dir(), unix.MNT_FORCE|unix.MNT_DETACH))
	m.Wait()
	if _, err := f.Write([]byte("x")); !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ECONNABORTED) {
		t.Errorf("write after the end: %v", err)
	}
	if stillMounted(m.Dir(), m.minor) {
		t.Error("the dead mount stays")
	}
	if !s.hub.flock.Empty() {
		t.Error("its lock stays")
	}
	s.mounted("m", Config{})
}

// TestDeadMountpointIsCleared: what another daemon left ("Transport endpoint is
// not connected") is cleared by the next mount.
func TestDeadMountpointIsCleared(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := filepath.Join(s.dir, "m")
	must(t, os.Mkdir(dir, 0o755))
	call := mountCall{dir: dir, source: "warren:gone"}
	fd, err := call.do()
	must(t, err)
	must(t, unix.Close(fd)) // as when a daemon is killed
	if _, err := os.Stat(dir); !errors.Is(err, unix.ENOTCONN) {
		t.Fatalf("not dead: %v", err)
	}
	m := s.mounted("", Config{Dir: dir})
	must(t, os.WriteFile(m.Dir()+"/f", nil, 0o644))
}

// TestDeadMountOfAnotherUserIsCleared: the kernel does not tell root that it is
// dead. One that is alive is left alone.
func TestDeadMountOfAnotherUserIsCleared(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := filepath.Join(s.dir, "private", "m")
	must(t, os.MkdirAll(dir, 0o700))
	for range 2 {
		call := mountCall{dir: dir, source: "warren:gone", uid: 4321, gid: 4322}
		fd, err := call.do()
		must(t, err)
		must(t, unix.Close(fd))
	}
	m := s.mounted("", Config{Dir: dir, UID: 4321, GID: 4322})
	must(t, ClearDead(m.Dir()))
	if !stillMounted(m.Dir(), m.minor) {
		t.Error("a live mount was cleared")
	}
}

func TestBusyUnmount(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	f, err := os.Create(m.Dir() + "/f")
	must(t, err)
	defer f.Close()
	err = m.Unmount(context.Background(), false)
	if backend.KindOf(err) != backend.Busy {
		t.Fatalf("unmount of a mount in use: %v", err)
	}
	must(t, m.Unmount(context.Background(), true))
	if _, err := f.Write([]byte("x")); err == nil {
		t.Error("write after the end")
	}
}

func TestMountOptions(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	s.mount("other", Config{UID: 1234, GID: 2345, AllowOther: true})
	ro := s.mount("ro", Config{Access: view.ReadOnly})
	b, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	for name, want := range map[string][]string{
		"/other": {"nosuid,nodev", "user_id=1234,group_id=2345", "default_permissions", "allow_other", "fuse.warren", "warren:gaia"},
		"/ro":    {" ro,nosuid,nodev", "user_id=0"},
	} {
		for _, line := range strings.Split(string(b), "\n") {
			if !strings.Contains(line, s.dir+name+" ") {
				continue
			}
			for _, w := range want {
				if !strings.Contains(line, w) {
					t.Errorf("%s: no %q in %q", name, w, line)
				}
			}
		}
	}
	if err := os.WriteFile(ro+"/f", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write in a read-only mount: %v", err)
	}
}

func TestControlFiles(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("web", Config{Agent: "web", Root: "/", UID: 1234, GID: 1234, AllowOther: true})
	b, err := os.ReadFile(dir + "/.warren/whoami")
	must(t, err)
	want := `{"agent":"web","role":"soul","user":"ada","access":"rw","root":"/","uid":1234}` + "\n"
	if string(b) != want {
		t.Errorf("whoami %q, want %q", b, want)
	}
	fi, err := os.Stat(dir + "/.warren/whoami")
	must(t, err)
	if fi.Size() != int64(len(want)) || fi.Mode() != 0o444 {
		t.Errorf("whoami is %v, %d bytes", fi.Mode(), fi.Size())
	}
	top, err := listing(dir)
	must(t, err)
	for _, n := range top {
		if n == ControlDir {
			t.Error("the control directory is listed")
		}
	}
	if got, err := listing(dir + "/.warren"); err != nil || strings.Join(got, " ") != "denials explain quota whoami" {
		t.Errorf("control files: %v, %v", got, err)
	}
	if _, err := os.Stat(dir + "/agents/web/workspace/.warren"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a control directory below the root: %v", err)
	}
	for what, err := range map[string]error{
		"mkdir":  os.Mkdir(dir+"/.warren", 0o755),
		"rmdir":  unix.Rmdir(dir + "/.warren"),
		"create": os.WriteFile(dir+"/.warren/new", nil, 0o644),
		"write":  os.WriteFile(dir+"/.warren/whoami", []byte("x"), 0o644),
		"unlink": os.Remove(dir + "/.warren/whoami"),
		"rename": os.Rename(dir+"/.warren/whoami", dir+"/agents/web/workspace/w"),
		"link":   os.Link(dir+"/.warren/whoami", dir+"/agents/web/workspace/w"),
		"chmod":  os.Chmod(dir+"/.warren/whoami", 0o777),
	} {
		if err == nil {
			t.Errorf("%s of control files is let through", what)
		}
	}
}

func TestDenials(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("web", Config{Agent: "web", Root: "/"})
	for range 3 {
		if err := os.WriteFile(dir+"/agents/web/workspace/.env", []byte("x"), 0o600); !errors.Is(err, syscall.EACCES) {
			t.Fatalf("a denied name: %v", err)
		}
	}
	b, err := os.ReadFile(dir + "/.warren/denials")
	must(t, err)
	var d struct {
		Time  time.Time
		Op    string
		Path  string
		Count uint64
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &d))
	if d.Path != "/agents/web/workspace/.env" || d.Op != "create" || d.Count < 3 || d.Time.IsZero() {
		t.Errorf("denials: %s", b)
	}
}

// TestControlFileWrite: a row of the table that can be written takes its content
// at the close that follows it, and a shell's early close does nothing.
func TestControlFileWrite(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	var got []string
	dir := s.mount("m", Config{Control: []ControlFile{{
		Name: "note", Mode: 0o644,
		Read: func(*view.View) ([]byte, error) { return []byte(strings.Join(got, "|")), nil },
		Write: func(_ *view.View, b []byte) error {
			if string(b) == "bad\n" {
				return backend.Invalid
			}
			got = append(got, strings.TrimSpace(string(b)))
			return nil
		},
	}}})
	out := s.shell(dir, dir, `echo one > $M/.warren/note; printf two | dd of=$M/.warren/note status=none; cat $M/.warren/note`)
	if out != "one|two" {
		t.Errorf("content %q", out)
	}
	f, err := os.OpenFile(dir+"/.warren/note", os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	_, err = f.WriteString("bad\n")
	must(t, err)
	if err := f.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("close after an impossible value: %v", err)
	}
}

func TestViewWithoutAccess(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("m", Config{Agent: "web", Root: "/", Access: view.None})
	if got, err := listing(dir); err != nil || len(got) > 0 {
		t.Errorf("listing: %v %v", got, err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o555 {
		t.Errorf("root: %v %v", fi, err)
	}
	if _, err := os.Stat(dir + "/agents"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("agents: %v", err)
	}
	if b, err := os.ReadFile(dir + "/.warren/whoami"); err != nil || !strings.Contains(string(b), `"access":"none"`) {
		t.Errorf("whoami: %s %v", b, err)
	}
	if got, err := listing(dir + "/.warren"); err != nil || strings.Join(got, " ") != "whoami" {
		t.Errorf("control files: %v %v", got, err)
	}
}

// TestControlDirShadows: what is called like the control directory at a mount's
// root cannot be reached there, and is not listed. Another mount has it.
func TestControlDirShadows(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	all, web := s.mount("all", Config{Root: "/"}), s.mount("web", Config{})
	must(t, os.Mkdir(all+workDir+"/"+ControlDir, 0o755))
	must(t, os.WriteFile(all+workDir+"/"+ControlDir+"/f", nil, 0o644))
	must(t, os.WriteFile(all+workDir+"/g", nil, 0o644))
	if list, err := listing(web); err != nil || strings.Join(list, " ") != "g" {
		t.Errorf("at the root: %v, %v", list, err)
	}
	if list, err := listing(all + workDir); err != nil || strings.Join(list, " ") != ControlDir+" g" {
		t.Errorf("below the root: %v, %v", list, err)
	}
	if list, err := listing(web + "/" + ControlDir); err != nil || strings.Join(list, " ") != "denials explain quota whoami" {
		t.Errorf("control files: %v, %v", list, err)
	}
}

// TestRevocation: what a view loses is gone from its kernel at once: names,
// cached data, and maps; what stays is there, a working directory too.
func TestRevocation(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	facts := testFacts()
	facts.Projects = map[string]map[string]string{"site": {"web": "write"}}
	must(t, s.space.Publish(context.Background(), facts))
	_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: view.Label{Kind: view.KindProject, Owner: "site"}})
	must(t, err)
	web := s.mount("web", Config{Agent: "web", Root: "/"})
	gaia := s.mount("gaia", Config{Root: "/"})
	if err := os.WriteFile(gaia+"/projects/site/f", []byte("secret"), 0o644); err != nil {
		d, _ := os.ReadFile(gaia + "/.warren/denials")
		t.Fatalf("%v %s", err, d)
	}
	must(t, os.Mkdir(web+"/agents/web/workspace/cwd", 0o755))
	f, err := os.Open(web + "/projects/site/f")
	must(t, err)
	defer f.Close()
	if b, err := os.ReadFile(web + "/projects/site/f"); string(b) != "secret" {
		t.Fatalf("before: %q %v", b, err)
	}
	// A shell that holds a map of the file.
	holder := exec.Command("python3", "-c", `
import mmap, os, sys
m = mmap.mmap(os.open(sys.argv[1], os.O_RDONLY), 6, mmap.MAP_SHARED, mmap.PROT_READ)
assert m[:] == b"secret"
print("ready", flush=True); sys.stdin.readline()
print(m[:], flush=True)`, web+"/projects/site/f")
	in, err := holder.StdinPipe()
	must(t, err)
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	_, err = out.Read(make([]byte, 6))
	must(t, err)

	left := testFacts()
	left.Projects = map[string]map[string]string{"site": {}}
	must(t, s.space.Publish(context.Background(), left))
	if _, err := os.Stat(web + "/projects/site/f"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("by name: %v", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != syscall.ENOENT {
		t.Errorf("a lock by an open file: %v", err)
	}
	if list, err := listing(web + "/projects"); err == nil && len(list) > 0 {
		t.Errorf("listed: %v", list)
	}
	if n, err := f.ReadAt(make([]byte, 6), 0); err == nil {
		t.Errorf("an open file still gives %d bytes", n)
	}
	_, err = in.Write([]byte("\n"))
	must(t, err)
	if err := holder.Wait(); err == nil {
		t.Error("a map still gives the data")
	}
	if b, err := os.ReadFile(gaia + "/projects/site/f"); string(b) != "secret" {
		t.Errorf("gaia: %q %v", b, err)
	}

	must(t, s.space.Publish(context.Background(), facts))
	if b, err := os.ReadFile(web + "/projects/site/f"); string(b) != "secret" {
		t.Errorf("given back: %q %v", b, err)
	}
	access := facts
	access.Agents = map[string]policy.Agent{}
	for k, a := range facts.Agents {
		if k == "web" {
			a.Access = policy.ReadOnly
		}
		access.Agents[k] = a
	}
	must(t, s.space.Publish(context.Background(), access))
	if err := os.WriteFile(web+"/agents/web/workspace/cwd/x", nil, 0o644); !errors.Is(err, syscall.EACCES) {
		t.Errorf("write of a read-only agent: %v", err)
	}
	if fi, err := os.Stat(web + "/agents/web/workspace/cwd"); err != nil || fi.Mode().Perm()&0o222 != 0 {
		t.Errorf("modes shown to a read-only agent: %v %v", fi, err)
	}
}

// TestMountByHelper: as a daemon that is not root mounts.
func TestMountByHelper(t *testing.T) {
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Skip("no fusermount3")
	}
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	s.hub.tests.helper = true
	m := s.mounted("m", Config{})
	must(t, os.WriteFile(m.Dir()+"/f", []byte("x"), 0o644))
	if e, ok := topMount(m.Dir()); !ok || e.Type != fsType {
		t.Errorf("mounted as %+v", e)
	}
	must(t, fusermountU(t.Context(), "-u", m.Dir()))
	m.Wait()
	_, err := s.hub.Mount(context.Background(), Config{Agent: "gaia", Dir: m.Dir(), UID: 7})
	if backend.KindOf(err) != backend.NotPermitted {
		t.Errorf("for another user: %v", err)
	}
}

// TestOldKernel: without INC_EPOCH nothing hangs, and what was missed is seen
// within the short timeouts.
func TestOldKernel(t *testing.T) {
	s := newStack(t, memDriver)
	s.hub.tests.oldKernel = true
	d := hammerTime(t)
	s.watch(d + time.Minute)
	a, b := s.mounted("a", Config{}), s.mounted("b", Config{})
	if !a.Stats().ShortTimeouts {
		t.Error("status does not tell")
	}
	churn := func(dir string, w int) func(int) error {
		return func(i int) error {
			f := filepath.Join(dir, "f"+string(rune('a'+w)))
			err := errors.Join(os.WriteFile(f, []byte("x"), 0o644), os.Rename(f, f+".moved"), os.Remove(f+".moved"))
			if i%10 == 0 {
				_, lerr := listing(dir)
				err = errors.Join(err, lerr)
			}
			return err
		}
	}
	s.logStats(until(t, d, churn(a.Dir(), 0), churn(b.Dir(), 1), churn(a.Dir(), 2), churn(b.Dir(), 3)))
	must(t, os.WriteFile(a.Dir()+"/last", []byte("x"), 0o644))
	time.Sleep(1100 * time.Millisecond)
	for _, m := range []*Mount{a, b} {
		if got, err := listing(m.Dir()); err != nil || strings.Join(got, " ") != "last" {
			t.Errorf("%s: %v %v", m.Dir(), got, err)
		}
		if _, err := os.Stat(m.Dir() + "/last"); err != nil {
			t.Error(err)
		}
	}
}
