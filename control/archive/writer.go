package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Span is bytes [From, To) of a file that are data; the rest are holes.
type Span struct{ From, To int64 }

// Writer writes a tar stream.
type Writer struct {
	out  *outWriter
	tar  *tar.Writer
	left int64 // bytes of data of the sparse file under way
	pad  int64 // zeros behind them
	raw  bool  // a sparse file is under way
}

// NewWriter starts a stream in which owner is "the owner".
func NewWriter(w io.Writer, owner ID) (*Writer, error) {
	out := &outWriter{w: w}
	a := &Writer{out: out, tar: tar.NewWriter(out)}
	return a, a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header",
		PAXRecords: map[string]string{"comment": fmt.Sprintf("%s%d:%d", ownerText, owner.UID, owner.GID)}})
}

// Begin writes an entry's header. For a file of e.Size bytes the caller then
// writes them; with spans, which are ascending and do not touch, only the bytes
// of those: [Spans] tells which. An [Error] is an entry that tar cannot hold, and
// nothing of it was written.
func (w *Writer) Begin(e *Entry, spans []Span) error {
	if err := w.endRaw(); err != nil {
		return err
	}
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode), Uid: int(e.Owner.UID), Gid: int(e.Owner.GID), ModTime: e.Mtime,
		AccessTime: e.Atime, Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	for name, v := range e.Xattrs {
		h.PAXRecords[xattrPax+name] = string(v)
	}
	switch e.Type {
	case File:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	case Dir:
		h.Typeflag, h.Name = tar.TypeDir, strings.TrimSuffix(e.Path, "/")+"/"
	case Symlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	case Hardlink:
		h.Typeflag, h.Linkname = tar.TypeLink, e.Link
	case FIFO:
		h.Typeflag = tar.TypeFifo
	default:
		return &Error{Path: e.Path, Reason: "tar has no such type"}
	}
	if err := sizeOf(h); err != nil {
		return err
	}
	if e.Type == File && spans != nil {
		return w.sparse(h, spans)
	}
	err := w.tar.WriteHeader(h)
	if err != nil && w.out.err == nil { // tar refused it before it wrote anything
		return &Error{Path: e.Path, Reason: strings.TrimPrefix(err.Error(), "archive/tar: ")}
	}
	return err
}

// sizeOf refuses what a reader would not read: more than 1 MiB of header, or a
// name that a record cannot have.
func sizeOf(h *tar.Header) error {
	n := 4*len(h.Name) + 4*len(h.Linkname)
	for k, v := range h.PAXRecords {
		if strings.Contains(k, "=") {
			return &Error{Path: h.Name, Reason: fmt.Sprintf("tar cannot hold the extended attribute %q", strings.TrimPrefix(k, xattrPax))}
		}
		n += len(k) + len(v) + 16
	}
	if n > 900<<10 {
		return &Error{Path: h.Name, Reason: "its extended attributes are more than tar can hold"}
	}
	return nil
}

// Write writes data of the file under way.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.raw {
		return w.tar.Write(p)
	}
	if int64(len(p)) > w.left {
		return 0, tar.ErrWriteTooLong
	}
	n, err := w.out.Write(p)
	w.left -= int64(n)
	return n, err
}

// Close ends the stream. The writer below stays open.
func (w *Writer) Close() error {
	if err := w.endRaw(); err != nil {
		return err
	}
	return w.tar.Close()
}

// endRaw ends a sparse file.
func (w *Writer) endRaw() error {
	if !w.raw {
		return nil
	}
	if w.left > 0 {
		return fmt.Errorf("archive: %d bytes of a file are missing", w.left)
	}
	w.raw = false
	_, err := w.out.Write(make([]byte, w.pad))
	return err
}

// sparse writes the headers and the map of a sparse file (GNU, PAX format 1.0).
func (w *Writer) sparse(h *tar.Header, spans []Span) error {
	if err := w.tar.Flush(); err != nil {
		return err
	}
	spans = Spans(spans, h.Size)
	var m bytes.Buffer
	var data int64
	list := slices.Clone(spans)
	if n := len(list); n == 0 || list[n-1].To < h.Size {
		list = append(list, Span{h.Size, h.Size}) // tells where the file ends
	}
	fmt.Fprintf(&m, "%d\n", len(list))
	for _, s := range list {
		fmt.Fprintf(&m, "%d\n%d\n", s.From, s.To-s.From)
		data += s.To - s.From
	}
	m.Write(make([]byte, padding(int64(m.Len()))))
	rec := maps.Clone(h.PAXRecords)
	rec["GNU.sparse.major"], rec["GNU.sparse.minor"] = "1", "0"
	rec["GNU.sparse.name"], rec["GNU.sparse.realsize"] = h.Name, strconv.FormatInt(h.Size, 10)
	size := int64(m.Len()) + data
	rec["size"] = strconv.FormatInt(size, 10)
	rec["uid"], rec["gid"] = strconv.Itoa(h.Uid), strconv.Itoa(h.Gid)
	setTime(rec, "mtime", h.ModTime)
	setTime(rec, "atime", h.AccessTime)
	var out bytes.Buffer
	body := records(rec)
	out.Write(ustar("PaxHeaders.0/sparse", 'x', h, int64(len(body))))
	out.WriteString(body)
	out.Write(make([]byte, padding(int64(len(body)))))
	out.Write(ustar("GNUSparseFile.0/file", tar.TypeReg, h, size))
	out.Write(m.Bytes())
	_, err := w.out.Write(out.Bytes())
	w.raw, w.left, w.pad = true, data, padding(size)
	return err
}

func padding(n int64) int64 { return -n & (block - 1) }

func setTime(rec map[string]string, key string, t time.Time) {
	if t.IsZero() {
		return
	}
	s, ns, sign := t.Unix(), int64(t.Nanosecond()), ""
	if s < 0 && ns > 0 { // -1.25 is a second and a quarter before
		s, ns = s+1, 1e9-ns
		if s == 0 {
			sign = "-"
		}
	}
	text := sign + strconv.FormatInt(s, 10)
	if ns != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%09d", ns), "0")
	}
	rec[key] = text
}

// records gives PAX records, each with its own length before it.
func records(rec map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(rec)) {
		rest := len(k) + len(rec[k]) + 3 // space, =, newline
		n := rest + len(strconv.Itoa(rest))
		if n2 := rest + len(strconv.Itoa(n)); n2 != n {
			n = n2
		}
		fmt.Fprintf(&b, "%d %s=%s\n", n, k, rec[k])
	}
	return b.String()
}

// ustar is one header block. Numbers that do not fit are in the PAX records.
func ustar(name string, flag byte, h *tar.Header, size int64) []byte {
	b := make([]byte, block)
	octal := func(at, width int, v int64) {
		if v < 0 || v >= 1<<(3*(width-1)) {
			v = 0
		}
		copy(b[at:], fmt.Sprintf("%0*o", width-1, v))
	}
	copy(b, name)
	octal(100, 8, h.Mode)
	octal(108, 8, int64(h.Uid))
	octal(116, 8, int64(h.Gid))
	octal(124, 12, size)
	octal(136, 12, h.ModTime.Unix())
	b[156] = flag
	copy(b[257:], "ustar\x0000")
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// outWriter remembers the first failure of where the stream goes.
type outWriter struct {
	w   io.Writer
	err error
}

// Write passes p on.
func (o *outWriter) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}
