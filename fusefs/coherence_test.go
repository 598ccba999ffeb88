package fusefs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// change is one thing done in one mount.
type change struct {
	name string
	do   func(dir string) error
}

// see is one thing looked at in another.
type see struct {
	name string
	at   func(dir string) string
}

// setUp makes what changes change: files f, g, a hard link l of f, a link s, a
// directory d with a file in it, an empty one e, and "absent", which is not
// there.
func setUp(dir string) error {
	return errors.Join(
		os.Mkdir(dir, 0o755),
		os.WriteFile(dir+"/f", bytes.Repeat([]byte("f"), 6000), 0o644),
		os.WriteFile(dir+"/g", []byte("g"), 0o600),
		os.Link(dir+"/f", dir+"/l"),
		os.Symlink("f", dir+"/s"),
		os.Mkdir(dir+"/d", 0o755),
		os.WriteFile(dir+"/d/x", []byte("x"), 0o644),
		os.Mkdir(dir+"/e", 0o755),
		unix.Setxattr(dir+"/f", "user.k", []byte("v"), 0),
	)
}

func openWrite(path string, flags int, data string, off int64) error {
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	if off >= 0 {
		_, err = f.WriteAt([]byte(data), off)
	} else {
		_, err = f.Write([]byte(data))
	}
	return errors.Join(err, f.Close())
}

func fallocate(path string, mode uint32, off, n int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), mode, off, n)
}

func copyRange(dir string) error {
	from, err := os.Open(dir + "/g")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dir+"/f", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	at := int64(4097)
	_, err = unix.CopyFileRange(int(from.Fd()), nil, int(to.Fd()), &at, 1, 0)
	return err
}

var changes = []change{
	{"overwrite", func(d string) error { return openWrite(d+"/f", os.O_WRONLY, "overwritten", 3) }},
	{"overwrite second page", func(d string) error { return openWrite(d+"/f", os.O_RDWR, "page", 5000) }},
	{"grow", func(d string) error { return openWrite(d+"/f", os.O_RDWR, "grown", 9000) }},
	{"append", func(d string) error { return openWrite(d+"/f", os.O_WRONLY|os.O_APPEND, "appended", -1) }},
	{"rewrite", func(d string) error { return os.WriteFile(d+"/f", []byte("short"), 0o644) }},
	{"truncate", func(d string) error { return os.Truncate(d+"/f", 10) }},
	{"extend", func(d string) error { return os.Truncate(d+"/f", 8000) }},
	{"punch", func(d string) error {
		return fallocate(d+"/f", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 100, 5000)
	}},
	{"allocate", func(d string) error { return fallocate(d+"/f", 0, 0, 7000) }},
	{"copy range", copyRange},
	{"chmod", func(d string) error { return os.Chmod(d+"/f", 0o640) }},
	{"chmod dir", func(d string) error { return os.Chmod(d+"/d", 0o700) }},
	{"chown", func(d string) error { return os.Chown(d+"/f", 7, 8) }},
	{"utimes", func(d string) error { return os.Chtimes(d+"/f", time.Unix(7, 8), time.Unix(9, 10)) }},
	{"setxattr", func(d string) error { return unix.Setxattr(d+"/f", "user.k", []byte("other"), 0) }},
	{"removexattr", func(d string) error { return unix.Removexattr(d+"/f", "user.k") }},
	{"create", func(d string) error { return os.WriteFile(d+"/absent", []byte("new"), 0o644) }},
	{"create in empty", func(d string) error { return os.WriteFile(d+"/e/n", nil, 0o644) }},
	{"mkdir", func(d string) error { return os.Mkdir(d+"/absent", 0o755) }},
	{"mkfifo", func(d string) error { return unix.Mkfifo(d+"/absent", 0o644) }},
	{"symlink", func(d string) error { return os.Symlink("elsewhere", d+"/absent") }},
	{"link", func(d string) error { return os.Link(d+"/f", d+"/absent") }},
	{"unlink", func(d string) error { return os.Remove(d + "/g") }},
	{"unlink one of two", func(d string) error { return os.Remove(d + "/f") }},
	{"unlink the only", func(d string) error { return os.Remove(d + "/d/x") }},
	{"rmdir", func(d string) error { return os.Remove(d + "/e") }},
	{"rename", func(d string) error { return os.Rename(d+"/g", d+"/absent") }},
	{"rename over", func(d string) error { return os.Rename(d+"/g", d+"/f") }},
	{"rename into", func(d string) error { return os.Rename(d+"/g", d+"/e/n") }},
	{"rename dir", func(d string) error { return os.Rename(d+"/d", d+"/absent") }},
	{"rename dir over", func(d string) error { return unix.Rename(d+"/d", d+"/e") }},
	{"exchange", func(d string) error {
		return unix.Renameat2(unix.AT_FDCWD, d+"/f", unix.AT_FDCWD, d+"/g", unix.RENAME_EXCHANGE)
	}},
	{"exchange with dir", func(d string) error {
		return unix.Renameat2(unix.AT_FDCWD, d+"/f", unix.AT_FDCWD, d+"/d", unix.RENAME_EXCHANGE)
	}},
	{"replace link", func(d string) error {
		return errors.Join(os.Symlink("g", d+"/t"), os.Rename(d+"/t", d+"/s"))
	}},
	{"write and replace", func(d string) error {
		return errors.Join(os.WriteFile(d+"/t", []byte("whole"), 0o644), os.Rename(d+"/t", d+"/f"))
	}},
}

