package fusefs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nobody = 1<<32 - 1 // the id of an entry that needs none

// aclOf encodes entries of tag, rights and id.
func aclOf(entries ...[3]uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

// aclText shows an ACL as "tag:id=rights".
func aclText(path, name string) string {
	buf := make([]byte, 1024)
	n, err := unix.Getxattr(path, name, buf)
	if err != nil {
		return err.Error()
	}
	var out []string
	for b := buf[4:n]; len(b) >= 8; b = b[8:] {
		id := ""
		if v := binary.LittleEndian.Uint32(b[4:]); v != nobody {
			id = fmt.Sprint(v)
		}
		out = append(out, fmt.Sprintf("%x:%s=%d", binary.LittleEndian.Uint16(b), id, binary.LittleEndian.Uint16(b[2:])))
	}
	return strings.Join(out, " ")
}

// as runs a command as another user.
func as(uid uint32, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd.Run()
}

func modeOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st.Mode & 0o7777
}

const (
	access    = "system.posix_acl_access"
	inherited = "system.posix_acl_default"
)

// openUp lets every user come to the mountpoints.
func (s *stack) openUp() {
	for d := s.dir; d != os.TempDir() && d != "/"; d = d[:strings.LastIndexByte(d, '/')] {
		must(s.t, os.Chmod(d, 0o755))
	}
}

// TestACL: enforced for other users, one with the mode, told to other mounts, and
// shown with each mount's own user.
func TestACL(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	s.openUp()
	a := s.mount("a", Config{ACL: true, AllowOther: true})
	b := s.mount("b", Config{ACL: true, UID: 77, GID: 78, AllowOther: true})
	plain := s.mount("plain", Config{})
	must(t, os.WriteFile(a+"/f", []byte("x"), 0o640))
	if as(4321, "cat", a+"/f") == nil {
		t.Fatal("another user reads a file of mode 0640")
	}
	if got := aclText(b+"/f", access); got != unix.ENODATA.Error() {
		t.Errorf("none set: %s", got)
	}
	must(t, unix.Setxattr(a+"/f", access, aclOf([3]uint32{1, 6, nobody}, [3]uint32{2, 7, 0}, [3]uint32{2, 4, 4321},
		[3]uint32{4, 0, nobody}, [3]uint32{0x10, 5, nobody}, [3]uint32{0x20, 0, nobody}), 0))
	if m := modeOf(t, b+"/f"); m != 0o650 {
		t.Errorf("mode %o, want the mask for the group", m)
	}
	must(t, as(4321, "cat", a+"/f"))
	must(t, as(4321, "cat", b+"/f"))
	if as(4322, "cat", a+"/f") == nil {
		t.Error("a user that the ACL does not name reads it")
	}
	if got, want := aclText(b+"/f", access), "1:=6 2:77=7 2:4321=4 4:=0 10:=5 20:=0"; got != want {
		t.Errorf("in the mount of user 77: %s, want %s", got, want)
	}
	must(t, os.Chmod(b+"/f", 0o600)) // no rights in the mask
	if got, want := aclText(a+"/f", access), "1:=6 2:0=7 2:4321=4 4:=0 10:=0 20:=0"; got != want {
		t.Errorf("after chmod: %s, want %s", got, want)
	}
	if as(4321, "cat", a+"/f") == nil {
		t.Error("a user with nothing in the mask reads it")
	}
	buf := make([]byte, 256)
	if n, err := unix.Listxattr(plain+"/f", buf); n != 0 || err != nil {
		t.Errorf("without ACLs: xattrs %q, %v", buf[:max(n, 0)], err)
	}
	if err := unix.Setxattr(plain+"/f", access, nil, 0); !errors.Is(err, unix.ENOTSUP) {
		t.Errorf("without ACLs: %v", err)
	}
	must(t, unix.Setxattr(a+"/f", access, aclOf([3]uint32{1, 6, nobody}, [3]uint32{4, 4, nobody}, [3]uint32{0x20, 0, nobody}), 0))
	if got, m := aclText(b+"/f", access), modeOf(t, b+"/f"); got != unix.ENODATA.Error() || m != 0o640 {
		t.Errorf("an ACL that a mode can say: %s, mode %o", got, m)
	}
}

