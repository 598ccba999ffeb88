package main

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func (f *filesystem) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := f.nodes[h.NodeId]
	if dir == nil {
		return fuse.ENOENT
	}
	if n := f.nodes[dir.children[name]]; n != nil {
		n.entry(out)
		return fuse.OK
	}
	out.SetEntryTimeout(forever) // node id 0: the kernel may keep that there is none
	return fuse.OK
}

func (f *filesystem) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.addAndShow(&in.InHeader, name, syscall.S_IFDIR|in.Mode&0o7777, nil, out)
}

func (f *filesystem) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return f.addAndShow(&in.InHeader, name, in.Mode, nil, out)
}

func (f *filesystem) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return f.addAndShow(h, name, syscall.S_IFLNK|0o777, []byte(target), out)
}

func (f *filesystem) addAndShow(h *fuse.InHeader, name string, mode uint32, data []byte, out *fuse.EntryOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, status := f.add(h, name, mode)
	if !status.Ok() {
		return status
	}
	n.data, n.attr.Size = data, uint64(len(data))
	n.entry(out)
	return fuse.OK
}

func (f *filesystem) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, dir := f.nodes[in.Oldnodeid], f.nodes[in.NodeId]
	if n == nil || dir == nil {
		return fuse.ENOENT
	}
	if _, ok := dir.children[name]; ok {
		return fuse.Status(syscall.EEXIST)
	}
	dir.children[name] = in.Oldnodeid
	dir.changed()
	n.attr.Nlink++
	n.touch(false)
	n.entry(out)
	return fuse.OK
}

func (f *filesystem) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := f.nodes[h.NodeId]
	if dir == nil || f.nodes[dir.children[name]] == nil {
		return fuse.ENOENT
	}
	f.remove(dir, name)
	return fuse.OK
}

func (f *filesystem) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := f.nodes[h.NodeId]
	if dir == nil || f.nodes[dir.children[name]] == nil {
		return fuse.ENOENT
	}
	if len(f.nodes[dir.children[name]].children) > 0 {
		return fuse.Status(syscall.ENOTEMPTY)
	}
	f.remove(dir, name)
	return fuse.OK
}

func (f *filesystem) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Flags != 0 {
		return fuse.EINVAL
	}
	from, to := f.nodes[in.NodeId], f.nodes[in.Newdir]
	if from == nil || to == nil || f.nodes[from.children[oldName]] == nil {
		return fuse.ENOENT
	}
	id := from.children[oldName]
	if over := f.nodes[to.children[newName]]; over != nil {
		if len(over.children) > 0 {
			return fuse.Status(syscall.ENOTEMPTY)
		}
		f.remove(to, newName)
	}
	delete(from.children, oldName)
	to.children[newName] = id
	from.changed()
	to.changed()
	f.nodes[id].touch(false)
	return fuse.OK
}

func (f *filesystem) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// list gives the directory's entries in an order that stays until it changes.
// mu held.
func (f *filesystem) list(id uint64) []fuse.DirEntry {
	dir := f.nodes[id]
	if dir == nil {
		return nil
	}
	if dir.listing == nil {
		for name, child := range dir.children {
			dir.listing = append(dir.listing, fuse.DirEntry{Name: name, Ino: child, Mode: f.nodes[child].attr.Mode})
		}
	}
	return dir.listing
}

func (f *filesystem) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.list(in.NodeId)
	for i := in.Offset; i < uint64(len(list)); i++ {
		list[i].Off = i + 1
		if !out.AddDirEntry(list[i]) {
			break
		}
	}
	return fuse.OK
}

func (f *filesystem) ReadDirPlus(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.list(in.NodeId)
	for i := in.Offset; i < uint64(len(list)); i++ {
		list[i].Off = i + 1
		e := out.AddDirLookupEntry(list[i])
		if e == nil {
			break
		}
		f.nodes[list[i].Ino].entry(e)
	}
	return fuse.OK
}
