package fusefs

import (
	"sync/atomic"

	"github.com/warrenfs/warren/backend/latency"
)

// opcode numbers the requests that are counted.
type opcode uint8

const (
	opLookup opcode = iota
	opForget
	opGetattr
	opSetattr
	opReadlink
	opSymlink
	opMknod
	opMkdir
	opUnlink
	opRmdir
	opRename
	opLink
	opOpen
	opRead
	opWrite
	opStatfs
	opRelease
	opFsync
	opSetxattr
	opGetxattr
	opListxattr
	opRemovexattr
	opFlush
	opOpendir
	opReaddir
	opReaddirplus
	opReleasedir
	opFsyncdir
	opGetlk
	opSetlk
	opSetlkw
	opAccess
	opCreate
	opIoctl
	opFallocate
	opLseek
	opCopyFileRange
	opTmpfile
	opStatx
	numRequests
	// What the daemon sent by itself.
	noteEntry opcode = iota - 1
	noteInode
	noteEpoch
	noteRetry
	noteOverdue
	numOps
)

var opNames = [numOps]string{
	opLookup: "LOOKUP", opForget: "FORGET", opGetattr: "GETATTR", opSetattr: "SETATTR",
	opReadlink: "READLINK", opSymlink: "SYMLINK", opMknod: "MKNOD", opMkdir: "MKDIR",
	opUnlink: "UNLINK", opRmdir: "RMDIR", opRename: "RENAME", opLink: "LINK", opOpen: "OPEN",
	opRead: "READ", opWrite: "WRITE", opStatfs: "STATFS", opRelease: "RELEASE", opFsync: "FSYNC",
	opSetxattr: "SETXATTR", opGetxattr: "GETXATTR", opListxattr: "LISTXATTR",
	opRemovexattr: "REMOVEXATTR", opFlush: "FLUSH", opOpendir: "OPENDIR", opReaddir: "READDIR",
	opReaddirplus: "READDIRPLUS", opReleasedir: "RELEASEDIR", opFsyncdir: "FSYNCDIR",
	opGetlk: "GETLK", opSetlk: "SETLK", opSetlkw: "SETLKW", opAccess: "ACCESS", opCreate: "CREATE",
	opIoctl: "IOCTL", opFallocate: "FALLOCATE", opLseek: "LSEEK", opCopyFileRange: "COPY_FILE_RANGE",
	opTmpfile: "TMPFILE", opStatx: "STATX",
	noteEntry: "INVAL_ENTRY", noteInode: "INVAL_INODE", noteEpoch: "INC_EPOCH", noteRetry: "RETRY", noteOverdue: "OVERDUE",
}

// counters counts one mount's requests and notifications. Nothing in it locks or
// allocates.
type counters struct {
	n    [numOps]atomic.Uint64
	took [numRequests]latency.Histogram // of those that were answered; FORGET is not
}

func (c *counters) add(o opcode) { c.n[o].Add(1) }

// counts is what counters had at one time.
type counts struct {
	n    [numOps]uint64
	took [numRequests]latency.Snapshot
}

// fold adds what from has so far.
func (c *counts) fold(from *counters) {
	for o := range c.n {
		c.n[o] += from.n[o].Load()
	}
	for o := range c.took {
		c.took[o].Add(from.took[o].Snapshot())
	}
}

func (c *counters) snapshot() *counts {
	out := new(counts)
	out.fold(c)
	return out
}

// requests gives the counts that are not 0, by opcode.
func (c *counts) requests() map[string]uint64 { return c.named(0, numRequests) }

// notices gives the counts that are not 0 of what was sent to kernels, by kind.
func (c *counts) notices() map[string]uint64 { return c.named(noteEntry, numOps) }

func (c *counts) named(from, to opcode) map[string]uint64 {
	out := make(map[string]uint64)
	for o := from; o < to; o++ {
		if c.n[o] > 0 {
			out[opNames[o]] = c.n[o]
		}
	}
	return out
}

// latencies gives those of opcodes that were answered.
func (c *counts) latencies() map[string]latency.Snapshot {
	out := make(map[string]latency.Snapshot)
	for o := range c.took {
		if s := c.took[o]; s.Count() > 0 {
			out[opNames[o]] = s
		}
	}
	return out
}

// sums is what a hub counts besides its mounts.
type sums struct {
	waits latency.Histogram // of changes, for other mounts' kernels
	past  counts            // of the mounts that are gone; guarded by Hub.mu
}

// Totals are the figures of all mounts that a hub has had.
type Totals struct {
	Mounts   int                         // there are
	Requests map[string]uint64           // by opcode, since the hub was made
	Latency  map[string]latency.Snapshot // of requests answered, by opcode; FORGET has no answer
	Notices  map[string]uint64           // sent to kernels, by kind
	// Waits is how long changes waited until the kernels of other mounts had
	// taken their notices.
	Waits   latency.Snapshot
	Nodes   int // that kernels hold, each counted for every mount
	Handles int // open files and directories
}

// Totals gives the figures of all mounts, those that are gone included. No
// count is ever smaller than it was.
func (h *Hub) Totals() Totals {
	h.mu.Lock()
	sum, kernels := h.sums.past, *h.kernels.Load()
	for _, k := range kernels {
		sum.fold(k.count)
	}
	h.mu.Unlock()
	t := Totals{Requests: sum.requests(), Notices: sum.notices(), Latency: sum.latencies(), Waits: h.sums.waits.Snapshot()}
	for _, k := range kernels {
		t.Nodes += k.size()
	}
	for _, m := range h.Mounts() {
		t.Mounts++
		t.Handles += m.fs.handles.size()
	}
	return t
}
