package archive

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// Reader reads a tar stream entry by entry and refuses what is hostile.
type Reader struct {
	in     *tailReader
	tar    *tar.Reader
	limits Limits
	seen   map[[16]byte]kind
	owner  *ID
	count  int64
	total  int64
	names  int64
}

// kind is what a path of the stream is so far.
type kind uint8

const (
	kindImplied kind = iota + 1 // a directory that an entry stands in
	kindDir
	kindLeaf    // a file or FIFO
	kindSymlink // nothing may be below it, and a hard link may name it
)

// NewReader reads an uncompressed tar stream from r.
func NewReader(r io.Reader, l Limits) *Reader {
	in := &tailReader{r: r}
	return &Reader{in: in, tar: tar.NewReader(in), limits: l.withDefaults(), seen: map[[16]byte]kind{}}
}

// Owner tells who "the owner" is: after the first Next, and nil for an empty
// stream.
func (r *Reader) Owner() *ID { return r.owner }

// Next gives the next entry, or io.EOF at the end of a whole stream. An [Error]
// is a stream to be refused; other errors are the source's.
func (r *Reader) Next() (*Entry, error) {
	for {
		h, err := r.tar.Next()
		switch {
		case err == io.EOF && !r.in.ended():
			return nil, &Error{Reason: "it is cut short: the end mark is missing"}
		case err == io.EOF:
			return nil, io.EOF
		case err != nil:
			return nil, r.broken("", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			r.comment(h.PAXRecords["comment"])
			continue
		}
		e, err := r.entry(h)
		if err != nil {
			return nil, err
		}
		if r.owner == nil {
			o := e.Owner
			r.owner = &o
		}
		return e, nil
	}
}

// Read reads the content of the file that Next gave. Holes are zeros.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.tar.Read(p)
	if err != nil && err != io.EOF {
		err = r.broken("", err)
	}
	return n, err
}

// broken words an error of the tar stream.
func (r *Reader) broken(path string, err error) error {
	switch {
	case r.in.err != nil && r.in.err != io.EOF:
		return r.in.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Path: path, Reason: "it is cut short"}
	}
	return &Error{Path: path, Reason: strings.TrimPrefix(err.Error(), "archive/tar: ")}
}

// comment reads who the owner is from the stream's global header.
func (r *Reader) comment(text string) {
	var o ID
	if rest, ok := strings.CutPrefix(text, ownerText); ok && r.owner == nil {
		if n, err := fmt.Sscanf(rest, "%d:%d", &o.UID, &o.GID); n == 2 && err == nil {
			r.owner = &o
		}
	}
}

func (r *Reader) entry(h *tar.Header) (*Entry, error) {
	bad := func(format string, args ...any) error {
		return &Error{Path: h.Name, Reason: fmt.Sprintf(format, args...)}
	}
	p, reason := clean(h.Name)
	if reason != "" {
		return nil, bad("%s", reason)
	}
	e := &Entry{Path: p, Mode: uint32(h.Mode) & 0o7777, Atime: known(h.AccessTime), Mtime: known(h.ModTime)}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse, 0:
		e.Type, e.Size = File, h.Size
	case tar.TypeDir:
		e.Type = Dir
	case tar.TypeSymlink:
		e.Type, e.Link = Symlink, h.Linkname
	case tar.TypeLink:
		e.Type, e.Link = Hardlink, h.Linkname
	case tar.TypeFifo:
		e.Type = FIFO
	case tar.TypeChar, tar.TypeBlock:
		return nil, bad("it is a device")
	default:
		return nil, bad("it is of a type that does not belong in an archive (%q)", h.Typeflag)
	}
	if h.Uid < 0 || h.Uid >= 1<<32-1 || h.Gid < 0 || h.Gid >= 1<<32-1 {
		return nil, bad("its owner %d:%d is no user and group", h.Uid, h.Gid)
	}
	e.Owner = ID{uint32(h.Uid), uint32(h.Gid)}
	if err := r.room(e); err != "" {
		return nil, bad("%s", err)
	}
	if err := e.xattrs(h.PAXRecords); err != "" {
		return nil, bad("%s", err)
	}
	if err := r.words(e); err != "" {
		return nil, bad("%s", err)
	}
	if err := r.links(e); err != "" {
		return nil, bad("%s", err)
	}
	if err := r.place(e); err != "" {
		return nil, bad("%s", err)
	}
	return e, nil
}

// Seconds since the epoch of the first and the last year that JSON can say.
var (
	firstSecond = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC).Unix()
)

// timeOf clamps a time into the years that JSON can say.
func timeOf(sec, nsec int64) time.Time {
	return time.Unix(min(max(sec, firstSecond), lastSecond), nsec)
}

// known returns t in the years that JSON can say, and the zero time for a time that
// is not known.
func known(t time.Time) time.Time {
	if t.IsZero() || t.Unix() == 0 && t.Nanosecond() == 0 {
		return time.Time{}
	}
	return timeOf(t.Unix(), int64(t.Nanosecond()))
}

// BadPath tells why a Reader would refuse an entry of this path; "": it would not.
// Who writes a stream leaves it out, with all below it.
func BadPath(p string) (reason string) {
	_, reason = clean(p)
	return reason
}

