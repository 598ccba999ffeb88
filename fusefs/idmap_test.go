package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// idmapped mounts dir once more at at, with user 0 there shown as user from.
func idmapped(t *testing.T, dir, at string, from int) {
	t.Helper()
	holder := exec.Command("sleep", "60") // holds the user namespace that says the mapping
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: from, Size: 1000}}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	if err := holder.Start(); err != nil {
		t.Skip("no user namespaces: ", err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(ns)
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	defer unix.Close(tree)
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns)})
	if err == unix.EINVAL {
		t.Skip("this kernel maps no ids over FUSE (it needs Linux 6.12)")
	}
	must(t, err)
	must(t, os.Mkdir(at, 0o755))
	must(t, unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}

// TestIDMappedMount: a mount of ours, mounted once more with mapped ids, shows and
// takes the mapped ones.
func TestIDMappedMount(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	s.openUp()
	m := s.mount("m", Config{AllowOther: true})
	must(t, os.WriteFile(m+"/roots", []byte("x"), 0o600))
	must(t, os.WriteFile(m+"/third", []byte("x"), 0o600))
	must(t, os.Chown(m+"/third", 300, 300))
	must(t, os.Chmod(m, 0o755))
	mapped := s.dir + "/mapped"
	idmapped(t, m, mapped, 50_000)
	for name, want := range map[string]uint32{"roots": 50_000, "third": 50_300} {
		var st unix.Stat_t
		must(t, unix.Stat(mapped+"/"+name, &st))
		if st.Uid != want || st.Gid != want {
			t.Errorf("%s: %d:%d, want %d", name, st.Uid, st.Gid, want)
		}
	}
	must(t, as(50_000, "sh", "-c", "echo y >"+mapped+"/roots; echo z >"+mapped+"/new; mkdir "+mapped+"/dir; chmod 700 "+mapped+"/dir"))
	if as(50_001, "cat", mapped+"/roots") == nil {
		t.Error("another user reads a file of mode 0600")
	}
	for _, name := range []string{"new", "dir"} {
		var st unix.Stat_t
		must(t, unix.Stat(m+"/"+name, &st))
		if st.Uid != 0 || st.Gid != 0 {
			t.Errorf("%s was made as %d:%d, want 0:0", name, st.Uid, st.Gid)
		}
	}
	must(t, unix.Unmount(mapped, 0))
}
