package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

func TestEveryKindHasAnErrno(t *testing.T) {
	for k := backend.NotFound; k < backend.Conflict; k++ {
		if _, ok := errnos[k]; !ok {
			t.Errorf("kind %q has no errno", k)
		}
	}
	if e := errnoOf(&backend.Error{Kind: backend.Quota}); e != syscall.EDQUOT {
		t.Errorf("quota is %v", e)
	}
	if e := errnoOf(errors.New("anything")); e != syscall.EIO {
		t.Errorf("an unknown error is %v", e)
	}
}

// spent runs fn and tells which requests a caller waited for.
func spent(m *Mount, fn func()) map[string]uint64 {
	before := m.Stats().Requests
	fn()
	time.Sleep(20 * time.Millisecond)
	out := map[string]uint64{}
	for k, n := range m.Stats().Requests {
		if d := n - before[k]; d > 0 && k != "RELEASE" && k != "RELEASEDIR" && k != "FORGET" {
			out[k] = d
		}
	}
	return out
}

// TestRequestBudget holds the numbers of requests that programs wait for.
func TestRequestBudget(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m := s.mounted("m", Config{})
	d := m.Dir() + "/d"
	must(t, os.Mkdir(d, 0o755))
	must(t, os.WriteFile(d+"/f", []byte("content"), 0o644))
	buf := make([]byte, 4096)
	readAll := func(path string) {
		fd, err := unix.Open(path, unix.O_RDONLY, 0)
		must(t, err)
		_, err = unix.Read(fd, buf)
		must(t, err)
		must(t, unix.Close(fd))
	}
	write := func(path string, flags int) {
		fd, err := unix.Open(path, flags|unix.O_CREAT, 0o644)
		must(t, err)
		_, err = unix.Write(fd, buf)
		must(t, err)
		must(t, unix.Close(fd))
	}
	var st unix.Stat_t
	for _, c := range []struct {
		name string
		max  uint64
		warm func()
		do   func()
	}{
		{"stat", 0, func() { must(t, unix.Stat(d+"/f", &st)) }, func() { must(t, unix.Stat(d+"/f", &st)) }},
		{"open, read, close", 1, func() { readAll(d + "/f") }, func() { readAll(d + "/f") }},
		{"create, write, close, write-only", 3, func() { write(d+"/w0", unix.O_WRONLY) }, func() { write(d+"/w1", unix.O_WRONLY) }},
		{"create, write, close, read-write", 5, func() { write(d+"/r0", unix.O_RDWR) }, func() { write(d+"/r1", unix.O_RDWR) }},
		{"unlink", 1, func() { must(t, unix.Unlink(d+"/w0")) }, func() { must(t, unix.Unlink(d+"/w1")) }},
		{"rename", 2, func() { must(t, unix.Rename(d+"/r0", d+"/x0")) }, func() { must(t, unix.Rename(d+"/r1", d+"/x1")) }},
		{"list and stat", 1, func() { walk(t, d) }, func() { walk(t, d) }},
	} {
		c.warm()
		got := spent(m, c.do)
		var n uint64
		for _, k := range slices.Collect(maps.Values(got)) {
			n += k
		}
		t.Logf("%s: %v", c.name, got)
		if n > c.max {
			t.Errorf("%s: %d requests, at most %d: %v", c.name, n, c.max, got)
		}
	}
}

func walk(t *testing.T, dir string) {
	t.Helper()
	list, err := listing(dir)
	must(t, err)
	for _, n := range list {
		_, err := os.Lstat(filepath.Join(dir, n))
		must(t, err)
	}
}

