package fusefs

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stream is a directory read in small steps, as by readdir(3).
type stream struct {
	t   *testing.T
	fd  int
	buf []byte
}

// dirName is a name and what seekdir(3) takes to go on after it.
type dirName struct {
	name string
	off  int64
}

func openStream(t *testing.T, dir string) *stream {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return &stream{t: t, fd: fd, buf: make([]byte, 4096)}
}

// next gives some names, none at the end.
func (s *stream) next() (out []dirName) {
	s.t.Helper()
	n, err := unix.ReadDirent(s.fd, s.buf)
	must(s.t, err)
	for b := s.buf[:n]; len(b) > 0; b = b[binary.NativeEndian.Uint16(b[16:]):] {
		name := string(b[19:binary.NativeEndian.Uint16(b[16:])])
		name, _, _ = strings.Cut(name, "\x00")
		if name != "." && name != ".." {
			out = append(out, dirName{name, int64(binary.NativeEndian.Uint64(b[8:]))})
		}
	}
	return out
}

// rest counts the names that are left.
func (s *stream) rest(seen map[string]int) {
	s.t.Helper()
	for {
		names := s.next()
		if len(names) == 0 && s.end() {
			return
		}
		for _, n := range names {
			seen[n.name]++
		}
	}
}

// end tells whether nothing follows.
func (s *stream) end() bool {
	at, err := unix.Seek(s.fd, 0, unix.SEEK_CUR)
	must(s.t, err)
	n, err := unix.ReadDirent(s.fd, s.buf)
	must(s.t, err)
	_, err = unix.Seek(s.fd, at, unix.SEEK_SET)
	must(s.t, err)
	return n == 0
}

// TestListingWhileItChanges: a directory that loses and gains names, through this
// mount and another, while it is read: what was there all the time is told
// once, though the kernel's cache of it comes and goes.
func TestListingWhileItChanges(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	dirs := []string{s.mount("a", Config{}) + "/big", s.mount("b", Config{}) + "/big"}
	const names = 6000 // each fourth goes
	must(t, os.Mkdir(dirs[0], 0o755))
	for i := range names {
		must(t, os.WriteFile(fmt.Sprintf("%s/f%d", dirs[0], i), nil, 0o644))
	}
	gone, removed := 0, map[string]bool{}
	for round := range 4 {
		_, err := os.ReadDir(dirs[0]) // the kernel has all of it now
		must(t, err)
		from := openStream(t, dirs[0])
		seen := map[string]int{}
		var last dirName
		for range 5 + 3*round {
			for _, n := range from.next() {
				seen[n.name]++
				last = n
			}
		}
		for range names / 16 {
			_ = os.Remove(fmt.Sprintf("%s/f%d", dirs[round%2], gone)) // it may be gone already
			must(t, os.WriteFile(fmt.Sprintf("%s/new%d", dirs[round%2], gone), nil, 0o644))
			gone += 4
		}
		// What this reader was told last goes too.
		if err := os.Remove(dirs[1] + "/" + last.name); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		removed[last.name] = true
		if round > 1 { // another reader finds the cache old, and drops it
			_, err := os.ReadDir(dirs[0])
			must(t, err)
		}
		from.rest(seen)
		for i := range names {
			name := fmt.Sprint("f", i)
			stays := !removed[name] && (i%4 != 0 || i >= gone)
			if n := seen[name]; n > 1 || n == 0 && stays {
				t.Fatalf("round %d: %s told %d times", round, name, n)
			}
		}
	}
}

// TestSeekdir: an offset that was told leads to the same name again, from any
// handle, whatever else has gone meanwhile.
func TestSeekdir(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	dir := s.mount("m", Config{}) + "/d"
	must(t, os.Mkdir(dir, 0o755))
	for i := range 500 {
		must(t, os.WriteFile(fmt.Sprintf("%s/f%d", dir, i), nil, 0o644))
	}
	var all []dirName
	for from := openStream(t, dir); ; {
		names := from.next()
		if len(names) == 0 {
			break
		}
		all = append(all, names...)
	}
	if len(all) != 500 {
		t.Fatalf("%d names", len(all))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 { // every fifth, below, stays
		if i%5 != 0 {
			must(t, os.Remove(dir+"/"+all[i].name))
		}
	}
	from := openStream(t, dir)
	from.next() // from the start: a listing that is kept is looked at only then
	for range 50 {
		k := r.IntN(99) / 5 * 5
		_, err := unix.Seek(from.fd, all[k].off, unix.SEEK_SET)
		must(t, err)
		want := all[k+5].name
		if k+5 >= 100 {
			want = all[100].name
		}
		if got := from.next(); len(got) == 0 || got[0].name != want {
			t.Fatalf("after %s: %v, want %s", all[k].name, got, want)
		}
	}
}