// each looks at every name that a change may concern.
func each(fn func(path string) string) func(string) string {
	return func(dir string) string {
		var b strings.Builder
		for _, n := range []string{"f", "g", "l", "s", "absent", "d", "d/x", "e", "e/n", "e/x", "absent/x", "t"} {
			fmt.Fprintf(&b, "%s: %s\n", n, fn(dir+"/"+n))
		}
		return b.String()
	}
}

func text(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return fmt.Sprint(err)
}

func stat(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return text(err)
	}
	out := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // of a directory it is the file system's affair
		out += fmt.Sprintf(" nlink %d size %d", st.Nlink, st.Size)
	}
	if st.Mtim.Sec < 1000 {
		out += fmt.Sprintf(" mtime %d.%d", st.Mtim.Sec, st.Mtim.Nsec)
	}
	return out
}

func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return text(err)
	}
	if len(b) > 100 {
		return fmt.Sprintf("%d %x", len(b), sha256.Sum256(b))
	}
	return fmt.Sprintf("%d %q", len(b), b)
}

func names(path string) string {
	list, err := os.ReadDir(path)
	if err != nil {
		return text(err)
	}
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s(%v) ", e.Name(), e.Type())
	}
	return b.String()
}

func xattr(path string) string {
	buf := make([]byte, 100)
	n, err := unix.Lgetxattr(path, "user.k", buf)
	if err != nil {
		return text(err)
	}
	return string(buf[:n])
}

func readlink(path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		return text(err)
	}
	return to
}

func opens(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return text(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return text(err)
	}
	return fmt.Sprint(fi.Mode())
}

func fromPage(off int64) func(string) string {
	return func(path string) string {
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return text(err)
		}
		defer f.Close()
		b := make([]byte, 100)
		n, err := f.ReadAt(b, off)
		if n == 0 {
			return text(err)
		}
		return string(b[:n])
	}
}

var sights = []see{
	{"stat", each(stat)},
	{"content", each(regular(content))},
	{"listing", func(d string) string { return names(d) + "|" + names(d+"/d") + "|" + names(d+"/e") }},
	{"readlink", each(readlink)},
	{"xattr", each(xattr)},
	{"open", each(opens)},
	{"read in second page", each(regular(fromPage(4996)))},
	{"everything", func(d string) string {
		return names(d) + each(stat)(d) + each(regular(content))(d) + each(xattr)(d)
	}},
}

// regular looks at regular files only: a fifo would make the reader wait.
func regular(fn func(string) string) func(string) string {
	return func(path string) string {
		fi, err := os.Stat(path)
		if err != nil {
			return text(err)
		}
		if !fi.Mode().IsRegular() {
			return "-"
		}
		return fn(path)
	}
}

// TestCoherencePairs does every change in one mount and takes every look in
// another, which had looked before (warm) or not (cold), or has the files open,
// and compares with the same on a plain directory. Each pair takes a directory
// of its own, so that nothing of another pair is cached.
func TestCoherencePairs(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(10 * time.Minute)
	a, b := s.mount("a", Config{}), s.mount("b", Config{})
	ref := filepath.Join(s.dir, "ref")
	must(t, os.Mkdir(ref, 0o755))
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	n := 0
	for round := range rounds {
		for _, c := range changes {
			for _, l := range sights {
				for _, warm := range []string{"cold", "warm", "open"} {
					n++
					m, o := a, b
					if n%2 == 1 {
						m, o = b, a
					}
					sub := fmt.Sprintf("/p%d", n)
					onePair(t, c, l, warm, m+sub, o+sub, ref+sub)
					if t.Failed() {
						t.Fatalf("round %d, pair %d: %s seen by %s, %s", round, n, c.name, l.name, warm)
					}
				}
			}
		}
	}
	t.Logf("%d pairs", n)
	for _, m := range s.hub.Mounts() {
		t.Logf("%s: %+v", m.Dir(), m.Stats())
	}
}

func onePair(t *testing.T, c change, l see, warm, m, o, ref string) {
	t.Helper()
	must(t, setUp(m))
	must(t, setUp(ref))
	if warm != "cold" {
		if got, want := l.at(o), l.at(ref); got != want {
			t.Fatalf("before: got\n%s\nwant\n%s", got, want)
		}
	}
	if warm == "open" {
		for _, n := range []string{"f", "g"} {
			f, err := os.OpenFile(o+"/"+n, os.O_RDWR, 0)
			must(t, err)
			defer f.Close()
			_, err = f.ReadAt(make([]byte, 1), 0)
			must(t, err)
		}
	}
	must(t, c.do(m))
	must(t, c.do(ref))
	want := l.at(ref)
	if got := l.at(o); got != want {
		t.Errorf("%s, seen by %s in the other mount, %s: got\n%s\nwant\n%s", c.name, l.name, warm, got, want)
	}
	if got := l.at(m); got != want {
		t.Errorf("%s, seen by %s in the same mount: got\n%s\nwant\n%s", c.name, l.name, got, want)
	}
}
