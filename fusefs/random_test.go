package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// randomChange picks something to do to names of a small set; what it does may
// fail.
func randomChange(r *rand.Rand) change {
	names := []string{"f", "g", "l", "s", "absent", "d", "d/x", "d/y", "e", "e/n", "e/x", "absent/x"}
	a, b := "/"+names[r.IntN(len(names))], "/"+names[r.IntN(len(names))]
	off, n, mode := r.Int64N(10000), 1+r.IntN(6000), os.FileMode(0o600+r.IntN(0o100))
	data := string(bytes.Repeat([]byte{byte('a' + r.IntN(26))}, n))
	type op struct {
		name string
		do   func(dir string) error
	}
	ops := []op{
		{"write " + a, func(d string) error { return openWrite(d+a, os.O_RDWR|os.O_CREATE, data, off) }},
		{"write-only " + a, func(d string) error { return openWrite(d+a, os.O_WRONLY|os.O_CREATE, data, off) }},
		{"append " + a, func(d string) error { return openWrite(d+a, os.O_WRONLY|os.O_APPEND|os.O_CREATE, data, -1) }},
		{"rewrite " + a, func(d string) error { return os.WriteFile(d+a, []byte(data), 0o644) }},
		{"exclusive " + a, func(d string) error { return openWrite(d+a, os.O_RDWR|os.O_CREATE|os.O_EXCL, data, 0) }},
		{"truncate " + a, func(d string) error { return os.Truncate(d+a, off) }},
		{"chmod " + a, func(d string) error { return os.Chmod(d+a, mode) }},
		{"mkdir " + a, func(d string) error { return os.Mkdir(d+a, 0o755) }},
		{"symlink " + a, func(d string) error { return os.Symlink(filepath.Base(b), d+a) }},
		{"link " + a + " " + b, func(d string) error { return os.Link(d+a, d+b) }},
		{"unlink " + a, func(d string) error { return unix.Unlink(d + a) }},
		{"rmdir " + a, func(d string) error { return unix.Rmdir(d + a) }},
		{"rename " + a + " " + b, func(d string) error { return unix.Rename(d+a, d+b) }},
		{"exchange " + a + " " + b, func(d string) error {
			return unix.Renameat2(unix.AT_FDCWD, d+a, unix.AT_FDCWD, d+b, unix.RENAME_EXCHANGE)
		}},
		{"setxattr " + a, func(d string) error { return unix.Lsetxattr(d+a, "user.k", []byte(data[:1]), 0) }},
		{"punch " + a, func(d string) error {
			return fallocate(d+a, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, int64(n))
		}},
	}
	o := ops[r.IntN(len(ops))]
	return change(o)
}

// TestRandomChanges does random changes through three mounts of one directory, one
// after another, and the same to a plain directory; after each, a random mount
// must see the same as there.
func TestRandomChanges(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(5 * time.Minute)
	dirs := []string{s.mount("a", Config{}), s.mount("b", Config{}), s.mount("c", Config{})}
	steps := 4000
	if testing.Short() {
		steps = 1000
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ref := s.dir + "/ref"
	must(t, setUp(dirs[0]+"/r"))
	must(t, setUp(ref))
	var done []string
	for i := range steps {
		c := randomChange(r)
		m := r.IntN(len(dirs))
		got := c.do(dirs[m] + "/r")
		want := c.do(ref)
		done = append(done, fmt.Sprintf("%s in %d: %v", c.name, m, text(want)))
		if text(got) != text(want) && !sameRefusal(got, want) {
			t.Fatalf("seed %d, step %d, %s: %v, on a plain directory %v\nbefore: %q", seed, i, c.name, text(got), text(want), done[max(0, i-15):])
		}
		l, o := sights[r.IntN(len(sights))], r.IntN(len(dirs))
		if g, w := l.at(dirs[o]+"/r"), l.at(ref); g != w {
			t.Fatalf("seed %d, step %d: after %s in mount %d, %s in mount %d: %s\nbefore: %q",
				seed, i, c.name, m, l.name, o, difference(g, w), done[max(0, i-15):])
		}
	}
}

// difference shows the first line in which two texts differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d: got %.300q, want %.300q", i, g[i], strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	return "less than wanted"
}

// sameRefusal allows what file systems tell differently.
func sameRefusal(a, b error) bool {
	if a == nil || b == nil {
		return false
	}
	for _, pair := range [][2]error{{unix.ENOTEMPTY, unix.EEXIST}, {unix.EINVAL, unix.ENOTEMPTY}, {unix.EISDIR, unix.EPERM},
		{unix.ENOTSUP, unix.EPERM}, {unix.EINVAL, unix.EEXIST}} {
		if (errors.Is(a, pair[0]) && errors.Is(b, pair[1])) || (errors.Is(a, pair[1]) && errors.Is(b, pair[0])) {
			return true
		}
	}
	return false
}
