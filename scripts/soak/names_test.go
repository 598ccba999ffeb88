package soak

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func (o *own) rename() error {
	p, n := o.pick()
	to := o.fresh()
	err := unix.Rename(o.path(p), o.path(to))
	if err == nil {
		o.drop(p)
		o.add(to, n)
	}
	return err
}

// replace moves a name over another.
func (o *own) replace() error {
	p, n := o.pick()
	to, old := o.pick()
	err := unix.Rename(o.path(p), o.path(to))
	if err == nil && n != old { // two names of one file: rename(2) does nothing
		o.drop(to)
		o.drop(p)
		o.add(to, n)
	}
	return err
}

func (o *own) link() error {
	p, n := o.pick()
	if len(o.names) >= ownFiles {
		return o.unlink()
	}
	to := o.fresh()
	err := unix.Link(o.path(p), o.path(to))
	if err == nil {
		o.add(to, n)
	}
	return err
}

func (o *own) unlink() error {
	p, _ := o.pick()
	err := unix.Unlink(o.path(p))
	if err == nil {
		o.drop(p)
	}
	return err
}

// symlink makes one, reads it and removes it.
func (o *own) symlink() error {
	p := o.path(o.fresh())
	target := fmt.Sprint("to/", o.next)
	if err := os.Symlink(target, p); err != nil {
		return err
	}
	got, err := os.Readlink(p)
	if err == nil && got != target {
		err = fmt.Errorf("%s leads to %q, want %q", p, got, target)
	}
	return errors.Join(err, unix.Unlink(p))
}

// directory makes one with a file in it, which keeps it from being removed, and
// removes both.
func (o *own) directory() error {
	d := o.path(o.fresh())
	if err := unix.Mkdir(d, 0o755); err != nil {
		return err
	}
	f := d + "/f"
	if err := os.WriteFile(f, []byte("f"), 0o600); err != nil {
		return err
	}
	if err := unix.Rmdir(d); err != unix.ENOTEMPTY {
		return fmt.Errorf("rmdir of %s, which is not empty: %w", d, err)
	}
	return errors.Join(unix.Unlink(f), unix.Rmdir(d))
}

// list compares the names of a directory.
func (o *own) list() error {
	d := fmt.Sprint("d", o.r.IntN(ownDirs))
	entries, err := os.ReadDir(o.path(d))
	if err != nil {
		return err
	}
	n := 0
	for p := range o.files {
		if strings.HasPrefix(p, d+"/") {
			n++
		}
	}
	for _, e := range entries {
		if o.files[d+"/"+e.Name()] == nil {
			return fmt.Errorf("%s/%s should not be there", d, e.Name())
		}
	}
	if len(entries) != n {
		return fmt.Errorf("%s has %d names, want %d", d, len(entries), n)
	}
	return nil
}

const xattr = "user.soak"

func (o *own) setXattr() error {
	p, n := o.pick()
	if n.xattr != "" && o.r.IntN(2) == 0 {
		err := unix.Removexattr(o.path(p), xattr)
		if err == nil {
			n.xattr = ""
		}
		return err
	}
	value := fmt.Sprint("value ", o.r.Uint64())
	err := unix.Setxattr(o.path(p), xattr, []byte(value), 0)
	if err == nil {
		n.xattr = value
	}
	return err
}

// page writes one of the large file's pages over again, sometimes many in a row.
func (o *own) page() error {
	n := page
	if o.r.IntN(30) == 0 {
		n = 64 * page
	}
	at := o.r.IntN(bigSize/page-n/page+1) * page
	b := o.bytes(n)
	err := o.opened("big", unix.O_WRONLY, func(fd int) error { return wrote(unix.Pwrite(fd, b, int64(at)))(n) })
	if err == nil {
		copy(o.big[at:], b)
	}
	return err
}

func (o *own) pageRead() error {
	at := o.r.IntN(bigSize/page) * page
	return o.opened("big", unix.O_RDONLY, func(fd int) error {
		n, err := unix.Pread(fd, o.buf[:page], int64(at))
		return same("big", o.buf[:n], o.big[at:at+page], err)
	})
}

func (o *own) punch() error {
	p, n := o.pick()
	if len(n.data) == 0 {
		return nil
	}
	at := o.r.IntN(len(n.data))
	size := 1 + o.r.IntN(len(n.data)-at)
	err := o.opened(p, unix.O_WRONLY, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(at), int64(size))
	})
	if err == nil {
		clear(n.data[at : at+size])
	}
	return err
}

// verify compares all that a directory has with what the worker knows; root is
// where a mount shows it.
func (o *own) verify(root string) error {
	seen := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		n := o.files[rel]
		switch {
		case rel == "big":
			n = &inode{data: o.big, mode: 0o644, names: []string{rel}}
		case n == nil:
			return fmt.Errorf("%s should not be there", p)
		default:
			seen++
		}
		return n.whole(p)
	})
	if err == nil && seen != len(o.files) {
		err = fmt.Errorf("%s has %d files, want %d", root, seen, len(o.files))
	}
	return err
}

// whole checks everything about a file.
func (n *inode) whole(p string) error {
	if err := n.is(p); err != nil {
		return err
	}
	got, err := os.ReadFile(p)
	if err := same(p, got, n.data, err); err != nil {
		return err
	}
	value := make([]byte, 100)
	size, err := unix.Getxattr(p, xattr, value)
	switch {
	case n.xattr == "" && err == unix.ENODATA:
		return nil
	case err != nil:
		return fmt.Errorf("%s: %s: %w", p, xattr, err)
	case string(value[:size]) != n.xattr:
		return fmt.Errorf("%s: %s is %q, want %q", p, xattr, value[:size], n.xattr)
	}
	return nil
}

// live is how many bytes of content there must be.
func (o *own) live() int64 {
	n, counted := int64(bigSize), map[*inode]bool{}
	for _, f := range o.files {
		if !counted[f] {
			counted[f] = true
			n += int64(len(f.data))
		}
	}
	return n
}
