package archive

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Extract makes the tree of a stream in a directory of this machine, which it
// makes if it is not there. Nothing is ever written through a symlink: where one
// stands in the place of a directory that is an error. Files are replaced whole;
// directories that are there stay as they are but for what the stream has of
// them. Owners are set where the caller is root. What cannot be set is told to
// skip, and without setID so are set-id bits and capabilities of files, and trusted
// attributes: who made them may be nobody to be trusted with this machine.
func Extract(ctx context.Context, r *Reader, dir string, setID bool, skip Skip) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	x := &extraction{ctx: ctx, in: r, top: fd, skip: skip, setID: setID, root: os.Geteuid() == 0, buf: make([]byte, 256<<10)}
	defer unix.Close(fd)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.Next()
		if err == io.EOF {
			return x.finish()
		}
		if err == nil {
			err = x.entry(e)
		}
		if err != nil {
			return err
		}
	}
}

// extraction is one Extract under way.
type extraction struct {
	ctx  context.Context
	in   *Reader
	top  int // descriptor of the directory
	skip Skip
	root bool

	setID bool
	dirs  []*Entry // whose mode and times are set last
	buf   []byte
}

// at opens the directory that p's last component stands in, and makes what is
// missing. The caller closes it.
func (x *extraction) at(p string) (fd int, name string, err error) {
	dir, name := path.Split(p)
	fd, err = x.resolve(path.Clean(dir))
	if errors.Is(err, unix.ENOENT) {
		if err = x.mkdir(path.Clean(dir), 0o755); err == nil {
			fd, err = x.resolve(path.Clean(dir))
		}
	}
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return fd, name, nil
}

// resolve opens a directory below the top without following any symlink.
func (x *extraction) resolve(dir string) (int, error) {
	return unix.Openat2(x.top, dir, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
}

func (x *extraction) mkdir(p string, mode uint32) error {
	if p == "." {
		return nil
	}
	fd, name, err := x.at(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Mkdirat(fd, name, mode)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "mkdir", Path: p, Err: unix.ENOTDIR}
	}
	return nil
}

