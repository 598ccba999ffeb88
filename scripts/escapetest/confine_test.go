package escapetest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// confinement is one way to keep an attacker to its view.
type confinement struct {
	name string
	run  func(*testing.T, *world, confinement) map[string]outcome
	skip map[string]string // attempts that it does not stand against, and why
	uid  int               // of the host
	caps []string          // that it has
}

// dockerCaps are what Docker gives to a container's root.
var dockerCaps = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}

// python is not one of somebody's home.
const python = "/usr/bin/python3"

// given is why a descriptor that was handed to a process counts for it.
const given = "it is the mount's own uid, and was given the descriptor"

var confinements = []confinement{
	{name: "warren run", run: warrenRun},
	{name: "a uid of its own", run: ownUID, uid: plainUID},
	{name: "bubblewrap rootful", run: bound, caps: dockerCaps, skip: map[string]string{"an_inherited_descriptor": given}},
	{name: "bubblewrap rootless", run: bound, uid: plainUID},
	{name: "runc rootful", run: runc, caps: dockerCaps, skip: map[string]string{"an_inherited_descriptor": given}},
	{name: "runc rootless", run: runc, uid: plainUID, skip: map[string]string{"an_inherited_descriptor": runcLooks}},
	{name: "mounted inside rootful", run: inside, caps: append([]string{"CAP_SYS_ADMIN"}, dockerCaps...), skip: map[string]string{
		"an_inherited_descriptor":   given,
		"abort_anothers_connection": "CAP_SYS_ADMIN of the host, not of a user namespace, can end any mount: docs/containers.md says so"}},
	{name: "mounted inside rootless", run: inside, uid: plainUID, caps: []string{"ALL"}},
}

// told is what the attacker knows in a container whose view is at above/view.
func (w *world) told(c confinement, sock, above string) map[string]any {
	work := filepath.Join(above, "view/agents", attacker, "workspace")
	return map[string]any{
		"me": attacker, "sock": sock, "verbs": sock, "token": w.tokens[attacker], "no_token": "", "revoked": w.tokens["revoked"],
		"id_of_another": idOf(w.tokens["victim"]), "above": above, "view": above + "/view", "ro": above + "/ro", "work": work,
		"devices": work, "device_there": work + "/zero", "suid": work + "/cat", "skip": keys(c.skip),
	}
}

