package fusefs

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inThreadOf does something as another user, in a thread of its own.
func inThreadOf(uid uintptr, do func() string) string {
	done := make(chan string)
	go func() {
		runtime.LockOSThread() // and it ends with the goroutine
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
			if _, _, errno := unix.RawSyscall(call, uid, uid, uid); errno != 0 {
				done <- errno.Error()
				return
			}
		}
		done <- do()
	}()
	return <-done
}

// fileForOthers makes a file in a mount that all users may use, and names it.
func fileForOthers(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	name := s.mount("m", Config{AllowOther: true}) + "/f"
	must(t, os.WriteFile(name, nil, 0o644))
	return name
}

// TestTrustedAttributes: who does not administer the system is not told of them.
func TestTrustedAttributes(t *testing.T) {
	name := fileForOthers(t)
	must(t, unix.Setxattr(name, "trusted.t", []byte("x"), 0))
	must(t, unix.Setxattr(name, "user.u", []byte("x"), 0))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	for uid, want := range map[uintptr]string{0: "trusted.t user.u", 12345: "user.u"} {
		got := inThreadOf(uid, func() string {
			b := make([]byte, 1000)
			n, err := unix.Flistxattr(int(f.Fd()), b)
			if err != nil {
				return err.Error()
			}
			names := strings.Split(strings.TrimRight(string(b[:n]), "\x00"), "\x00")
			slices.Sort(names)
			return strings.Join(names, " ")
		})
		if got != want {
			t.Errorf("%d is told of %s", uid, got)
		}
	}
}

// TestChownOfNobody: chown to -1, -1 takes set-id bits like any, of whoever may; of
// others it changes nothing.
func TestChownOfNobody(t *testing.T) {
	name := fileForOthers(t)
	must(t, os.Chown(name, 12345, 12345))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	for _, c := range []struct {
		mode uint32
		uid  uintptr
		left uint32
	}{{0o6755, 0, 0o755}, {0o6755, 12345, 0o755}, {0o6755, 12346, 0o6755}, {0o6745, 0, 0o2745}, {0o755, 12346, 0o755}} {
		must(t, unix.Chmod(name, c.mode))
		got := inThreadOf(c.uid, func() string {
			if err := unix.Fchown(int(f.Fd()), -1, -1); err != nil {
				return err.Error()
			}
			return ""
		})
		var st unix.Stat_t
		must(t, unix.Fstat(int(f.Fd()), &st))
		if got != "" || st.Mode&0o7777 != c.left {
			t.Errorf("%o, by %d: %q, %o", c.mode, c.uid, got, st.Mode&0o7777)
		}
	}
}

// TestWriteOfAnother: who may write but is not the owner writes, and set-id bits go.
func TestWriteOfAnother(t *testing.T) {
	name := fileForOthers(t)
	must(t, os.Chown(name, 12345, 12345))
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
		for _, mode := range []uint32{0o4777, 0o2777, 0o6777} {
			must(t, unix.Chmod(name, mode))
			f, err := os.OpenFile(name, flags, 0)
			must(t, err)
			got := inThreadOf(12346, func() string {
				if _, err := unix.Write(int(f.Fd()), []byte("x")); err != nil {
					return err.Error()
				}
				return ""
			})
			must(t, f.Close())
			var st unix.Stat_t
			must(t, unix.Stat(name, &st))
			if got != "" || st.Mode&0o7777 != 0o777 {
				t.Errorf("%o, opened with %#x: %q, %o", mode, flags, got, st.Mode&0o7777)
			}
		}
	}
}

// TestRemovalOfNoACL: to remove an ACL that there is not is no error.
func TestRemovalOfNoACL(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mount("m", Config{ACL: true})
	must(t, os.Mkdir(m+"/d", 0o755))
	for _, name := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if err := unix.Removexattr(m+"/d", name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := unix.Removexattr(m+"/d", "user.none"); err != unix.ENODATA {
		t.Errorf("an attribute that there is not: %v", err)
	}
}
