package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// entry is what is seen of one name.
type entry struct {
	what         string // all that must be the same on both sides
	mtime, ctime unix.StatxTimestamp
	btime        unix.StatxTimestamp
	ino          uint64
}

// look takes in all that there is.
func (s *side) look() error {
	s.was = map[string]entry{}
	return filepath.WalkDir(s.at, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.at, path)
		if err != nil {
			return err
		}
		s.was[rel], err = see(path)
		return err
	})
}

func see(path string) (entry, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return entry{}, fmt.Errorf("statx %s: %w", path, err)
	}
	e := entry{mtime: st.Mtime, ctime: st.Ctime, btime: st.Btime, ino: st.Ino}
	what := fmt.Sprintf("mode %o owner %d:%d", st.Mode, st.Uid, st.Gid)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFREG:
		sum, err := content(path, st.Size)
		if err != nil {
			return e, err
		}
		what += fmt.Sprintf(" links %d size %d sum %x", st.Nlink, st.Size, sum)
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return e, err
		}
		what += fmt.Sprintf(" links %d size %d to %.20q", st.Nlink, st.Size, target)
	default:
		what += fmt.Sprintf(" links %d device %d:%d", st.Nlink, st.Rdev_major, st.Rdev_minor)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		attrs, err := xattrs(path)
		if err != nil {
			return e, err
		}
		what += attrs
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		what += " no birth time"
	}
	e.what = what
	return e, nil
}

// sparse is a size above which only both ends of a file are read.
const sparse = 1 << 20

func content(path string, size uint64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, min(size, sparse)+10)
	n, err := unix.Pread(int(f.Fd()), buf, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	h.Write(buf[:n])
	if size > sparse {
		n, err := unix.Pread(int(f.Fd()), buf, int64(size-sparse))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		h.Write(buf[:n])
	}
	return h.Sum(nil)[:4], nil
}

// xattrs lists what must be the same; nothing that a kernel adds by itself.
func xattrs(path string) (string, error) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return "", fmt.Errorf("llistxattr %s: %w", path, err)
	}
	names := strings.Split(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		if name == "" || strings.HasPrefix(name, "security.selinux") {
			continue
		}
		n, err := unix.Lgetxattr(path, name, buf)
		if err != nil && !errors.Is(err, unix.ENODATA) {
			return "", fmt.Errorf("lgetxattr %s %s: %w", path, name, err)
		}
		fmt.Fprintf(&b, " %.20s(%d)=%d bytes %x", name, len(name), n, sha256.Sum256(buf[:n]))
	}
	return b.String(), nil
}

// told lists what there is, and which times are others than they were.
func told(was, is map[string]entry) (list []string) {
	for name, e := range is {
		line := fmt.Sprintf("%.40q: %s", name, e.what)
		if w, ok := was[name]; ok && w.ino == e.ino {
			for _, t := range []struct {
				what    string
				was, is unix.StatxTimestamp
			}{{"mtime", w.mtime, e.mtime}, {"ctime", w.ctime, e.ctime}, {"birth", w.btime, e.btime}} {
				if t.was != t.is {
					line += ", " + t.what + " is another"
				}
			}
		}
		list = append(list, line)
	}
	sort.Strings(list)
	return list
}
