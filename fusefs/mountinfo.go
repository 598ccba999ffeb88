package fusefs

import "github.com/warrenfs/warren/fusefs/mountinfo"

// fsType is the type of our mounts in /proc/self/mountinfo.
const fsType = "fuse.warren"

// mountEntry is one mount of this process.
type mountEntry struct{ mountinfo.Entry }

// mountTable reads this process's mounts. It is how the daemon looks at its
// own: it never touches a file in them, which would wait for itself. What could
// not be read is an error, beside what could.
func mountTable() ([]mountEntry, error) {
	table, err := mountinfo.Read()
	out := make([]mountEntry, len(table))
	for i, e := range table {
		out[i] = mountEntry{e}
	}
	return out, err
}

// topMount finds what is mounted at dir, the last one over others.
func topMount(dir string) (mountEntry, bool) {
	table, _ := mountTable()
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].Dir == dir {
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
		if e.Dir == dir {
			n++
		}
	}
	return n
}

// stillMounted tells whether the connection minor is mounted at dir, as it is
// taken to be while the table cannot be read.
func stillMounted(dir string, minor uint32) bool {
	table, err := mountTable()
	if err != nil && len(table) == 0 {
		return true
	}
	for _, e := range table {
		if e.Dir == dir && e.Minor == minor && e.Type == fsType {
			return true
		}
	}
	return false
}
