package escapetest

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// The agents: the attacker is the stack's soul.
const (
	attacker = "web_designer"
	plainUID = 4321 // of the host, whose mount it may be
	otherUID = 4322 // of the host, whose mount it is not
)

// world is a daemon with an attacker and a victim, and what there is to reach.
type world struct {
	s       *stack.Stack
	daemon  int
	secret  string
	victim  string // mountpoint of the victim's view
	doomed  string // mountpoint of a view whose connection may be aborted
	tokens  map[string]string
	base    map[string]any // what attempts.py is told wherever it runs
	stolen  *os.File       // /dev/fuse of a mount that the daemon serves
	gaia    *os.File       // Gaia's mountpoint
	attempt string         // attempts.py, where all may read it
}

// dir is a path below the stack's directory.
func (w *world) dir(name string) string { return filepath.Join(w.s.Dir, name) }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{s: stack.ForTest(t, stack.Options{}), tokens: map[string]string{}}
	for d := w.s.Dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o755)) // others stand in it
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	w.secret = hex.EncodeToString(random[:])
	var status struct{ PID int }
	must(t, json.Unmarshal([]byte(w.s.Warren(t, "status", "--json")), &status))
	w.daemon = status.PID
	w.s.Warren(t, "user", "add", "bob")
	w.s.Warren(t, "agent", "add", "victim", "--user", "bob")
	for _, name := range []string{"victim", "doomed", "show", "show/tmp"} {
		must(t, os.Mkdir(w.dir(name), 0o755))
	}
	w.victim, w.doomed = w.dir("victim"), w.dir("doomed")
	w.s.Warren(t, "mount", "--agent", "victim", w.victim)
	w.s.Warren(t, "mount", "--agent", "victim", w.doomed)
	secret := "/agents/victim/workspace/secret"
	must(t, os.WriteFile(w.victim+secret, []byte(w.secret), 0o666))
	must(t, os.WriteFile(w.dir("show/roots"), []byte(w.secret), 0o600))
	for _, name := range []string{attacker, "victim", "revoked"} {
		of := strings.Replace(name, "revoked", attacker, 1)
		w.tokens[name] = strings.TrimSpace(w.s.Warren(t, "token", "create", of))
	}
	w.s.Warren(t, "token", "revoke", idOf(w.tokens["revoked"]))
	w.attempt = w.dir("show/attempts.py")
	text, err := os.ReadFile("testdata/attempts.py")
	must(t, err)
	must(t, os.WriteFile(w.attempt, text, 0o644))
	w.plant(t)
	w.gaia, err = os.Open(w.s.Gaia)
	must(t, err)
	t.Cleanup(func() { _ = w.gaia.Close() })
	_, err = os.ReadFile(w.s.Gaia + secret) // Gaia's kernel knows the node
	must(t, err)
	w.base = map[string]any{
		"secret": w.secret, "daemon": w.daemon, "admin": w.dir("run/admin/admin.sock"),
		"hunt":   []string{w.s.Gaia + secret, w.victim + secret, w.dir("show/roots"), w.dir("run/admin/admin.sock")},
		"beside": filepath.Base(w.s.Dir), "handle": handle(t, w.dir("show/roots")), "node_handle": handle(t, w.s.Gaia+secret),
		"connection": connection(t, w.doomed), "fusectl": "", "covers": nil, "only": nil,
		"roots_own": w.dir("show/roots"), "plain_uid": plainUID, "other_uid": otherUID,
	}
	w.steal(t)
	return w
}

// plant puts a set-uid program of root's and a device into the attacker's workspace,
// as whoever is root and may enter a mount of it can.
func (w *world) plant(t *testing.T) {
	t.Helper()
	dir := w.s.Mount(t, "--agent", attacker, "--uid", strconv.Itoa(plainUID), "--gid", strconv.Itoa(plainUID), "--allow-other")
	work := filepath.Join(dir, "agents", attacker, "workspace")
	must(t, os.Chmod(work, 0o777))
	cat, err := os.ReadFile("/usr/bin/cat")
	must(t, err)
	must(t, os.WriteFile(work+"/cat", cat, 0o755))
	must(t, os.Chmod(work+"/cat", 0o755|os.ModeSetuid))
	must(t, unix.Mknod(work+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	must(t, os.Chmod(work+"/zero", 0o666))
}

// steal takes a descriptor of /dev/fuse out of the daemon.
func (w *world) steal(t *testing.T) {
	t.Helper()
	pidfd, err := unix.PidfdOpen(w.daemon, 0)
	must(t, err)
	defer unix.Close(pidfd)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.daemon))
	must(t, err)
	for _, e := range fds {
		if name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", w.daemon, e.Name())); name != "/dev/fuse" {
			continue
		}
		n, err := strconv.Atoi(e.Name())
		must(t, err)
		fd, err := unix.PidfdGetfd(pidfd, n, 0)
		must(t, err)
		w.stolen = os.NewFile(uintptr(fd), "stolen")
		t.Cleanup(func() { _ = w.stolen.Close() })
		return
	}
	t.Fatal("the daemon has no /dev/fuse")
}

// view is a directory for one confinement, with mounts of the attacker's view for uid
// in it: view, and ro.
func (w *world) view(t *testing.T, name string, uid int) string {
	t.Helper()
	above := w.dir(name)
	must(t, os.Mkdir(above, 0o755))
	for _, m := range []string{"view", "ro"} {
		dir := filepath.Join(above, m)
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chown(dir, uid, uid))
		id := strconv.Itoa(uid)
		w.s.Warren(t, "mount", "--agent", attacker, "--uid", id, "--gid", id, "--access", map[string]string{"view": "rw", "ro": "ro"}[m], dir)
	}
	return above
}

// config writes what attempts.py is told: the base, with more over it.
func (w *world) config(t *testing.T, name string, more map[string]any) string {
	t.Helper()
	all := map[string]any{}
	for _, m := range []map[string]any{w.base, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	b, err := json.Marshal(all)
	must(t, err)
	file := w.dir("show/" + name + ".json")
	must(t, os.WriteFile(file, b, 0o644))
	return file
}

// run runs a command with two descriptors, 8 and 9, and gives what it printed.
func (w *world) run(t *testing.T, fuse, dir *os.File, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := waits.Context(t.Context(), 3*time.Minute)
	defer cancel()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(w.s.Command().Env, env...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{null, null, null, null, null, fuse, dir} // 3 to 9
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, said.String())
	}
	return string(out)
}

// handle is the file handle of name as open_by_handle_at(2) takes it.
func handle(t *testing.T, name string) string {
	t.Helper()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, name, 0)
	must(t, err)
	b := binary.NativeEndian.AppendUint32(nil, uint32(h.Size()))
	b = binary.NativeEndian.AppendUint32(b, uint32(h.Type()))
	return hex.EncodeToString(append(b, h.Bytes()...))
}

// connection is the number of the FUSE connection of a mount.
func connection(t *testing.T, dir string) uint32 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(dir, &st))
	return unix.Minor(st.Dev)
}

// idOf is the id in a token's text.
func idOf(token string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(token, "warren_"), "_")
	return id
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
