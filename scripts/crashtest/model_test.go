package crashtest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
)

// inode is what names in a state lead to; hard links share one.
type inode struct {
	mode   fs.FileMode // type and permissions
	data   []byte      // of a file
	target string      // of a symlink
	links  int
	seen   string // its description, until it changes
}

// state is what a directory should be: inodes by path.
type state map[string]*inode

func (n *inode) describe() string {
	if n.seen == "" {
		switch {
		case n.mode.IsDir():
			n.seen = fmt.Sprint("dir ", n.mode)
		case n.mode.Type() == fs.ModeSymlink:
			n.seen = "link to " + n.target
		default:
			n.seen = fmt.Sprintf("file %v of %d bytes, %d links, %x", n.mode, len(n.data), n.links, sha256.Sum256(n.data))
		}
	}
	return n.seen
}

func (n *inode) changed() { n.seen = "" }

// descriptions are what a walk of the directory must find.
func (s state) descriptions() map[string]string {
	out := make(map[string]string, len(s))
	for p, n := range s {
		out[p] = n.describe()
	}
	return out
}

// is tells whether a walk has found exactly this state.
func (s state) is(found map[string]string) bool {
	if len(s) != len(found) {
		return false
	}
	for p, n := range s {
		if found[p] != n.describe() {
			return false
		}
	}
	return true
}

// clone is a state that does not change with s.
func (s state) clone() state {
	copies := map[*inode]*inode{}
	out := state{}
	for p, n := range s {
		if copies[n] == nil {
			c := *n
			c.data = append([]byte(nil), n.data...)
			copies[n] = &c
		}
		out[p] = copies[n]
	}
	return out
}

// walk describes what is in a directory.
func walk(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		n, err := read(p, d)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		found[rel] = n.describe()
		return err
	})
	return found, err
}

func read(p string, d fs.DirEntry) (*inode, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	n := &inode{mode: info.Mode(), links: int(info.Sys().(*syscall.Stat_t).Nlink)}
	switch {
	case n.mode.Type() == fs.ModeSymlink:
		n.target, err = os.Readlink(p)
	case n.mode.IsRegular():
		n.data, err = os.ReadFile(p)
	}
	return n, err
}

// difference says where a walk and a state differ, at most a few places.
func difference(s state, found map[string]string) string {
	want := s.descriptions()
	out, n := "", 0
	all := maps.Clone(want)
	maps.Copy(all, found)
	for p := range all {
		if want[p] != found[p] && n < 5 {
			out += fmt.Sprintf("\n%s: want %q, found %q", p, want[p], found[p])
			n++
		}
	}
	return out
}
