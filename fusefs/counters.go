package fusefs

import "sync/atomic"

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

// counters counts one mount's requests and notifications.
type counters [numOps]atomic.Uint64

func (c *counters) add(o opcode) { c[o].Add(1) }

// snapshot gives the counts that are not 0 of opcodes [from, to) by name.
func (c *counters) snapshot(from, to opcode) map[string]uint64 {
	out := make(map[string]uint64)
	for o := from; o < to; o++ {
		if n := c[o].Load(); n > 0 {
			out[opNames[o]] = n
		}
	}
	return out
}