// clean makes a path of a name, or says what is wrong with it.
func clean(name string) (p, reason string) {
	switch {
	case name == "":
		return "", "it has no name"
	case strings.IndexByte(name, 0) >= 0:
		return "", "its name has a NUL"
	case name[0] == '/':
		return "", "its name is absolute"
	case len(name) > MaxPath:
		return "", fmt.Sprintf("its name has more than %d bytes", MaxPath)
	}
	depth := 0
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", "its name leads out, by .."
		}
		if len(part) > MaxName {
			return "", fmt.Sprintf("a part of its name has more than %d bytes", MaxName)
		}
		if depth++; depth > maxDepth {
			return "", fmt.Sprintf("it is more than %d directories deep", maxDepth)
		}
	}
	return path.Clean(name), ""
}

// room counts e against the limits.
func (r *Reader) room(e *Entry) string {
	if r.count++; r.count > r.limits.Entries {
		return r.tooMany()
	}
	if e.Size < 0 || e.Size > r.limits.File {
		return fmt.Sprintf("its size, %d bytes, is over the limit of %d", e.Size, r.limits.File)
	}
	if r.total += e.Size; r.total > r.limits.Total {
		return fmt.Sprintf("the files have more than %d bytes", r.limits.Total)
	}
	return ""
}

func (r *Reader) tooMany() string {
	return fmt.Sprintf("there are more than %d entries and directories that they stand in", r.limits.Entries)
}

// words counts what e says, which whoever reads the stream keeps, against the
// limits.
func (r *Reader) words(e *Entry) string {
	r.names += int64(len(e.Path) + len(e.Link))
	for name, v := range e.Xattrs {
		r.names += int64(len(name) + len(v))
	}
	if r.names > r.limits.Names {
		return fmt.Sprintf("the paths, link targets and extended attributes have more than %d bytes", r.limits.Names)
	}
	return ""
}

// xattrs takes the extended attributes out of PAX records.
func (e *Entry) xattrs(records map[string]string) string {
	for k, v := range records {
		name, ok := strings.CutPrefix(k, xattrPax)
		if !ok {
			continue
		}
		if name == "" || len(name) > MaxName || strings.IndexByte(name, 0) >= 0 || len(v) > MaxXattr {
			return fmt.Sprintf("its extended attribute %.64q is over the limits", name)
		}
		if e.Xattrs == nil {
			e.Xattrs = map[string][]byte{}
		}
		e.Xattrs[name] = []byte(v)
	}
	return ""
}

// links judges what e leads to.
func (r *Reader) links(e *Entry) string {
	switch e.Type {
	case Symlink:
		if e.Link == "" || len(e.Link) > MaxTarget || strings.IndexByte(e.Link, 0) >= 0 {
			return "its target is none"
		}
	case Hardlink:
		to, reason := clean(e.Link)
		if reason != "" {
			return fmt.Sprintf("it is a hard link to %q: %s", e.Link, reason)
		}
		if k := r.seen[key(to)]; k != kindLeaf && k != kindSymlink {
			return fmt.Sprintf("it is a hard link to %q, which is no earlier file of the archive", e.Link)
		}
		e.Link = to
	}
	return ""
}

// place notes where e stands, or says why it cannot stand there.
func (r *Reader) place(e *Entry) string {
	for i := range len(e.Path) {
		if e.Path[i] != '/' {
			continue
		}
		up := key(e.Path[:i])
		switch r.seen[up] {
		case kindLeaf:
			return fmt.Sprintf("%q, which it stands in, is no directory", e.Path[:i])
		case kindSymlink:
			return fmt.Sprintf("it would be written through the symlink %q", e.Path[:i])
		case 0:
			if int64(len(r.seen)) >= r.limits.Entries {
				return r.tooMany()
			}
			r.seen[up] = kindImplied
		}
	}
	now := kindLeaf
	switch e.Type {
	case Dir:
		now = kindDir
	case Symlink:
		now = kindSymlink
	case Hardlink:
		now = r.seen[key(e.Link)]
	}
	k := key(e.Path)
	was := r.seen[k]
	switch {
	case was == 0 && int64(len(r.seen)) >= r.limits.Entries:
		return r.tooMany()
	case e.Path == "." && e.Type != Dir:
		return "the top of the archive is no directory"
	case was == 0, now == kindDir && (was == kindImplied || was == kindDir):
	default:
		return "there are two entries of this name"
	}
	r.seen[k] = now
	return ""
}

// key stands for a path. SHA-256, so that nobody can make two paths meet.
func key(p string) [16]byte {
	sum := sha256.Sum256([]byte(p))
	return [16]byte(sum[:16])
}

// tailReader remembers the last block that was read and how reading ended.
type tailReader struct {
	r    io.Reader
	last [block]byte
	n    int64
	err  error
}

// Read reads on.
func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n >= block {
		copy(t.last[:], p[n-block:n])
	} else if n > 0 {
		copy(t.last[:], t.last[n:])
		copy(t.last[block-n:], p[:n])
	}
	t.n += int64(n)
	if err != nil {
		t.err = err
	}
	return n, err
}

// ended tells whether the last block is one of the end mark.
func (t *tailReader) ended() bool { return t.n >= block && t.last == [block]byte{} }
