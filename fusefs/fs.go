package fusefs

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// rootID is FUSE's own number for the root of a mount.
const rootID = fuse.FUSE_ROOT_ID

// generation goes with every node id: ids are never used twice.
const generation = 1

// fileSystem answers the requests of one mount from its view. Its methods are
// called from many goroutines; it holds no lock of its own across a call of the
// view.
type fileSystem struct {
	fuse.RawFileSystem // ENOSYS for what a later go-fuse may add

	ctx   context.Context // of calls that wait for the disk; never cancelled by a signal
	log   *slog.Logger
	hub   *Hub
	view  *view.View
	kern  *kernel
	count *counters
	ctl   *control

	conn    uint64 // number of this mount, in the daemon's life
	minor   uint32 // of its device number
	acl     bool   // the kernel enforces POSIX ACLs
	modes   bool   // the view checks mode bits, not the kernel
	ttl     timeouts
	handles handleTable
	handed  *squash // of a mount that was handed over; nil: the daemon made it
}

// timeouts are granted with answers.
type timeouts struct {
	entry, attr, negative time.Duration
}

var (
	// longTimeouts are for kernels that can be told of every change.
	longTimeouts = timeouts{entry: 365 * 24 * time.Hour, attr: 365 * 24 * time.Hour, negative: 365 * 24 * time.Hour}
	// shortTimeouts are for kernels without INC_EPOCH, which miss changes made
	// while they change names themselves.
	shortTimeouts = timeouts{entry: time.Second, attr: time.Second, negative: time.Second}
)

var _ fuse.RawFileSystem = (*fileSystem)(nil)

func (f *fileSystem) String() string       { return "warren" }
func (f *fileSystem) SetDebug(bool)        {}
func (f *fileSystem) Init(_ *fuse.Server)  {}
func (f *fileSystem) OnUnmount()           {}
func (f *fileSystem) node(w uint64) nodeID { return f.told(f.kern.unwire(w)) }

// nodeID shortens signatures in this package.
type nodeID = backend.NodeID

// unwire gives the node that the kernel knows as w.
func (k *kernel) unwire(w uint64) nodeID {
	if w == rootID {
		return k.root
	}
	return nodeID(w)
}

// request tells the view who asks.
func (f *fileSystem) request(h *fuse.InHeader) view.Request {
	f.kern.alive(h.Pid)
	if q := f.handed; q != nil {
		return view.Request{UID: q.uid, GID: q.gid, Origin: backend.Origin{Conn: f.conn, Request: h.Unique}}
	}
	return view.Request{UID: h.Uid, GID: h.Gid, PID: h.Pid,
		Origin: backend.Origin{Conn: f.conn, Request: h.Unique}}
}

// naming marks a request that changes names as under way until the function it
// returns is called: before the reply is written, when nothing is left to do
// that could wait (docs/coherence.md tells why that is soon enough).
func (f *fileSystem) naming() func() {
	f.kern.naming.Add(1)
	return f.doneNaming
}

func (f *fileSystem) doneNaming() { f.kern.naming.Add(-1) }

// mode gives st_mode.
func mode(a *backend.Attr) uint32 { return uint32(a.Type)<<12 | a.Mode&0o7777 }

func split(t backend.Time) (sec uint64, nsec uint32) {
	s := int64(t) / 1e9
	n := int64(t) % 1e9
	if n < 0 {
		s, n = s-1, n+1e9
	}
	return uint64(s), uint32(n)
}

// fill writes a into the protocol's form.
func fill(out *fuse.Attr, a *backend.Attr) {
	out.Ino = uint64(a.Node)
	out.Size = a.Size
	out.Blocks = a.Blocks
	out.Atime, out.Atimensec = split(a.Atime)
	out.Mtime, out.Mtimensec = split(a.Mtime)
	out.Ctime, out.Ctimensec = split(a.Ctime)
	out.Mode = mode(a)
	out.Nlink = a.Nlink
	out.Uid, out.Gid = a.UID, a.GID
	out.Rdev = a.Rdev
	out.Blksize = backend.BlockSize
}

// entry answers a name that leads to a. The view has told f.kern of it.
func (f *fileSystem) entry(out *fuse.EntryOut, a *backend.Attr) {
	out.NodeId = f.kern.wire(a.Node)
	out.Generation = generation
	out.SetEntryTimeout(f.ttl.entry)
	out.SetAttrTimeout(f.ttl.attr)
	fill(&out.Attr, a)
}

// made answers a name that a request of thread tid made.
func (f *fileSystem) made(tid uint32, out *fuse.EntryOut, a *backend.Attr) fuse.Status {
	f.entry(out, a)
	f.kern.asking(tid, a.Node)
	f.kern.blind(a.Node)
	return fuse.OK
}

func (f *fileSystem) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	f.count.add(opStatfs)
	node := f.node(in.NodeId)
	if isControl(node) {
		node = f.kern.root
	}
	r := f.request(in)
	s, err := f.view.Statfs(&r, node)
	if err != nil {
		return f.status("statfs", err)
	}
	bs := uint64(max(s.BlockSize, 1))
	out.Bsize, out.Frsize = uint32(bs), uint32(bs)
	out.Blocks, out.Bfree, out.Bavail = s.Bytes/bs, s.FreeBytes/bs, s.FreeBytes/bs
	out.Files, out.Ffree = s.Inodes, s.FreeInodes
	out.NameLen = s.MaxNameLen
	return fuse.OK
}

func (f *fileSystem) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	f.count.add(opIoctl)
	return enotty
}

// Access answers access(2) and chdir(2) where the kernel checks no mode bits.
func (f *fileSystem) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	f.count.add(opAccess)
	if !f.modes {
		return fuse.ENOSYS // the kernel answers it itself from now on
	}
	node := f.node(in.NodeId)
	r := f.request(&in.InHeader)
	if isControl(node) {
		a, st := f.ctl.attr(node)
		if st == fuse.OK && in.Mask&^(a.Mode>>6) != 0 && !(callers{}).Capable(in.Pid, capDACOverride, a.UID, a.GID) {
			st = fuse.EACCES
		}
		return st
	}
	return f.status("access", f.view.Permits(&r, node, in.Mask))
}

// clampSize keeps a byte count within what a reply can carry.
func clampSize(n uint64) uint32 { return uint32(min(n, math.MaxInt32&^(backend.BlockSize-1))) }