func (x *extraction) entry(e *Entry) error {
	if e.Type == Dir {
		if err := x.mkdir(e.Path, e.Mode&0o777|0o700); err != nil {
			return err
		}
		x.disarm(e)
		e.Xattrs = x.dirXattrs(e)
		x.dirs = append(x.dirs, e)
		return nil
	}
	fd, name, err := x.at(e.Path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	temp := ".warren-" + rand.Text()
	if err := x.make(fd, temp, e); err != nil {
		_ = unix.Unlinkat(fd, temp, 0)
		return fmt.Errorf("%s: %w", e.Path, err)
	}
	if err := unix.Renameat(fd, temp, fd, name); err != nil {
		_ = unix.Unlinkat(fd, temp, 0)
		return &os.PathError{Op: "rename", Path: e.Path, Err: err}
	}
	if e.Type == Hardlink { // rename(2) does nothing when both are the same file already
		_ = unix.Unlinkat(fd, temp, 0)
	}
	return nil
}

// make makes what e is under a temporary name.
func (x *extraction) make(fd int, temp string, e *Entry) error {
	switch e.Type {
	case File:
		return x.file(fd, temp, e)
	case Symlink:
		if err := unix.Symlinkat(e.Link, fd, temp); err != nil {
			return err
		}
	case FIFO:
		if err := unix.Mkfifoat(fd, temp, 0o600); err != nil {
			return err
		}
	case Hardlink:
		from, name, err := x.at(e.Link)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		return unix.Linkat(from, name, fd, temp, 0)
	}
	x.own(fd, temp, e)
	if e.Type == FIFO {
		x.note(e, "mode", unix.Fchmodat(fd, temp, e.Mode, 0))
	}
	x.times(fd, temp, e)
	return nil
}

// capability is the extended attribute that grants a program rights.
const capability = "security.capability"

// trusted starts the extended attributes by which root tells the kernel things:
// overlayfs what stands above another layer, and where.
const trusted = "trusted."

// disarm takes set-id bits, capabilities and trusted attributes off.
func (x *extraction) disarm(e *Entry) {
	if x.setID {
		return
	}
	for name := range e.Xattrs {
		if strings.HasPrefix(name, trusted) {
			delete(e.Xattrs, name)
			x.skip(e.Path, fmt.Sprintf("its extended attribute %q is not set", name))
		}
	}
	if e.Type != File {
		return
	}
	if e.Mode&0o6000 != 0 {
		e.Mode &^= 0o6000
		x.skip(e.Path, "its set-id bits are not set")
	}
	if _, ok := e.Xattrs[capability]; ok {
		delete(e.Xattrs, capability)
		x.skip(e.Path, "its capabilities are not set")
	}
}

func (x *extraction) file(dir int, temp string, e *Entry) error {
	x.disarm(e)
	fd, err := unix.Openat(dir, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	err = x.content(f, e)
	if err == nil {
		x.own(dir, temp, e)
		x.setXattrs(fd, e)
		x.note(e, "mode", unix.Fchmod(fd, e.Mode))
		x.times(dir, temp, e)
	}
	return errors.Join(err, f.Close())
}

// content writes a file's bytes; blocks of zeros become holes.
func (x *extraction) content(f *os.File, e *Entry) error {
	for at := int64(0); ; {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(x.in, x.buf)
		werr := Holes(x.buf[:n], at, func(p []byte, off int64) error {
			_, err := f.WriteAt(p, off)
			return err
		})
		if werr != nil {
			return werr
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return f.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

func (x *extraction) note(e *Entry, what string, err error) {
	if err != nil {
		x.skip(e.Path, fmt.Sprintf("its %s is not set: %v", what, err))
	}
}

func (x *extraction) own(fd int, name string, e *Entry) {
	if x.root {
		x.note(e, "owner", unix.Fchownat(fd, name, int(e.Owner.UID), int(e.Owner.GID), unix.AT_SYMLINK_NOFOLLOW))
	}
}

func (x *extraction) times(fd int, name string, e *Entry) {
	at, mt := unix.Timespec{Nsec: unix.UTIME_OMIT}, unix.Timespec{Nsec: unix.UTIME_OMIT}
	for to, t := range map[*unix.Timespec]time.Time{&at: e.Atime, &mt: e.Mtime} {
		if t.IsZero() {
			continue
		}
		ts, err := unix.TimeToTimespec(t)
		if err != nil {
			x.note(e, "times", err)
			continue
		}
		*to = ts
	}
	x.note(e, "times", unix.UtimesNanoAt(fd, name, []unix.Timespec{at, mt}, unix.AT_SYMLINK_NOFOLLOW))
}

func (x *extraction) setXattrs(fd int, e *Entry) {
	for name, v := range e.Xattrs {
		x.note(e, "extended attribute "+name, unix.Fsetxattr(fd, name, v, 0))
	}
}

// dirXattrs sets a directory's extended attributes, so that they need not be
// kept to the end.
func (x *extraction) dirXattrs(e *Entry) map[string][]byte {
	if len(e.Xattrs) == 0 {
		return nil
	}
	fd, err := x.resolve(e.Path)
	if err != nil {
		x.note(e, "extended attributes", err)
		return nil
	}
	defer unix.Close(fd)
	x.setXattrs(fd, e)
	return nil
}

// finish gives directories their owner, mode and times, the deepest first.
func (x *extraction) finish() error {
	for _, e := range slices.Backward(x.dirs) {
		fd, err := x.resolve(e.Path)
		if err != nil {
			return &os.PathError{Op: "open", Path: e.Path, Err: err}
		}
		if x.root {
			x.note(e, "owner", unix.Fchown(fd, int(e.Owner.UID), int(e.Owner.GID)))
		}
		x.note(e, "mode", unix.Fchmod(fd, e.Mode))
		x.times(fd, ".", e)
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}
