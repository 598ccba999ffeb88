package fusefs

import (
	"log/slog"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
)

// errnos is the one table from backend.Kind to what the kernel is told.
// Kinds that are missing are EIO.
var errnos = map[backend.Kind]syscall.Errno{
	backend.NotFound:     syscall.ENOENT,
	backend.Exist:        syscall.EEXIST,
	backend.NotDir:       syscall.ENOTDIR,
	backend.IsDir:        syscall.EISDIR,
	backend.NotEmpty:     syscall.ENOTEMPTY,
	backend.Denied:       syscall.EACCES,
	backend.NotPermitted: syscall.EPERM,
	backend.ReadOnly:     syscall.EROFS,
	backend.CrossVolume:  syscall.EXDEV,
	backend.Invalid:      syscall.EINVAL,
	backend.NameTooLong:  syscall.ENAMETOOLONG,
	backend.NoSpace:      syscall.ENOSPC,
	backend.Quota:        syscall.EDQUOT,
	backend.IO:           syscall.EIO,
	backend.Stale:        syscall.ESTALE,
	backend.Busy:         syscall.EBUSY,
	backend.TooBig:       syscall.EFBIG,
	backend.NoData:       syscall.ENODATA,
	backend.Range:        syscall.ERANGE,
	backend.Unsupported:  syscall.ENOTSUP,
	backend.Loop:         syscall.ELOOP,
	backend.TooManyLinks: syscall.EMLINK,
	backend.Interrupted:  syscall.EINTR,
	backend.WouldBlock:   syscall.EAGAIN,
	backend.Deadlock:     syscall.EDEADLK,
	backend.Unavailable:  syscall.EIO,
	backend.NoDevice:     syscall.ENXIO,
	backend.BadHandle:    syscall.EBADF,
	backend.Conflict:     syscall.EEXIST,
	backend.DiskReadOnly: syscall.EROFS,
}

// errnoOf translates err, which must not be nil.
func errnoOf(err error) syscall.Errno {
	if e, ok := errnos[backend.KindOf(err)]; ok {
		return e
	}
	return syscall.EIO
}

// status translates what the view answered. Failures that no program caused are
// logged: the errno alone would not tell an administrator what to do.
func (f *fileSystem) status(op string, err error) fuse.Status {
	if err == nil {
		return fuse.OK
	}
	e := errnoOf(err)
	if e == syscall.EIO {
		f.log.LogAttrs(f.ctx, slog.LevelError, "request failed", slog.String("op", op), slog.Any("err", err))
	}
	return fuse.Status(e)
}
