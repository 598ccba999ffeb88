package fusefs

import (
	"slices"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
)

const aclPrefix = "system.posix_acl_"

// refused tells whether an xattr is a POSIX ACL where nothing would enforce it.
func (f *fileSystem) refused(name string) bool {
	return !f.acl && strings.HasPrefix(name, aclPrefix)
}

func (f *fileSystem) GetXAttr(_ <-chan struct{}, in *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	f.count.add(opGetxattr)
	node := f.node(in.NodeId)
	switch {
	case f.refused(name):
		return 0, fuse.ENOTSUP
	case isControl(node):
		return 0, fuse.ENODATA
	}
	r := f.request(in)
	v, err := f.view.GetXattr(&r, node, name)
	if err != nil {
		return 0, f.status("getxattr", err)
	}
	return answer(dest, v)
}

func (f *fileSystem) ListXAttr(_ <-chan struct{}, in *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	f.count.add(opListxattr)
	node := f.node(in.NodeId)
	if isControl(node) {
		return 0, fuse.OK
	}
	r := f.request(in)
	names, err := f.view.ListXattr(&r, node)
	if err != nil {
		return 0, f.status("listxattr", err)
	}
	var v []byte
	// Local file systems tell nobody else of trusted attributes.
	trusted := func(n string) bool { return strings.HasPrefix(n, "trusted.") }
	if slices.ContainsFunc(names, trusted) && !f.may(in.Pid, capSysAdmin) {
		names = slices.DeleteFunc(slices.Clone(names), trusted)
	}
	for _, n := range names {
		v = append(append(v, n...), 0)
	}
	return answer(dest, v)
}

// answer copies v if it fits; an empty dest asks for the size.
func answer(dest, v []byte) (uint32, fuse.Status) {
	if len(v) > len(dest) {
		return uint32(len(v)), fuse.ERANGE
	}
	return uint32(copy(dest, v)), fuse.OK
}

func (f *fileSystem) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	f.count.add(opSetxattr)
	const create, replace = 1, 2
	node := f.node(in.NodeId)
	if f.refused(name) || isControl(node) {
		return fuse.ENOTSUP
	}
	if len(data) > backend.MaxXattrVal {
		return fuse.Status(errnos[backend.NoSpace]) // as ext4 says of a value that does not fit
	}
	r := f.request(&in.InHeader)
	r.KillPriv = f.acl && in.SetXAttrFlags&fuse.SETXATTR_ACL_KILL_SGID != 0
	return f.status("setxattr", f.view.SetXattr(&r, node, name, data, in.Flags&create != 0, in.Flags&replace != 0))
}

func (f *fileSystem) RemoveXAttr(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	f.count.add(opRemovexattr)
	node := f.node(in.NodeId)
	if f.refused(name) || isControl(node) {
		return fuse.ENOTSUP
	}
	r := f.request(in)
	err := f.view.RemoveXattr(&r, node, name)
	if backend.KindOf(err) == backend.NoData && strings.HasPrefix(name, aclPrefix) {
		return fuse.OK // to have no ACL is what was asked for
	}
	return f.status("removexattr", err)
}
