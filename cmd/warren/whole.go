package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// partSuffix ends the names of files that writeWhole has not finished.
const partSuffix = ".part"

// writeWhole writes a file that is there when it is whole, and on the disk. A file of
// that name is replaced. What an earlier call left that was killed is removed.
func writeWhole(name string, mode os.FileMode, fn func(io.Writer) error) error {
	f, err := newPart(filepath.Dir(name), "."+filepath.Base(name)+".")
	if err != nil {
		return localError(err)
	}
	err = fn(f)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err = errors.Join(err, f.Close()); err != nil { // its lock goes with it, so it is closed last
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

// newPart makes a file of its own, locked for as long as it is open, after removing
// those of the same prefix that nobody has locked.
func newPart(dir, prefix string) (*os.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), partSuffix) {
			removeDead(filepath.Join(dir, e.Name()))
		}
	}
	for {
		f, err := os.CreateTemp(dir, prefix+"*"+partSuffix)
		if err != nil {
			return nil, err
		}
		// Another call may have taken it for a dead one before it was locked.
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && isNamed(f) {
			return f, nil
		}
		_ = errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

// removeDead removes a file of this user that no process has locked.
func removeDead(name string) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	ours := unix.Fstat(fd, &st) == nil && st.Uid == uint32(os.Geteuid()) && st.Mode&unix.S_IFMT == unix.S_IFREG
	if ours && unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil && isNamed(f) {
		_ = os.Remove(name) // the next call tries again
	}
}

// isNamed reports whether f still is the file of its name.
func isNamed(f *os.File) bool {
	ours, err := f.Stat()
	there, lerr := os.Lstat(f.Name())
	return err == nil && lerr == nil && os.SameFile(ours, there)
}