// TestDefaultACL: what is made in a directory gets its default ACL in place of
// the umask, directories to hand on; elsewhere the umask counts.
func TestDefaultACL(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	a, b := s.mount("a", Config{ACL: true}), s.mount("b", Config{ACL: true})
	must(t, os.Mkdir(a+"/d", 0o755))
	must(t, unix.Setxattr(a+"/d", inherited, aclOf([3]uint32{1, 7, nobody}, [3]uint32{2, 6, 4321},
		[3]uint32{4, 5, nobody}, [3]uint32{0x10, 7, nobody}, [3]uint32{0x20, 0, nobody}), 0))
	// Not by made.Dir: between fork and exec this process, which serves b, stands still.
	made := exec.Command("sh", "-c", "umask 077; cd "+b+"/d && : >f && mkdir sub && mkfifo p && ln -s f l && mkdir sub/deep && touch ../outside && mkdir ../outdir")
	out, err := made.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]string{
		"d/f": "1:=6 2:4321=6 4:=5 10:=6 20:=0", "d/p": "1:=6 2:4321=6 4:=5 10:=6 20:=0", "d/sub": "1:=7 2:4321=6 4:=5 10:=7 20:=0",
		"d/sub/deep": "1:=7 2:4321=6 4:=5 10:=7 20:=0", "outside": unix.ENODATA.Error(), "outdir": unix.ENODATA.Error(),
	} {
		if got := aclText(a+"/"+path, access); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]uint32{"d/f": 0o660, "d/sub": 0o770, "outside": 0o600, "outdir": 0o700, "d/l": 0o777} {
		if m := modeOf(t, a+"/"+path); m != want {
			t.Errorf("%s: mode %o, want %o", path, m, want)
		}
	}
	if got, want := aclText(a+"/d/sub/deep", inherited), "1:=7 2:4321=6 4:=5 10:=7 20:=0"; got != want {
		t.Errorf("handed on: %s", got)
	}
	fd, err := unix.Open(a+"/d", unix.O_TMPFILE|unix.O_RDWR, 0o666)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, a+"/d/t", unix.AT_SYMLINK_FOLLOW))
	if got, want := aclText(b+"/d/t", access), "1:=6 2:4321=6 4:=5 10:=6 20:=0"; got != want {
		t.Errorf("O_TMPFILE: %s", got)
	}
}

// TestACLClearsSetGID: as on ext4, an ACL that is set by who is not in the file's
// group, and has no privilege, clears its set-group-id bit.
func TestACLClearsSetGID(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	s.openUp()
	dir := s.mount("a", Config{ACL: true, AllowOther: true})
	acl := aclOf([3]uint32{1, 7, nobody}, [3]uint32{2, 7, 0}, [3]uint32{4, 5, nobody}, [3]uint32{0x10, 7, nobody}, [3]uint32{0x20, 0, nobody})
	for _, c := range []struct {
		name     string
		uid, gid int // of who sets it
		want     uint32
	}{{"root", 0, 0, 0o2770}, {"member", 4321, 4322, 0o2770}, {"stranger", 4321, 4323, 0o770}} {
		for _, ref := range []string{dir, t.TempDir()} {
			must(t, os.Chmod(filepath.Dir(ref), 0o755))
			path := ref + "/" + c.name
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chown(path, 4321, 4322))
			must(t, unix.Chmod(path, 0o2750))
			err := asFilesystemUser(c.uid, c.gid, func() error { return unix.Setxattr(path, access, acl, 0) })
			if ref != dir && errors.Is(err, unix.ENOTSUP) {
				continue
			}
			must(t, err)
			if got := modeOf(t, path); got != c.want {
				t.Errorf("%s, set by %s: mode %o, want %o", path, c.name, got, c.want)
			}
		}
	}
}

// asFilesystemUser runs fn with the rights of another user and group, and no other
// groups, on files.
func asFilesystemUser(uid, gid int, fn func() error) error {
	runtime.LockOSThread() // and never let go: its groups stay
	_, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	_ = unix.Setfsgid(gid)
	_ = unix.Setfsuid(uid)
	defer func() {
		_ = unix.Setfsuid(0)
		_ = unix.Setfsgid(0)
	}()
	return fn()
}
