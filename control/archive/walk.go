package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Skip is told of what does not travel, and why. The work goes on.
type Skip func(path, reason string)

// Walk writes a directory and all below it: directories before what is in them,
// names sorted, no symlink followed, other filesystems included. Its own owner is
// "the owner" unless owner says otherwise. Sockets, devices, what cannot be read
// and extended attributes that tar or warren do not know are told to skip.
func Walk(ctx context.Context, dir string, out io.Writer, owner *ID, skip Skip) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	top := os.NewFile(uintptr(fd), dir)
	defer top.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if owner == nil {
		owner = &ID{st.Uid, st.Gid}
	}
	w, err := NewWriter(out, *owner)
	if err != nil {
		return err
	}
	k := &walker{ctx: ctx, out: w, skip: skip, names: map[[2]uint64]string{}, buf: make([]byte, 256<<10)}
	if err := k.dir(top, ".", &st); err != nil {
		return err
	}
	return w.Close()
}

// walker is one Walk under way.
type walker struct {
	ctx   context.Context
	out   *Writer
	skip  Skip
	names map[[2]uint64]string // of files with several, by device and inode
	buf   []byte
}

// begin writes e's header. What tar cannot hold is skipped.
func (k *walker) begin(e *Entry, spans []Span) (bool, error) {
	err := k.out.Begin(e, spans)
	var refused *Error
	if errors.As(err, &refused) {
		k.skip(e.Path, refused.Reason)
		return false, nil
	}
	return err == nil, err
}

func (k *walker) dir(d *os.File, p string, st *unix.Stat_t) error {
	if err := k.ctx.Err(); err != nil {
		return err
	}
	e := entryOf(p, Dir, st)
	k.xattrs(e, int(d.Fd()))
	if ok, err := k.begin(e, nil); !ok {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		k.skip(p, err.Error())
	}
	slices.Sort(names)
	for _, name := range names {
		if err := k.node(d, name, path.Join(p, name)); err != nil {
			return err
		}
	}
	return nil
}

// node writes what name in d is.
func (k *walker) node(d *os.File, name, p string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		k.skip(p, err.Error())
		return nil
	}
	if reason := BadPath(p); reason != "" {
		k.skip(p, reason)
		return nil
	}
	id := [2]uint64{st.Dev, st.Ino}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if first, ok := k.names[id]; ok && !isDir {
		e := entryOf(p, Hardlink, &st)
		e.Link = first
		_, err := k.begin(e, nil)
		return err
	}
	var ok bool
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return k.subdir(d, name, p)
	case unix.S_IFREG:
		ok, err = k.file(d, name, p)
	case unix.S_IFLNK:
		ok, err = k.symlink(d, name, p, &st)
	case unix.S_IFIFO:
		ok, err = k.begin(entryOf(p, FIFO, &st), nil)
	case unix.S_IFSOCK:
		k.skip(p, "sockets do not travel")
	default:
		k.skip(p, "devices do not travel")
	}
	if ok && st.Nlink > 1 {
		k.names[id] = p
	}
	return err
}

func (k *walker) subdir(d *os.File, name, p string) error {
	f, st, err := open(d, name, unix.O_DIRECTORY)
	if err != nil {
		k.skip(p, err.Error())
		return nil
	}
	defer f.Close()
	return k.dir(f, p, st)
}

// open opens name in d, which must not be a symlink, for reading.
func open(d *os.File, name string, flags int) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, &st, nil
}

func (k *walker) symlink(d *os.File, name, p string, st *unix.Stat_t) (bool, error) {
	buf := make([]byte, MaxTarget+1)
	n, err := unix.Readlinkat(int(d.Fd()), name, buf)
	if err != nil || n == 0 || n > MaxTarget {
		k.skip(p, fmt.Sprintf("its target cannot be read: %v", err))
		return false, nil
	}
	e := entryOf(p, Symlink, st)
	e.Link = string(buf[:n])
	return k.begin(e, nil)
}

func (k *walker) file(d *os.File, name, p string) (bool, error) {
	f, st, err := open(d, name, 0)
	if err != nil {
		k.skip(p, err.Error())
		return false, nil
	}
	defer f.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		k.skip(p, "it changed while it was read")
		return false, nil
	}
	e := entryOf(p, File, st)
	k.xattrs(e, int(f.Fd()))
	var spans []Span
	if st.Blocks*512 < st.Size {
		spans = dataOf(int(f.Fd()), st.Size)
	}
	ok, err := k.begin(e, spans)
	if !ok {
		return false, err
	}
	if spans == nil {
		spans = []Span{{0, e.Size}}
	}
	for _, s := range Spans(spans, e.Size) {
		if err := k.copy(f, p, s); err != nil {
			return true, err
		}
	}
	return true, nil
}

// copy writes bytes [s.From, s.To) of f. Bytes that are not there any more are
// zeros, which is told to skip.
func (k *walker) copy(f *os.File, p string, s Span) error {
	for at := s.From; at < s.To; {
		if err := k.ctx.Err(); err != nil {
			return err
		}
		b := k.buf[:min(int64(len(k.buf)), s.To-at)]
		n, err := f.ReadAt(b, at)
		if n < len(b) {
			clear(b[n:])
			if err == io.EOF {
				k.skip(p, "it became shorter while it was read; its end is zeros")
			} else {
				return fmt.Errorf("read %s: %w", p, err)
			}
		}
		if _, err := k.out.Write(b); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return nil
}

// dataOf finds the parts of a file that are data; nil: it has no holes that the
// filesystem tells of.
func dataOf(fd int, size int64) []Span {
	out := []Span{}
	for at := int64(0); at < size; {
		from, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return out
		}
		if err != nil {
			return nil
		}
		to, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		if err != nil || to <= from {
			return nil
		}
		out = append(out, Span{from, to})
		if at = to; len(out) > maxSpans {
			return append(out, Span{at, size})
		}
	}
	return out
}

// xattrs reads the extended attributes of an open file.
func (k *walker) xattrs(e *Entry, fd int) {
	buf := make([]byte, 64<<10)
	n, err := unix.Flistxattr(fd, buf)
	if err != nil || n == 0 {
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if !travels(name) {
			k.skip(e.Path, fmt.Sprintf("the extended attribute %q is not kept", name))
			continue
		}
		v := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(fd, name, v)
		if err != nil || n > MaxXattr {
			k.skip(e.Path, fmt.Sprintf("the extended attribute %q is not kept: %v", name, err))
			continue
		}
		if e.Xattrs == nil {
			e.Xattrs = map[string][]byte{}
		}
		e.Xattrs[name] = v[:n:n]
	}
}

// travels tells whether an extended attribute is one that warren keeps.
func travels(name string) bool {
	for _, space := range []string{"user.", "security.", "trusted."} {
		if strings.HasPrefix(name, space) {
			return !strings.Contains(name, "=")
		}
	}
	return false
}

func entryOf(p string, t Type, st *unix.Stat_t) *Entry {
	e := &Entry{Path: p, Type: t, Mode: st.Mode & 0o7777, Owner: ID{st.Uid, st.Gid},
		Atime: timeOf(st.Atim.Unix()), Mtime: timeOf(st.Mtim.Unix())}
	if t == File {
		e.Size = st.Size
	}
	return e
}
