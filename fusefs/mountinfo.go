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

// topMount finds what is mounted at dir, the one over others, if dir leads to it.
func topMount(dir string) (mountEntry, bool) {
	table, _ := mountTable()
	e, ok := mountAt(table, dir)
	return e, ok && e.Dir == dir
}

// mountAt finds the mount that dir leads to; see mountinfo.At.
func mountAt(table []mountEntry, dir string) (mountEntry, bool) {
	plain := make([]mountinfo.Entry, len(table))
	for i, e := range table {
		plain[i] = e.Entry
	}
	at, ok := mountinfo.At(plain, dir)
	return mountEntry{at}, ok
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

// where finds the mount in the tree. It is known by its connection, whose number no
// other has while it lives, and among that one's bind mounts by its own: so it is
// found wherever the directories above it were moved. Once the connection has ended both
// may be another's, and it is looked for at its place only.
func (m *Mount) where() (at mountEntry, there bool, err error) {
	table, err := mountTable()
	if err != nil && len(table) == 0 {
		return at, false, err
	}
	moved := mountEntry{}
	for _, e := range table {
		switch {
		case e.Minor != m.minor || e.Type != fsType:
		case e.ID == m.id && e.Dir != m.cfg.Dir:
			moved = e
		case e.Dir == m.cfg.Dir:
			return e, true, nil
		}
	}
	return moved, moved.Dir != "" && m.fs.kern.dev.live(), nil
}

// Elsewhere tells whether the mount was taken out of the tree by another than the
// daemon, and something elsewhere keeps it alive: a bind mount, a copy in another
// mount namespace, open files.
func (m *Mount) Elsewhere() bool {
	_, there, err := m.where()
	return err == nil && !there
}

// over gives what is mounted over at, or over a directory above, so that its path
// does not lead to it; nil: nothing is. Copies of the same mount do not count, such as
// one that came of mounting in a shared directory that is bound over itself.
func over(at mountEntry) *mountEntry {
	table, err := mountTable()
	if err != nil {
		return nil
	}
	if e, ok := mountAt(table, at.Dir); ok && (e.Dir != at.Dir || e.Minor != at.Minor || e.Type != at.Type) {
		return &e
	}
	return nil
}
