package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
)

const (
	enotty = fuse.Status(syscall.ENOTTY)
	estale = fuse.Status(syscall.ESTALE)
	eexist = fuse.Status(syscall.EEXIST)
)

// Lookup never waits for another mount: notices to this one may be waiting for
// the lock that the kernel holds meanwhile.
func (f *fileSystem) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	f.count.add(opLookup)
	parent := f.node(in.NodeId)
	if c := f.ctl.at(parent, name); c != nil {
		f.ctl.entry(out, c)
		return fuse.OK
	}
	if isControl(parent) {
		return fuse.ENOENT
	}
	r := f.request(in)
	f.kern.asking(in.Pid, 0)
	a, err := f.view.Lookup(&r, parent, name)
	if err != nil {
		if backend.KindOf(err) == backend.NotFound && f.kern.isAbsent(parent, name) {
			out.SetEntryTimeout(f.ttl.negative)
			return fuse.OK // node id 0: absent, and that may be cached
		}
		return f.status("lookup", err)
	}
	f.kern.asking(in.Pid, a.Node)
	f.entry(out, &a)
	return fuse.OK
}

// Forget must be quick: the transport keeps no second reader for it.
func (f *fileSystem) Forget(nodeid, nlookup uint64) {
	f.count.add(opForget)
	node := f.node(nodeid)
	if f.kern.forget(node, nlookup) {
		f.hub.drop(node)
	}
}

func (f *fileSystem) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.count.add(opGetattr)
	node := f.node(in.NodeId)
	if isControl(node) {
		return f.ctl.getattr(node, &out.Attr)
	}
	r := f.request(&in.InHeader)
	f.kern.asking(in.Pid, node)
	a, err := f.view.Getattr(&r, node)
	if err != nil {
		return f.status("getattr", err)
	}
	out.SetTimeout(f.ttl.attr)
	fill(&out.Attr, &a)
	return fuse.OK
}

// Statx is asked only when a program wants the birth time.
func (f *fileSystem) Statx(_ <-chan struct{}, in *fuse.StatxIn, out *fuse.StatxOut) fuse.Status {
	f.count.add(opStatx)
	node := f.node(in.NodeId)
	if isControl(node) {
		a, st := f.ctl.attr(node)
		fillStatx(&out.Statx, &a)
		return st
	}
	r := f.request(&in.InHeader)
	f.kern.asking(in.Pid, node)
	a, err := f.view.Getattr(&r, node)
	if err != nil {
		return f.status("statx", err)
	}
	out.SetTimeout(f.ttl.attr)
	fillStatx(&out.Statx, &a)
	return fuse.OK
}

// fillStatx writes a into the form of statx(2).
func fillStatx(out *fuse.Statx, a *backend.Attr) {
	const basicAndBirth = 0x7ff | 0x800
	out.Mask = basicAndBirth
	out.Blksize = backend.BlockSize
	out.Nlink, out.Uid, out.Gid = a.Nlink, a.UID, a.GID
	out.Mode = uint16(mode(a))
	out.Ino, out.Size, out.Blocks = uint64(a.Node), a.Size, a.Blocks
	for _, t := range []struct {
		to *fuse.SxTime
		is backend.Time
	}{{&out.Atime, a.Atime}, {&out.Btime, a.Btime}, {&out.Ctime, a.Ctime}, {&out.Mtime, a.Mtime}} {
		t.to.Sec, t.to.Nsec = split(t.is)
	}
	out.RdevMajor, out.RdevMinor = a.Rdev>>8&0xfff, a.Rdev&0xff|a.Rdev>>12&0xfff00
}

func (f *fileSystem) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.count.add(opSetattr)
	node := f.node(in.NodeId)
	if isControl(node) {
		return f.ctl.setattr(f, node, in, &out.Attr)
	}
	r := f.request(&in.InHeader)
	s := setAttrOf(in)
	if f.handed.gives(&s) {
		return fuse.EPERM
	}
	r.KillPriv = in.Valid&fuse.FATTR_KILL_SUIDGID != 0
	r.Handle = in.Valid&fuse.FATTR_FH != 0
	const bothNow = fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW
	r.Touch = in.Valid&bothNow == bothNow
	f.kern.asking(in.Pid, node)
	if s.Size != nil {
		f.kern.settled(node)
	}
	if s == (backend.SetAttr{}) { // chown to -1, -1
		who, known := f.callerOf(in.Pid)
		if r.UID = who.uid; !known || who.caps&(1<<capFowner) != 0 {
			r.UID = 0
		}
	}
	a, err := f.view.Setattr(&r, node, s)
	if err != nil {
		return f.status("setattr", err)
	}
	f.blindTimeout(node, out.SetTimeout)
	fill(&out.Attr, &a)
	return fuse.OK
}

// blindTimeout sets the timeout of attributes that the kernel takes as the
// newest even if it was told, meanwhile, that they changed. None is granted
// where another mount might change them.
func (f *fileSystem) blindTimeout(node nodeID, set func(time.Duration)) {
	if f.hub.shared(f.kern, node) {
		set(0)
		return
	}
	f.kern.blind(node)
	set(f.ttl.attr)
}

// setAttrOf translates what is to change: nothing, for a chown to -1, -1.
func setAttrOf(in *fuse.SetAttrIn) (s backend.SetAttr) {
	now := backend.TimeOf(time.Now())
	at := func(sec uint64, nsec uint32) backend.Time {
		return backend.TimeOfUnix(int64(sec), nsec)
	}
	if in.Valid&fuse.FATTR_MODE != 0 {
		m := in.Mode & 0o7777
		s.Mode = &m
	}
	if in.Valid&fuse.FATTR_UID != 0 {
		u := in.Owner.Uid
		s.UID = &u
	}
	if in.Valid&fuse.FATTR_GID != 0 {
		g := in.Owner.Gid
		s.GID = &g
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		n := in.Size
		s.Size = &n
	}
	if in.Valid&(fuse.FATTR_ATIME|fuse.FATTR_ATIME_NOW) != 0 {
		t := at(in.Atime, in.Atimensec)
		if in.Valid&fuse.FATTR_ATIME_NOW != 0 {
			t = now
		}
		s.Atime = &t
	}
	if in.Valid&(fuse.FATTR_MTIME|fuse.FATTR_MTIME_NOW) != 0 {
		t := at(in.Mtime, in.Mtimensec)
		if in.Valid&fuse.FATTR_MTIME_NOW != 0 {
			t = now
		}
		s.Mtime = &t
	}
	return s
}
