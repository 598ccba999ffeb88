// Package dirfs is one flat directory of files, as the redo log and the
// segments keep theirs.
//
//   - [FS] and [File] are the directory; [Open] gives one on a disk. Tests bring
//     their own (backend/internal/crashdir), to break it.
//   - [Full] and [Error] tell a disk without room from one that fails.
//
// Nothing here locks: a file's methods are safe for use by several goroutines,
// as those of os.File are.
package dirfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// FS is the directory. Names have no slashes. Implementations are safe for use
// by several goroutines.
type FS interface {
	// Create makes a new file for reading and writing; one that exists is an error.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// List gives the names of all files in any order.
	List() ([]string, error)
	// Rename moves from to a name that nothing has.
	Rename(from, to string) error
	// Remove unlinks a file, which may be open.
	Remove(name string) error
	// SyncDir makes every Create, Rename and Remove so far survive a power cut.
	SyncDir() error
	// Free is the number of bytes that may still be written.
	Free() (int64, error)
	// Run is the machine's run that the directory is used in.
	Run() Run
}

// Run names a time without a power cut: one mount of a filesystem in one boot of the
// kernel. A process that is killed does not end it. Zero: not known.
type Run [16]byte

// File is one file of the directory. After a failed Sync a second one proves
// nothing about bytes written before the first.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Size is the file's length, and how much of the disk it takes, in bytes.
	Size() (length, used int64, err error)
	// Truncate cuts the file.
	Truncate(size int64) error
	// Allocate reserves the space of a new, empty file and makes it size bytes
	// long. After an error it is empty again.
	Allocate(size int64) error
	// Punch gives back the space of n bytes at at, which read as zeros from then on.
	Punch(at, n int64) error
	// Sync makes all bytes written so far survive a power cut.
	Sync() error
	Close() error
}

// dirFS is a directory of the operating system.
type dirFS struct{ dir string }

var _ FS = dirFS{}

// Open gives the directory dir, made with mode 0700 if it is not there.
func Open(dir string) (FS, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, Error("make directory", dir, err)
		}
		if err := (dirFS{filepath.Dir(dir)}).SyncDir(); err != nil {
			return nil, Error("make directory", dir, err)
		}
	}
	return dirFS{dir}, nil
}

func (d dirFS) Create(name string) (File, error) {
	return d.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (d dirFS) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d dirFS) open(name string, flags int) (File, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d dirFS) List() ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (d dirFS) Rename(from, to string) error {
	return os.Rename(filepath.Join(d.dir, from), filepath.Join(d.dir, to))
}

func (d dirFS) Remove(name string) error { return os.Remove(filepath.Join(d.dir, name)) }

func (d dirFS) SyncDir() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), osFile{f}.control(Synced), f.Close())
}

func (d dirFS) Run() (r Run) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var st unix.Statx_t
	if err == nil {
		err = unix.Statx(unix.AT_FDCWD, d.dir, 0, unix.STATX_MNT_ID_UNIQUE, &st)
	}
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 { // Linux before 6.8
		return Run{}
	}
	sum := sha256.Sum256(fmt.Appendf(boot, "%d", st.Mnt_id))
	copy(r[:], sum[:])
	return r
}

func (d dirFS) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// osFile is a file of the operating system.
type osFile struct{ *os.File }

var _ File = osFile{}

func (f osFile) Size() (length, used int64, err error) {
	var st unix.Stat_t
	err = f.control(func(fd int) error { return unix.Fstat(fd, &st) })
	return st.Size, st.Blocks * 512, err
}

// Allocate uses fallocate(2), so that later writes change no size: fdatasync(2)
// then has less to write.
func (f osFile) Allocate(size int64) error {
	err := f.control(func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
	if err != nil {
		_ = f.Truncate(0) // of a full disk it may have got a part
	}
	return err
}

func (f osFile) Punch(at, n int64) error {
	return f.control(func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
	})
}

// Dropper is a File that has a cache. Drop lets it forget what it has of [off, off+n),
// whole pages, where that is not waiting to be written.
//
// It comes before bytes are written again after a failed Sync. ext4 keeps with a page where
// it is on the disk, and after a failed write takes blocks that were only allocated
// for written: a page that is written again goes there, its Sync works, and the
// next mount gives zeros. A page that is new is looked up anew.
type Dropper interface {
	Drop(off, n int64)
}

var _ Dropper = osFile{}

// Drop implements Dropper, by posix_fadvise(2). That it fails does no harm that a
// failed Sync has not done.
func (f osFile) Drop(off, n int64) {
	page := int64(os.Getpagesize())
	from, to := off/page*page, (off+n+page-1)/page*page
	_ = f.control(func(fd int) error { return unix.Fadvise(fd, from, to-from, unix.FADV_DONTNEED) })
}

// Sync is fdatasync(2), and [Synced].
func (f osFile) Sync() error {
	return f.control(func(fd int) error {
		if err := unix.Fdatasync(fd); err != nil {
			return err
		}
		return Synced(fd)
	})
}

// Synced tells whether a sync of the open file fd that has just said so was true. When
// the disk fails while ext4 syncs, it gives its journal up, and then says that all is on the disk
// though blocks that were only allocated are still noted as never written, and read as zeros after the
// next mount (kernel 6.18; a fifth of the failing disks of scripts/crashtest). It
// refuses changes from then on. So the file's time of change is set: the first time the
// filesystem may find out that the journal is gone, the second time it says so. That is no I/O, a
// few microseconds. Errors: EROFS, EIO.
func Synced(fd int) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_NOW}}
	for range 2 {
		switch err := unix.UtimesNanoAt(fd, "", now, unix.AT_EMPTY_PATH); err {
		case unix.EROFS, unix.EIO:
			return err
		}
	}
	return nil
}

func (f osFile) control(call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = c.Control(func(fd uintptr) {
		for {
			if failed = call(int(fd)); failed != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

// Full tells whether err means that there is no room.
func Full(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, backend.NoSpace},
		func(e error) bool { return errors.Is(err, e) })
}

// Error returns err with a Kind: NoSpace if the disk is full, DiskReadOnly if the
// disk accepts no writes, IO otherwise.
func Error(op, name string, err error) error {
	kind := backend.IO
	switch {
	case Full(err):
		kind = backend.NoSpace
	case errors.Is(err, unix.EROFS), backend.KindOf(err) == backend.DiskReadOnly:
		kind = backend.DiskReadOnly
	}
	return &backend.Error{Op: op, Path: name, Kind: kind, Err: err}
}
