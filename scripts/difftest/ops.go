package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// kind is a kind of calls.
type kind struct {
	weight int
	draw   func(x *run) (string, call)
}

// kinds are all there are.
func kinds() []kind {
	return []kind{
		{22, drawOpen}, {1, drawClose}, {6, drawRead}, {14, drawWrite}, {3, drawSeek}, {5, drawTruncate}, {4, drawFallocate}, {3, drawCopy},
		{5, drawMkdir}, {4, drawRmdir}, {6, drawUnlink}, {5, drawLink}, {3, drawSymlink}, {2, drawReadlink}, {9, drawRename}, {3, drawMknod},
		{5, drawChmod}, {5, drawChown}, {5, drawTimes}, {3, drawAccess}, {4, drawSetxattr}, {3, drawGetxattr}, {2, drawRemovexattr},
		{3, drawOpenat2}, {2, drawTmpfile}, {2, drawFcntl}, {2, drawLock}, {2, drawSync}, {3, drawStat}, {3, drawList},
	}
}

var all = kinds()

// draw draws a call.
func (x *run) draw() (string, call) {
	sum := 0
	for _, k := range all {
		sum += k.weight
	}
	n := x.r.IntN(sum)
	for _, k := range all {
		if n -= k.weight; n < 0 {
			return k.draw(x)
		}
	}
	panic("unreachable")
}

// path is a name on this side. What is empty stays so: the kernel refuses it.
func (s *side) path(name string) string {
	if name == "" {
		return ""
	}
	return s.at + "/" + name
}

func drawOpen(x *run) (string, call) {
	name, slot, mode := x.name(), x.r.IntN(slots), x.mode()
	flags := one(x, unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR) |
		some(x, 2, unix.O_CREAT) | some(x, 5, unix.O_EXCL, unix.O_TRUNC, unix.O_APPEND) | some(x, 12, unix.O_DIRECTORY, unix.O_NOFOLLOW, unix.O_PATH, unix.O_SYNC, unix.O_NOATIME)
	if flags&unix.O_CREAT == 0 {
		mode = 0
	}
	return fmt.Sprintf("open %.20q %#x %o as %d", name, flags, mode, slot), func(s *side) string {
		fd, err := unix.Open(s.path(name), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, mode)
		if err == nil {
			s.keep(slot, fd)
		}
		return says(err)
	}
}

func drawOpenat2(x *run) (string, call) {
	name, slot := x.name(), x.r.IntN(slots)
	how := unix.OpenHow{Flags: uint64(one(x, unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR|unix.O_CREAT, unix.O_PATH) | unix.O_CLOEXEC | unix.O_NONBLOCK)}
	if how.Flags&unix.O_CREAT != 0 {
		how.Mode = uint64(x.mode())
	}
	for _, f := range []uint64{unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT, unix.RESOLVE_NO_SYMLINKS, unix.RESOLVE_NO_MAGICLINKS, unix.RESOLVE_NO_XDEV} {
		if x.r.IntN(4) == 0 {
			how.Resolve |= f
		}
	}
	return fmt.Sprintf("openat2 %.20q %#x %o resolve %#x as %d", name, how.Flags, how.Mode, how.Resolve, slot), func(s *side) string {
		dir, err := unix.Open(s.at, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return "directory: " + says(err)
		}
		defer unix.Close(dir)
		h := how
		fd, err := unix.Openat2(dir, name, &h)
		if err == nil {
			s.keep(slot, fd)
		}
		return says(err)
	}
}

// drawTmpfile makes a file without a name and now and then gives it one.
func drawTmpfile(x *run) (string, call) {
	dir, name, slot, mode := one(x, ".", "d", "f", "absent"), x.name(), x.r.IntN(slots), x.mode()
	flags, named := one(x, unix.O_RDWR, unix.O_WRONLY, unix.O_RDONLY)|unix.O_TMPFILE|some(x, 4, unix.O_EXCL), x.r.IntN(2) == 0
	return fmt.Sprintf("tmpfile in %q %#x %o as %d, named %.20q: %v", dir, flags, mode, slot, name, named), func(s *side) string {
		fd, err := unix.Open(s.path(dir), flags|unix.O_CLOEXEC, mode)
		if err != nil {
			return says(err)
		}
		s.keep(slot, fd)
		if !named {
			return "ok"
		}
		return "named: " + says(unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, s.path(name), unix.AT_SYMLINK_FOLLOW))
	}
}

func drawClose(x *run) (string, call) {
	slot := x.r.IntN(slots)
	return fmt.Sprint("close ", slot), func(s *side) string {
		if s.fds[slot] < 0 {
			return "nothing"
		}
		err := unix.Close(s.fds[slot])
		s.fds[slot] = -1
		return says(err)
	}
}

func drawMkdir(x *run) (string, call) {
	name, mode := x.name(), x.mode()
	return fmt.Sprintf("mkdir %.20q %o", name, mode), func(s *side) string { return says(unix.Mkdir(s.path(name), mode)) }
}

func drawRmdir(x *run) (string, call) {
	name := x.name()
	return fmt.Sprintf("rmdir %.20q", name), func(s *side) string { return says(unix.Rmdir(s.path(name))) }
}

func drawUnlink(x *run) (string, call) {
	name := x.name()
	return fmt.Sprintf("unlink %.20q", name), func(s *side) string { return says(unix.Unlink(s.path(name))) }
}

func drawLink(x *run) (string, call) {
	a, b, flags := x.name(), x.name(), one(x, 0, 0, unix.AT_SYMLINK_FOLLOW, 0x8000)
	return fmt.Sprintf("link %.20q to %.20q flags %#x", a, b, flags), func(s *side) string {
		return says(unix.Linkat(unix.AT_FDCWD, s.path(a), unix.AT_FDCWD, s.path(b), flags))
	}
}

