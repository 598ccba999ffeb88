package main

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func drawRead(x *run) (string, call) {
	slot, n, off, at := x.r.IntN(slots), one(x, 0, 1, 100, 4096, 10_000), x.off(), x.r.IntN(2) == 0
	return fmt.Sprintf("read %d, %d bytes at %d: %v", slot, n, off, at), func(s *side) string {
		buf, fd := make([]byte, n), s.fds[slot]
		var err error
		if at {
			n, err = unix.Pread(fd, buf, off)
		} else {
			n, err = unix.Read(fd, buf)
		}
		n = max(n, 0)
		return fmt.Sprintf("%s %d %x", says(err), n, sha256.Sum256(buf[:n]))
	}
}

func drawWrite(x *run) (string, call) {
	slot, p, off, at := x.r.IntN(slots), x.bytes(), x.off(), x.r.IntN(2) == 0
	return fmt.Sprintf("write %d, %d bytes at %d: %v", slot, len(p), off, at), func(s *side) string {
		fd := s.fds[slot]
		if s.is(slot, unix.S_IFIFO) { // of which no file system of FUSE hears
			return "a pipe"
		}
		var n int
		var err error
		if at {
			n, err = unix.Pwrite(fd, p, off)
		} else if here, _ := unix.Seek(fd, 0, unix.SEEK_CUR); here < 1<<50 {
			n, err = unix.Write(fd, p)
		}
		return fmt.Sprintf("%s %d", says(err), n)
	}
}

func drawSeek(x *run) (string, call) {
	slot, off, whence := x.r.IntN(slots), x.off(), one(x, unix.SEEK_SET, unix.SEEK_CUR, unix.SEEK_END, 7)
	return fmt.Sprintf("lseek %d to %d from %d", slot, off, whence), func(s *side) string {
		if s.is(slot, unix.S_IFDIR) { // whose offsets are each file system's own
			return "a directory"
		}
		n, err := unix.Seek(s.fds[slot], off, whence)
		return fmt.Sprintf("%s %d", says(err), n)
	}
}

// is tells whether slot holds a file of that type.
func (s *side) is(slot int, typ uint32) bool {
	var st unix.Stat_t
	return unix.Fstat(s.fds[slot], &st) == nil && st.Mode&unix.S_IFMT == typ
}

func drawTruncate(x *run) (string, call) {
	name, slot, n, open := x.name(), x.r.IntN(slots), x.off(), x.r.IntN(2) == 0
	if open {
		return fmt.Sprintf("ftruncate %d to %d", slot, n), func(s *side) string { return says(unix.Ftruncate(s.fds[slot], n)) }
	}
	return fmt.Sprintf("truncate %.20q to %d", name, n), func(s *side) string { return says(unix.Truncate(s.path(name), n)) }
}

func drawFallocate(x *run) (string, call) {
	slot, off, n := x.r.IntN(slots), x.off(), x.off()
	mode := one(x, uint32(0), unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_PUNCH_HOLE,
		unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE)
	if n > 1<<20 || off > 1<<30 { // no room is taken here
		n, off = -1, 0
	}
	return fmt.Sprintf("fallocate %d mode %d [%d, +%d)", slot, mode, off, n), func(s *side) string {
		return says(unix.Fallocate(s.fds[slot], mode, off, n))
	}
}

func drawCopy(x *run) (string, call) {
	a, b, from, to, n := x.r.IntN(slots), x.r.IntN(slots), x.off(), x.off(), one(x, 0, 1, 4096, 10_000)
	return fmt.Sprintf("copy_file_range %d at %d to %d at %d, %d bytes", a, from, b, to, n), func(s *side) string {
		f, t, sum := from, to, 0
		for sum < n {
			k, err := unix.CopyFileRange(s.fds[a], &f, s.fds[b], &t, n-sum, 0)
			if err != nil {
				return says(err)
			}
			if sum += k; k == 0 {
				break
			}
		}
		return fmt.Sprint(sum)
	}
}

func drawSync(x *run) (string, call) {
	slot, data := x.r.IntN(slots), x.r.IntN(2) == 0
	return fmt.Sprintf("fsync %d, data %v", slot, data), func(s *side) string {
		if data {
			return says(unix.Fdatasync(s.fds[slot]))
		}
		return says(unix.Fsync(s.fds[slot]))
	}
}

func drawFcntl(x *run) (string, call) {
	slot, flags := x.r.IntN(slots), some(x, 2, unix.O_APPEND)|unix.O_NONBLOCK
	return fmt.Sprintf("fcntl %d F_SETFL %#x", slot, flags), func(s *side) string {
		_, err := unix.FcntlInt(uintptr(s.fds[slot]), unix.F_SETFL, flags)
		return says(err)
	}
}

