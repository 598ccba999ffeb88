// Package mountinfo reads the mounts of this process as the kernel tells them
// (proc_pid_mountinfo(5)). It touches none of them: a look at a FUSE mount would
// wait for its daemon, which may be who asks.
package mountinfo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Entry is one mount.
type Entry struct {
	ID     int // of the mount; another may have it once this one is gone
	Parent int // ID of the mount that Dir is in

	Root  string // what of the filesystem is mounted: "/", or a directory in it
	Dir   string // mountpoint
	Type  string // of the filesystem, as "fuse.warren"
	Minor uint32 // of the device number: of a FUSE mount, the number of the connection
	UID   uint32 // user_id of a FUSE mount, else 0
	GID   uint32 // group_id
}

// Read lists the mounts of this process, those beneath before those over them.
func Read() ([]Entry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads a table. After a line that is none of mountinfo's the error says
// so; the entries of all others are given beside it.
func Parse(r io.Reader) ([]Entry, error) {
	var out []Entry
	var bad error
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		e, ok := parse(s.Text())
		switch {
		case ok:
			out = append(out, e)
		case bad == nil:
			bad = fmt.Errorf("mountinfo: cannot read line %q", s.Text())
		}
	}
	if err := s.Err(); err != nil {
		return out, err
	}
	return out, bad
}

// At finds the mount that dir leads to; dir is absolute, clean, and free of symbolic
// links. Its Dir is dir where that is a mountpoint. Mounts that others hide, which
// were made over them or over a directory above, are not found. ok is false
// if the table does not tell.
func At(table []Entry, dir string) (at Entry, ok bool) {
	known := make(map[int]bool, len(table))
	for _, e := range table {
		known[e.ID] = true
	}
	within := func(e *Entry) bool { // the mount reached so far, or nothing that is in the table
		return ok && e.Parent == at.ID && e.ID != at.ID || !ok && (e.Parent == e.ID || !known[e.Parent])
	}
	for end := 0; end <= len(dir); end++ {
		if end < len(dir) && end > 0 && dir[end] != '/' {
			continue
		}
		for i := 0; i < len(table); i++ { // again from the start where one was found
			if e := &table[i]; e.Dir == max(dir[:end], "/") && within(e) {
				at, ok, i = *e, true, -1
			}
		}
	}
	return at, ok
}

// parse reads "36 35 0:52 / /mnt rw - fuse.warren source opts".
func parse(line string) (Entry, bool) {
	before, after, ok := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 6 || len(right) < 2 {
		return Entry{}, false
	}
	_, minor, _ := strings.Cut(left[2], ":")
	n, err := strconv.ParseUint(minor, 10, 32)
	id, ierr := strconv.Atoi(left[0])
	parent, perr := strconv.Atoi(left[1])
	if err != nil || ierr != nil || perr != nil {
		return Entry{}, false
	}
	e := Entry{ID: id, Parent: parent, Root: unescape(left[3]), Dir: unescape(left[4]), Type: right[0], Minor: uint32(n)}
	for opt := range strings.SplitSeq(right[len(right)-1], ",") {
		name, value, _ := strings.Cut(opt, "=")
		id, err := strconv.ParseUint(value, 10, 32)
		switch {
		case err != nil:
		case name == "user_id":
			e.UID = uint32(id)
		case name == "group_id":
			e.GID = uint32(id)
		}
	}
	return e, true
}

// unescape undoes the \ooo of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