func drawSymlink(x *run) (string, call) {
	target, name := one(x, "f", "d", "s", "absent", "", "loop", "../f", "d/f", ".", x.name(), x.name()), x.name()
	return fmt.Sprintf("symlink %.20q to %.20q", name, target), func(s *side) string { return says(unix.Symlink(target, s.path(name))) }
}

func drawReadlink(x *run) (string, call) {
	name, room := x.name(), one(x, 0, 1, 100, 5000)
	return fmt.Sprintf("readlink %.20q, %d bytes", name, room), func(s *side) string {
		buf := make([]byte, room)
		n, err := unix.Readlink(s.path(name), buf)
		return fmt.Sprintf("%s %.20q", says(err), buf[:max(n, 0)])
	}
}

func drawRename(x *run) (string, call) {
	a, b, flags := x.name(), x.name(), one(x, uint(0), 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE, 0x80)
	return fmt.Sprintf("rename %.20q to %.20q flags %#x", a, b, flags), func(s *side) string {
		return says(unix.Renameat2(unix.AT_FDCWD, s.path(a), unix.AT_FDCWD, s.path(b), flags))
	}
}

func drawMknod(x *run) (string, call) {
	name, typ, dev := x.name(), one(x, uint32(unix.S_IFIFO), unix.S_IFSOCK, unix.S_IFREG, unix.S_IFCHR, unix.S_IFBLK, unix.S_IFDIR, 0, unix.S_IFLNK, 0xf000), one(x, 0, int(unix.Mkdev(1, 3)))
	mode := typ | x.mode()
	return fmt.Sprintf("mknod %.20q %o %d", name, mode, dev), func(s *side) string {
		err := unix.Mknod(s.path(name), mode, dev)
		if t := mode & unix.S_IFMT; err == nil && (t == unix.S_IFCHR || t == unix.S_IFBLK) { // which cannot be opened in a mount
			err = unix.Unlink(s.path(name))
		}
		return says(err)
	}
}

func drawChmod(x *run) (string, call) {
	name, mode, slot, open := x.name(), x.mode(), x.r.IntN(slots), x.r.IntN(3) == 0
	if open {
		return fmt.Sprintf("fchmod %d %o", slot, mode), func(s *side) string { return says(unix.Fchmod(s.fds[slot], mode)) }
	}
	return fmt.Sprintf("chmod %.20q %o", name, mode), func(s *side) string { return says(unix.Chmod(s.path(name), mode)) }
}

func drawChown(x *run) (string, call) {
	name, uid, gid, slot := x.name(), x.id(), x.id(), x.r.IntN(slots)
	if uid == -1 && gid == -1 { // which changes ctime on ext4, and nothing here
		gid = other
	}
	switch x.r.IntN(3) {
	case 0:
		return fmt.Sprintf("fchown %d %d:%d", slot, uid, gid), func(s *side) string { return says(unix.Fchown(s.fds[slot], uid, gid)) }
	case 1:
		return fmt.Sprintf("lchown %.20q %d:%d", name, uid, gid), func(s *side) string { return says(unix.Lchown(s.path(name), uid, gid)) }
	}
	return fmt.Sprintf("chown %.20q %d:%d", name, uid, gid), func(s *side) string { return says(unix.Chown(s.path(name), uid, gid)) }
}

// drawTimes sets times and tells those that were not "now".
func drawTimes(x *run) (string, call) {
	name, flags := x.name(), one(x, 0, unix.AT_SYMLINK_NOFOLLOW, 0x4000)
	stamp := func() unix.Timespec {
		return unix.Timespec{Sec: one(x, int64(0), 1, -1, 1<<31, 1_000_000_000, x.r.Int64N(2e9)), Nsec: one(x, int64(0), 1, 999_999_999, 1_000_000_000, -1, unix.UTIME_NOW, unix.UTIME_OMIT, unix.UTIME_OMIT)}
	}
	ts := []unix.Timespec{stamp(), stamp()}
	return fmt.Sprintf("utimensat %.20q %v flags %#x", name, ts, flags), func(s *side) string {
		err := unix.UtimesNanoAt(unix.AT_FDCWD, s.path(name), ts, flags)
		var st unix.Stat_t
		if err != nil || flags == 0 || unix.Lstat(s.path(name), &st) != nil || ts[1].Nsec < 0 || ts[1].Nsec >= 1e9 {
			return says(err)
		}
		return fmt.Sprintf("%s, mtime %d.%d", says(err), st.Mtim.Sec, st.Mtim.Nsec)
	}
}

func drawAccess(x *run) (string, call) {
	name, mode, flags := x.name(), uint32(x.r.IntN(9)), one(x, 0, unix.AT_EACCESS, unix.AT_SYMLINK_NOFOLLOW)
	return fmt.Sprintf("faccessat2 %.20q %d %#x", name, mode, flags), func(s *side) string {
		return says(unix.Faccessat2(unix.AT_FDCWD, s.path(name), mode, flags))
	}
}

func drawStat(x *run) (string, call) {
	name, follow := x.name(), x.r.IntN(2) == 0
	return fmt.Sprintf("stat %.20q, follow %v", name, follow), func(s *side) string {
		var st unix.Stat_t
		var err error
		if follow {
			err = unix.Stat(s.path(name), &st)
		} else {
			err = unix.Lstat(s.path(name), &st)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			st.Size, st.Nlink = 0, 0
		}
		return fmt.Sprintf("%s %o %d %d", says(err), st.Mode, st.Nlink, st.Size)
	}
}
