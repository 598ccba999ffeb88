package tree_test

import (
	"sort"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// model is the small reference: a filesystem of plain Go maps, written from
// what POSIX says and sharing nothing with the tree.
type model struct{ root *mnode }

type mnode struct {
	typ      backend.FileType
	mode     uint32
	nlink    uint32
	data     []byte
	target   string
	children map[string]*mnode
	parent   *mnode // of a directory
	xattrs   map[string]string
	ino      backend.Ino
}

func newModel() *model {
	return &model{root: &mnode{typ: backend.TypeDir, nlink: 1, children: map[string]*mnode{}, ino: backend.RootIno}}
}

func (m *model) create(dir *mnode, name string, typ backend.FileType, mode uint32, target string) (*mnode, error) {
	if dir.nlink == 0 {
		return nil, backend.NotFound
	}
	if dir.children[name] != nil {
		return nil, backend.Exist
	}
	n := &mnode{typ: typ, mode: mode, nlink: 1, target: target, xattrs: map[string]string{}}
	if typ == backend.TypeDir {
		n.children, n.parent = map[string]*mnode{}, dir
	}
	if typ == backend.TypeSymlink {
		n.mode = 0o777
	}
	dir.children[name] = n
	return n, nil
}

func (m *model) link(n, dir *mnode, name string) error {
	switch {
	case n.typ == backend.TypeDir:
		return backend.NotPermitted
	case n.nlink == 0:
		return backend.NotFound
	case dir.nlink == 0:
		return backend.NotFound
	case dir.children[name] != nil:
		return backend.Exist
	}
	n.nlink++
	dir.children[name] = n
	return nil
}

// replace gives n the name, whatever has it.
func (m *model) replace(n, dir *mnode, name string) error {
	old := dir.children[name]
	switch {
	case dir.nlink == 0:
		return backend.NotFound
	case old != nil && old.typ == backend.TypeDir:
		return backend.IsDir
	case n.nlink == 0:
		return backend.NotFound
	case old == n:
		return nil
	}
	if old != nil {
		old.nlink--
	}
	n.nlink++
	dir.children[name] = n
	return nil
}

func (m *model) remove(dir *mnode, name string, rmdir bool) error {
	n := dir.children[name]
	switch {
	case n == nil:
		return backend.NotFound
	case rmdir && n.typ != backend.TypeDir:
		return backend.NotDir
	case !rmdir && n.typ == backend.TypeDir:
		return backend.IsDir
	case rmdir && len(n.children) > 0:
		return backend.NotEmpty
	}
	delete(dir.children, name)
	n.nlink--
	return nil
}

func (m *model) within(dir, top *mnode) bool {
	for d := dir; d != nil; d = d.parent {
		if d == top {
			return true
		}
	}
	return false
}

func (m *model) rename(from *mnode, a string, to *mnode, b string, flags tree.RenameFlags) error {
	if from.nlink == 0 || to.nlink == 0 {
		return backend.NotFound
	}
	src, dst := from.children[a], to.children[b]
	if src == nil {
		return backend.NotFound
	}
	if src.typ == backend.TypeDir && m.within(to, src) {
		return backend.Invalid
	}
	if flags == tree.Exchange && dst == nil {
		return backend.NotFound
	}
	if flags&tree.NoReplace != 0 && dst != nil {
		return backend.Exist
	}
	if src == dst {
		return nil
	}
	if flags == tree.Exchange {
		if dst.typ == backend.TypeDir && m.within(from, dst) {
			return backend.Invalid
		}
		from.children[a], to.children[b] = dst, src
		m.reparent(src, to)
		m.reparent(dst, from)
		return nil
	}
	if dst != nil {
		switch {
		case src.typ == backend.TypeDir && dst.typ != backend.TypeDir:
			return backend.NotDir
		case src.typ != backend.TypeDir && dst.typ == backend.TypeDir:
			return backend.IsDir
		case dst.typ == backend.TypeDir && len(dst.children) > 0:
			return backend.NotEmpty
		}
		dst.nlink--
	}
	delete(from.children, a)
	to.children[b] = src
	m.reparent(src, to)
	if flags&tree.Whiteout != 0 {
		from.children[a] = &mnode{typ: backend.TypeChar, nlink: 1, xattrs: map[string]string{}}
	}
	return nil
}

func (m *model) reparent(n, dir *mnode) {
	if n.typ == backend.TypeDir {
		n.parent = dir
	}
}

func (n *mnode) write(p []byte, off int) {
	n.resize(max(len(n.data), off+len(p)))
	copy(n.data[off:], p)
}

func (n *mnode) resize(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size:size]
		return
	}
	n.data = append(n.data, make([]byte, size-len(n.data))...)
}

func (n *mnode) zero(off, end int) {
	clear(n.data[min(off, len(n.data)):min(end, len(n.data))])
}

func (n *mnode) names() []string {
	var out []string
	for name := range n.children {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// walk calls fn with every directory, parents first.
func (m *model) walk(fn func(path string, dir *mnode)) {
	var rec func(string, *mnode)
	rec = func(p string, d *mnode) {
		fn(p, d)
		for _, name := range d.names() {
			if c := d.children[name]; c.typ == backend.TypeDir {
				rec(p+"/"+name, c)
			}
		}
	}
	rec("", m.root)
}