// TestBigDirectory: reading a directory twice as big takes about twice as long,
// and its listing is whole although names go meanwhile.
func TestBigDirectory(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	m, n := s.mount("m", Config{}), s.mount("n", Config{})
	count := 5000
	d := m + "/big"
	must(t, os.Mkdir(d, 0o755))
	for i := range count {
		must(t, os.WriteFile(fmt.Sprintf("%s/file-%05d", d, i), nil, 0o644))
	}
	for _, dir := range []string{d, n + "/big"} {
		f, err := os.Open(dir)
		must(t, err)
		defer f.Close()
		seen := map[string]bool{}
		for len(seen) < count {
			names, err := f.Readdirnames(100)
			must(t, err)
			for _, name := range names {
				if seen[name] {
					t.Fatalf("%s twice", name)
				}
				seen[name] = true
			}
			if len(seen)%1000 == 0 { // what was read already goes
				must(t, os.Remove(d+"/"+names[0]))
				must(t, os.WriteFile(d+"/"+names[0], nil, 0o644))
			}
		}
	}
	must(t, os.RemoveAll(n+"/big"))
	if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after rm -r in the other mount: %v", err)
	}
}

// TestUnlinkedOpenFile: case 23; in both mounts.
func TestUnlinkedOpenFile(t *testing.T) {
	s, m, n := twoMounts(t)
	s.want(s.shell(m, n, `cd $M; exec 3<>f; echo a >&3; exec 4<$N/f; rm f; cat /proc/self/fd/3
		python3 -c 'import os; print(os.pread(3,9,0), os.pread(4,9,0), os.fstat(3).st_nlink, os.fstat(4).st_nlink)'`),
		"a\nb'a\\n' b'a\\n' 0 0")
}

func TestSetIDBitsGo(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("m", Config{AllowOther: true})
	must(t, os.Chmod(dir, 0o777))
	out := s.shell(dir, dir, `cd $M
	for f in write trunc chown keep; do echo x > $f; chown 1000:1000 $f; chmod 6775 $f; done
	python3 - <<'P'
import os
os.setresgid(1000,1000,1000); os.setresuid(1000,1000,1000)
open("write","r+").write("y"); os.truncate("trunc", 1)
P
	chown 1001 chown; stat -c %a write trunc chown keep | tr '\n' ' '`)
	s.want(out, "775 775 775 6775")
}

func TestXattrsAndLinks(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("m", Config{})
	must(t, os.WriteFile(dir+"/f", nil, 0o644))
	must(t, unix.Setxattr(dir+"/f", "user.k", []byte("v"), unix.XATTR_CREATE))
	if err := unix.Setxattr(dir+"/f", "user.k", []byte("v"), unix.XATTR_CREATE); !errors.Is(err, unix.EEXIST) {
		t.Errorf("create again: %v", err)
	}
	if err := unix.Setxattr(dir+"/f", "user.n", []byte("v"), unix.XATTR_REPLACE); !errors.Is(err, unix.ENODATA) {
		t.Errorf("replace nothing: %v", err)
	}
	if err := unix.Setxattr(dir+"/f", "system.posix_acl_access", bytes.Repeat([]byte("x"), 4), 0); err == nil {
		t.Error("an ACL that nothing enforces is taken")
	}
	buf := make([]byte, 200)
	n, err := unix.Getxattr(dir+"/f", "user.warren.path", buf)
	if err != nil || string(buf[:n]) != workDir+"/f" {
		t.Errorf("user.warren.path: %q %v", buf[:max(n, 0)], err)
	}
	n, err = unix.Listxattr(dir+"/f", buf)
	if err != nil || string(buf[:n]) != "user.k\x00" {
		t.Errorf("list: %q %v", buf[:max(n, 0)], err)
	}
	most := bytes.Repeat([]byte("v"), 64<<10) // Linux passes no more on
	must(t, unix.Setxattr(dir+"/f", "user.most", most, 0))
	back := make([]byte, len(most)+1)
	if n, err = unix.Getxattr(dir+"/f", "user.most", back); err != nil || !bytes.Equal(back[:max(n, 0)], most) {
		t.Errorf("a value of 64 KiB: %d bytes, %v", n, err)
	}
	long := strings.Repeat("n", 256)
	if err := os.WriteFile(dir+"/"+long, nil, 0o644); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("long name: %v", err)
	}
	must(t, os.WriteFile(dir+"/"+long[:255], nil, 0o644))
}

