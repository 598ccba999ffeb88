package main

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const forever = 365 * 24 * time.Hour

// node is an inode; its number is its node id.
type node struct {
	attr     fuse.Attr
	data     []byte // of a file, or the target of a symlink
	children map[string]uint64
	listing  []fuse.DirEntry // of children, until they change
}

// filesystem is everything there is. mu guards all of it.
type filesystem struct {
	fuse.RawFileSystem

	mu    sync.Mutex
	nodes map[uint64]*node
	last  uint64
}

func newFS() *filesystem {
	f := &filesystem{RawFileSystem: fuse.NewDefaultRawFileSystem(), nodes: map[uint64]*node{}}
	f.make(fuse.FUSE_ROOT_ID, syscall.S_IFDIR|0o1777, fuse.Owner{})
	f.last = fuse.FUSE_ROOT_ID
	return f
}

func (f *filesystem) String() string { return "nullfs" }

// make adds an inode. mu held, or nobody else knows f.
func (f *filesystem) make(id uint64, mode uint32, owner fuse.Owner) *node {
	n := &node{attr: fuse.Attr{Ino: id, Mode: mode, Nlink: 1, Owner: owner, Blksize: 4096}}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.children = map[string]uint64{}
	}
	n.touch(true)
	n.attr.Atime, n.attr.Atimensec = n.attr.Mtime, n.attr.Mtimensec
	f.nodes[id] = n
	return n
}

// touch sets ctime, and mtime if what the inode holds has changed.
func (n *node) touch(content bool) {
	t := time.Now()
	n.attr.Ctime, n.attr.Ctimensec = uint64(t.Unix()), uint32(t.Nanosecond())
	if content {
		n.attr.Mtime, n.attr.Mtimensec = n.attr.Ctime, n.attr.Ctimensec
	}
}

// resize makes the data size bytes long.
func (n *node) resize(size uint64) {
	if size <= uint64(len(n.data)) {
		clear(n.data[size:])
		n.data = n.data[:size]
	} else {
		n.data = slices.Grow(n.data, int(size)-len(n.data))[:size]
	}
	n.attr.Size, n.attr.Blocks = size, (size+511)/512
}

// changed tells that a name in the directory was added or removed.
func (n *node) changed() {
	n.listing = nil
	n.touch(true)
}

func (n *node) entry(out *fuse.EntryOut) {
	out.NodeId, out.Attr = n.attr.Ino, n.attr
	out.SetEntryTimeout(forever)
	out.SetAttrTimeout(forever)
}

func (n *node) attrs(out *fuse.AttrOut) {
	out.Attr = n.attr
	out.SetTimeout(forever)
}

// add makes an inode under a name that must not exist. mu held.
func (f *filesystem) add(h *fuse.InHeader, name string, mode uint32) (*node, fuse.Status) {
	dir := f.nodes[h.NodeId]
	if dir == nil || dir.children == nil {
		return nil, fuse.ENOENT
	}
	if _, ok := dir.children[name]; ok {
		return nil, fuse.Status(syscall.EEXIST)
	}
	f.last++
	n := f.make(f.last, mode, h.Owner)
	dir.children[name] = f.last
	dir.changed()
	return n, fuse.OK
}

// remove takes a name away and gives what it named. The inode goes with its
// last name: what is open then cannot be read any more. mu held.
func (f *filesystem) remove(dir *node, name string) {
	n := f.nodes[dir.children[name]]
	delete(dir.children, name)
	dir.changed()
	n.touch(false)
	if n.attr.Nlink--; n.attr.Nlink == 0 || n.children != nil {
		delete(f.nodes, n.attr.Ino)
	}
}