// drawLock takes a lock or asks for one that nobody else can have.
func drawLock(x *run) (string, call) {
	slot := x.r.IntN(slots)
	if x.r.IntN(3) == 0 {
		how := one(x, unix.LOCK_SH, unix.LOCK_EX, unix.LOCK_UN, 77)
		return fmt.Sprintf("flock %d %d, let go", slot, how), func(s *side) string {
			err := unix.Flock(s.fds[slot], how|unix.LOCK_NB)
			if err == nil {
				_ = unix.Flock(s.fds[slot], unix.LOCK_UN)
			}
			return says(err)
		}
	}
	l := unix.Flock_t{Type: one(x, int16(unix.F_RDLCK), unix.F_WRLCK, unix.F_UNLCK, 9), Whence: int16(x.r.IntN(4)), Start: x.off(), Len: x.off()}
	cmd := one(x, unix.F_SETLK, unix.F_GETLK, unix.F_OFD_SETLK)
	return fmt.Sprintf("fcntl %d lock %d %+v", slot, cmd, l), func(s *side) string {
		lk := l
		err := unix.FcntlFlock(uintptr(s.fds[slot]), cmd, &lk)
		if err == nil && cmd != unix.F_GETLK {
			_ = unix.FcntlFlock(uintptr(s.fds[slot]), cmd, &unix.Flock_t{Type: unix.F_UNLCK})
		}
		return fmt.Sprintf("%s %d", says(err), lk.Type)
	}
}

func drawSetxattr(x *run) (string, call) {
	name, attr, flags, v := x.name(), x.xattr(), one(x, 0, unix.XATTR_CREATE, unix.XATTR_REPLACE, 3, 8), make([]byte, one(x, 8, 100, 1000)) // ext4 leaves the times when the value is the same
	for i := range v {
		v[i] = byte(x.r.IntN(256))
	}
	slot, open := x.r.IntN(slots), x.r.IntN(3) == 0
	return fmt.Sprintf("setxattr %.20q %.20q %d bytes flags %d, of %d: %v", name, attr, len(v), flags, slot, open), func(s *side) string {
		if open {
			return says(unix.Fsetxattr(s.fds[slot], attr, v, flags))
		}
		return says(unix.Lsetxattr(s.path(name), attr, v, flags))
	}
}

func drawGetxattr(x *run) (string, call) {
	name, attr, room := x.name(), x.xattr(), one(x, 0, 1, 100, 65536)
	return fmt.Sprintf("getxattr %.20q %.20q into %d", name, attr, room), func(s *side) string {
		buf := make([]byte, room)
		n, err := unix.Lgetxattr(s.path(name), attr, buf)
		return fmt.Sprintf("%s %d %x", says(err), n, sha256.Sum256(buf))
	}
}

func drawRemovexattr(x *run) (string, call) {
	name, attr := x.name(), x.xattr()
	return fmt.Sprintf("removexattr %.20q %.20q", name, attr), func(s *side) string { return says(unix.Lremovexattr(s.path(name), attr)) }
}

// drawList lists a directory in steps, seeks back, and lists the rest again.
func drawList(x *run) (string, call) {
	name, room, back := one(x, ".", "d", "d/d", "e", "f", "s", "absent"), one(x, 64, 300, 4096, 10), x.r.IntN(5)
	return fmt.Sprintf("list %q, %d bytes at once, back to place %d", name, room, back), func(s *side) string {
		fd, err := unix.Open(s.path(name), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return says(err)
		}
		defer unix.Close(fd)
		seen, places, err := entries(fd, room)
		if err != nil {
			return "getdents: " + says(err)
		}
		sorted := append([]string{}, seen...)
		sort.Strings(sorted)
		if back >= len(places) {
			return fmt.Sprintf("%q", sorted)
		}
		if _, err := unix.Seek(fd, places[back], unix.SEEK_SET); err != nil {
			return "seekdir: " + says(err)
		}
		rest, _, err := entries(fd, 4096)
		return fmt.Sprintf("%q, the rest is the same: %v %s", sorted, strings.Join(rest, "/") == strings.Join(seen[back+1:], "/"), says(err))
	}
}

// entries gives the names that are left in a directory, and where it is after each.
func entries(fd, room int) (list []string, places []int64, err error) {
	for buf := make([]byte, room); ; {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			return list, places, err
		}
		for p := buf[:n]; len(p) > 0; {
			d := (*unix.Dirent)(unsafe.Pointer(&p[0]))
			name := p[unsafe.Offsetof(d.Name):d.Reclen]
			end := strings.IndexByte(string(name), 0)
			list, places = append(list, fmt.Sprintf("%.10s %d %d", name[:end], end, d.Type)), append(places, d.Off)
			p = p[d.Reclen:]
		}
	}
}