func keys(m map[string]string) []string {
	out := []string{}
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// control does what is allowed: as root on the host, with the victim's token, on
// mounts that are its own, and on a file system where set-id and devices count.
func (w *world) control(t *testing.T) map[string]outcome {
	above := w.view(t, "control", plainUID)
	tmp, secret := w.dir("control/tmp"), "/agents/victim/workspace"
	must(t, os.Mkdir(tmp, 0o755))
	must(t, os.Mkdir(w.dir("fresh"), 0o755))
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	fresh := os.NewFile(uintptr(fd), "fresh")
	defer fresh.Close()
	must(t, unix.Mount("fresh", w.dir("fresh"), "fuse", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,max_read=1048576", fd)))
	defer func() { must(t, unix.Unmount(w.dir("fresh"), unix.MNT_DETACH)) }()
	doomed := w.s.Mount(t, "--agent", "victim")
	conf := w.config(t, "control", map[string]any{
		"me": "victim", "sock": w.dir("run/agent.sock"), "verbs": w.dir("run/admin/admin.sock"), "token": w.tokens["victim"],
		"no_token": w.tokens["victim"], "revoked": w.tokens["victim"], "id_of_another": idOf(w.tokens["victim"]),
		"above": above, "view": above + "/view", "ro": w.victim, "work": w.s.Gaia + secret, "devices": tmp, "device_there": "/dev/zero",
		"suid": tmp + "/cat", "other_uid": plainUID, "covers": []string{tmp}, "connection": connection(t, doomed), "skip": []string{},
	})
	script := `mount -t tmpfs -o mode=0755 control "$TMPDIR/" && mount -t tmpfs -o mode=0755 covers "$TMPDIR" && cp /usr/bin/cat "$TMPDIR" &&
		chmod 4755 "$TMPDIR/cat" && exec /usr/bin/python3 "$@"`
	return outcomes(t, w.run(t, fresh, w.gaia, []string{"TMPDIR=" + tmp}, "unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", w.attempt, conf))
}

// warrenRun is `warren run`, called by root: once with a view to write to, and once
// with one that is read-only.
func warrenRun(t *testing.T, w *world, c confinement) map[string]outcome {
	told := w.told(c, "/run/warren/agent.sock", "/warren")
	work := "/warren/agents/" + attacker + "/workspace"
	for name, value := range map[string]string{"above": "/usr", "view": "/warren", "ro": "/warren", "work": work, "devices": work,
		"device_there": work + "/zero", "suid": work + "/cat", "roots_own": "/run/show/roots"} {
		told[name] = value
	}
	const ro = "remount_read_write"
	all := map[string]outcome{}
	for access, only := range map[string]string{"rw": "", "ro": ro} {
		told["skip"], told["only"] = []string{ro}, nil
		if only != "" {
			told["skip"], told["only"] = []string{}, []string{only}
		}
		w.config(t, "run", told)
		maps.Copy(all, outcomes(t, w.run(t, w.stolen, w.gaia, nil, w.dir("bin/warren"), "run", "--agent", attacker, "--access", access,
			"--show", w.dir("show")+":/run/show", "--", python, "/run/show/attempts.py", "/run/show/run.json")))
	}
	return all
}

// ownUID is a process of the host, in no container: a uid of its own is all there is.
func ownUID(t *testing.T, w *world, c confinement) map[string]outcome {
	above := w.view(t, "uid", c.uid)
	conf := w.config(t, "uid", w.told(c, w.dir("run/agent.sock"), above))
	tmp := w.dir("uid/tmp")
	must(t, os.Mkdir(tmp, 0o700))
	must(t, os.Chown(tmp, c.uid, c.uid))
	return outcomes(t, w.run(t, w.stolen, w.gaia, []string{"TMPDIR=" + tmp}, append(become(c.uid), python, w.attempt, conf)...))
}

// become is the command that runs another as a uid.
func become(uid int) []string {
	id := fmt.Sprint(uid)
	return []string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups"}
}

// bubblewrap is the command of a container that has the host's programs and agent.sock.
func (w *world) bubblewrap(c confinement) []string {
	args := []string{"bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts", "--die-with-parent", "--new-session",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", w.dir("show"), "/show",
		"--bind", w.dir("run/agent"), "/run/warren/agent", "--setenv", "TMPDIR", "/tmp", "--setenv", "WARREN_SOCKET", "/run/warren/agent/agent.sock"}
	if c.uid != 0 {
		args = append(append(become(c.uid), args...), "--unshare-user")
	} else {
		args = append(args, "--cap-drop", "ALL")
	}
	for _, name := range c.caps {
		args = append(args, "--cap-add", name)
	}
	return args
}

// bound is a container with a host mount bound in.
func bound(t *testing.T, w *world, c confinement) map[string]outcome {
	above := w.view(t, fmt.Sprint("bound", c.uid), c.uid)
	told := w.told(c, "/run/warren/agent/agent.sock", "/srv/warren")
	told["roots_own"] = "/show/roots"
	w.config(t, "bound", told)
	args := append(w.bubblewrap(c), "--bind", above, "/srv/warren", python, "/show/attempts.py", "/show/bound.json")
	return outcomes(t, w.run(t, w.stolen, w.gaia, nil, args...))
}

// inside is a container that has /dev/fuse and a token, and mounts by itself.
func inside(t *testing.T, w *world, c confinement) map[string]outcome {
	device := w.dir(fmt.Sprint("fuse", c.uid))
	must(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))))
	must(t, os.Chmod(device, 0o666))
	told := w.told(c, "/run/warren/agent/agent.sock", "/srv/warren")
	told["roots_own"] = "/show/roots"
	w.config(t, "inside", told)
	must(t, os.WriteFile(w.dir("show/token"), []byte(w.tokens[attacker]), 0o644))
	args := append(w.bubblewrap(c), "--dev-bind", device, "/dev/fuse", "--ro-bind", w.dir("bin"), "/opt", "--dir", "/srv/warren/view", "--dir", "/srv/warren/ro")
	if c.uid != 0 {
		args = append(args, "--uid", "0", "--gid", "0")
	}
	args = append(args, "sh", "-c", `/opt/warren --quiet --token-file /show/token mount /srv/warren/view &&
		/opt/warren --quiet --token-file /show/token mount --access ro /srv/warren/ro && exec /usr/bin/python3 /show/attempts.py /show/inside.json`)
	return outcomes(t, w.run(t, w.stolen, w.gaia, nil, args...))
}