// TestWhiteout: RENAME_WHITEOUT leaves a character device 0:0 under the old name, as
// overlayfs wants it of what it writes to.
func TestWhiteout(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir, other := s.mount("m", Config{}), s.mount("n", Config{})
	rename := func(from, to string, flags uint) error {
		return unix.Renameat2(unix.AT_FDCWD, dir+"/"+from, unix.AT_FDCWD, dir+"/"+to, flags|unix.RENAME_WHITEOUT)
	}
	must(t, os.WriteFile(dir+"/a", []byte("A"), 0o644))
	must(t, os.WriteFile(dir+"/b", []byte("B"), 0o644))
	must(t, os.Mkdir(dir+"/d", 0o755))
	if err := rename("a", "b", unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
		t.Errorf("over what is there, without replacing: %v", err)
	}
	must(t, os.Truncate(other+"/a", 1)) // the other mount knows the old name
	must(t, rename("a", "b", 0))
	must(t, rename("d", "e", unix.RENAME_NOREPLACE))
	for _, at := range []string{dir, other} {
		for _, name := range []string{"a", "d"} {
			var st unix.Stat_t
			must(t, unix.Lstat(at+"/"+name, &st))
			if st.Mode != unix.S_IFCHR || st.Rdev != 0 || st.Nlink != 1 {
				t.Errorf("%s: mode %o, device %d, %d links", name, st.Mode, st.Rdev, st.Nlink)
			}
		}
		if got, err := os.ReadFile(at + "/b"); err != nil || string(got) != "A" {
			t.Errorf("b: %q, %v", got, err)
		}
		if got, err := listing(at); err != nil || strings.Join(got, " ") != "a b d e" {
			t.Errorf("listed: %v, %v", got, err)
		}
	}
	must(t, os.Remove(dir+"/a"))
	must(t, os.Remove(dir+"/d"))
}

// TestAppendLater: O_APPEND set on a handle that caches.
func TestAppendLater(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m, n := s.mount("m", Config{}), s.mount("n", Config{})
	must(t, os.WriteFile(m+"/f", []byte("start|"), 0o644))
	f, err := os.OpenFile(m+"/f", os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.ReadAt(make([]byte, 6), 0)
	must(t, err)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_APPEND)
	must(t, err)
	must(t, openWrite(n+"/f", os.O_WRONLY|os.O_APPEND, "other|", -1))
	_, err = f.WriteString("mine|")
	must(t, err)
	time.Sleep(20 * time.Millisecond) // the writer's own page follows its reply
	for _, dir := range []string{m, n} {
		if b, err := os.ReadFile(dir + "/f"); string(b) != "start|other|mine|" {
			t.Errorf("%s: %q %v", dir, b, err)
		}
	}
}

// TestSharedMapOfSecondWriter: a map that could not be coherent is refused.
func TestSharedMapOfSecondWriter(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m, n := s.mount("m", Config{}), s.mount("n", Config{})
	must(t, os.WriteFile(m+"/f", make([]byte, 4096), 0o644))
	first, second := openRW(t, m+"/f"), openRW(t, n+"/f")
	b, err := unix.Mmap(int(first.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	must(t, unix.Munmap(b))
	if _, err := unix.Mmap(int(second.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.ENODEV) {
		t.Errorf("map of the second writer: %v", err)
	}
}

// TestQuietWhereNothingIsCached: much made in one mount, beside another that has
// looked at all there was before, costs a handful of notices.
func TestQuietWhereNothingIsCached(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	m, n := s.mounted("m", Config{}), s.mounted("n", Config{})
	must(t, os.MkdirAll(m.Dir()+"/old/a", 0o755))
	s.shell(m.Dir(), n.Dir(), `find $N > /dev/null; find $N > /dev/null`)
	before := n.Stats().Notices
	s.shell(m.Dir(), n.Dir(), `cd $M; for d in $(seq 20); do mkdir -p new/$d; for f in $(seq 50); do echo $f > new/$d/$f; done; done`)
	total := uint64(0)
	for k, v := range n.Stats().Notices {
		total += v - before[k]
	}
	if total > 4 {
		t.Errorf("%d notices for 1,000 files: %v before, %v after", total, before, n.Stats().Notices)
	}
	if got := s.shell(m.Dir(), n.Dir(), `find $N/new -type f | wc -l`); got != "1000" {
		t.Errorf("the other mount finds %s files", got)
	}
}
