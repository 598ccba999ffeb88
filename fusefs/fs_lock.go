package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/fusefs/filelock"
)

// lock reads a lock request. ok is false for one that makes no sense.
func (f *fileSystem) lock(in *fuse.LkIn) (l filelock.Lock, h *handle, st fuse.Status) {
	node := f.node(in.NodeId)
	if isControl(node) {
		return l, nil, fuse.ENOTSUP
	}
	if h = f.handles.get(in.Fh, node); h == nil {
		return l, nil, fuse.EBADF
	}
	if in.Lk.Typ != syscall.F_UNLCK {
		if err := f.seen(&in.InHeader, node); err != nil {
			return l, nil, f.status("lock", err)
		}
	}
	l = filelock.Lock{
		Owner:  filelock.Owner{Mount: f.conn, ID: in.Owner},
		Start:  in.Lk.Start,
		End:    min(in.Lk.End, filelock.MaxEnd),
		Write:  in.Lk.Typ == syscall.F_WRLCK,
		PID:    f.handed.pid(in.Lk.Pid),
		Handle: h.id,
		Lazy:   h.lazy,
	}
	if in.LkFlags&fuse.FUSE_LK_FLOCK != 0 {
		l.Start, l.End, l.Lazy = 0, filelock.MaxEnd, true
	}
	if l.Start > l.End {
		return l, nil, fuse.EINVAL
	}
	return l, h, fuse.OK
}

// seen fails when the view does not see node any more: a handle that was open
// before gives no right.
func (f *fileSystem) seen(in *fuse.InHeader, node nodeID) error {
	if isControl(node) {
		return nil
	}
	r := f.request(in)
	_, err := f.view.Getattr(&r, node)
	return err
}

func (f *fileSystem) GetLk(_ <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	f.count.add(opGetlk)
	l, h, st := f.lock(in)
	if st != fuse.OK {
		return st
	}
	out.Lk = in.Lk
	out.Lk.Typ = syscall.F_UNLCK
	if have, ok := f.hub.posix.Test(h.node, l); ok {
		out.Lk = fuse.FileLock{Start: have.Start, End: have.End, Typ: syscall.F_RDLCK, Pid: have.PID}
		if have.Write {
			out.Lk.Typ = syscall.F_WRLCK
		}
	}
	return fuse.OK
}

func (f *fileSystem) SetLk(_ <-chan struct{}, in *fuse.LkIn) fuse.Status {
	f.count.add(opSetlk)
	return f.setLock(nil, in)
}

// SetLkw waits until it has the lock, or the view has lost the file (ENOENT). It
// is the only request that a signal ends.
func (f *fileSystem) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	f.count.add(opSetlkw)
	return f.setLock(cancel, in)
}

func (f *fileSystem) setLock(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	l, h, st := f.lock(in)
	if st != fuse.OK {
		return st
	}
	table, set := f.hub.posix, f.hub.posix.Set
	if in.LkFlags&fuse.FUSE_LK_FLOCK != 0 {
		table, set = f.hub.flock, f.hub.flock.Convert
	}
	if in.Lk.Typ == syscall.F_UNLCK {
		table.Unlock(h.node, l.Owner, l.Start, l.End)
		return fuse.OK
	}
	if err := set(h.node, l, cancel); err != nil {
		return f.status("lock", err)
	}
	// The view may have lost the file since it was looked at: either a revocation
	// comes after this and takes the lock, or this sees that one came.
	if err := f.seen(&in.InHeader, h.node); err != nil {
		table.Revoke(h.node, f.conn)
		return f.status("lock", err)
	}
	// A release or the end of the mount may have come while this waited.
	if f.handles.get(h.id, h.node) == nil {
		table.ReleaseHandle(h.node, f.conn, h.id)
		return fuse.EBADF
	}
	return fuse.OK
}
