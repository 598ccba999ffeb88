package fusefs

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// fsType is the type of our mounts in /proc/self/mountinfo.
const fsType = "fuse.warren"

// mountEntry is one line of /proc/self/mountinfo.
type mountEntry struct {
	dir    string
	minor  uint32 // of the device number: the number of the FUSE connection
	fsType string
	uid    uint32 // whose mount it is, if it is a FUSE mount
	gid    uint32
}

// mountTable reads this process's mounts. It is how the daemon looks at its
// own: it never touches a file in them, which would wait for itself.
func mountTable() ([]mountEntry, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []mountEntry
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if e, ok := parseMount(s.Text()); ok {
			out = append(out, e)
		}
	}
	return out, s.Err()
}

// parseMount reads "36 35 0:52 / /mnt rw - fuse.warren source opts".
func parseMount(line string) (mountEntry, bool) {
	before, after, ok := strings.Cut(line, " - ")
	left, right := strings.Fields(before), strings.Fields(after)
	if !ok || len(left) < 5 || len(right) < 1 {
		return mountEntry{}, false
	}
	_, minor, _ := strings.Cut(left[2], ":")
	n, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return mountEntry{}, false
	}
	e := mountEntry{dir: unescape(left[4]), minor: uint32(n), fsType: right[0]}
	for opt := range strings.SplitSeq(right[len(right)-1], ",") {
		name, value, _ := strings.Cut(opt, "=")
		id, err := strconv.ParseUint(value, 10, 32)
		switch {
		case err != nil:
		case name == "user_id":
			e.uid = uint32(id)
		case name == "group_id":
			e.gid = uint32(id)
		}
	}
	return e, true
}

// unescape undoes the octal escapes of mountinfo.
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

// topMount finds what is mounted at dir, the last one over others.
func topMount(dir string) (mountEntry, bool) {
	table, err := mountTable()
	if err != nil {
		return mountEntry{}, false
	}
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].dir == dir {
			return table[i], true
		}
	}
	return mountEntry{}, false
}

// countMounts tells how many mounts are at dir, over each other.
func countMounts(dir string) int {
	table, _ := mountTable()
	n := 0
	for _, e := range table {
		if e.dir == dir {
			n++
		}
	}
	return n
}

// stillMounted tells whether the connection minor is mounted at dir.
func stillMounted(dir string, minor uint32) bool {
	table, _ := mountTable()
	for _, e := range table {
		if e.dir == dir && e.minor == minor && e.fsType == fsType {
			return true
		}
	}
	return false
}
