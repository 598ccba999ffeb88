package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
	"github.com/warrenfs/warren/policy/view"
)

// reportTrailer is the HTTP trailer with what an export did.
const reportTrailer = "Warren-Report"

// treeExport streams a tree as tar. Each file is as it was when it was read.
func (s *Server) treeExport(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.archiveView(r)
	if err != nil {
		return err
	}
	owner, err := queryOwner(r)
	if err != nil {
		return err
	}
	if owner == nil && !askerOf(r).administrator() {
		return invalid("what uid and gid are the owner's files written with? the request names no owner")
	}
	if owner == nil {
		owner = &archive.ID{UID: peer(r).Uid, GID: peer(r).Gid}
	}
	x := &exporter{ctx: r.Context(), v: v, owner: *owner, names: map[backend.NodeID]string{}, buf: make([]byte, chunk),
		since: math.MinInt64}
	if text := r.URL.Query().Get("changed_since"); text != "" {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return invalid("changed_since %q is no time as 2026-01-02T15:04:05Z", text)
		}
		x.since = backend.TimeOf(t)
	}
	f, err := v.Find(p, true)
	if err != nil {
		return err
	}
	x.report.Path = f.Path
	start := time.Now()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Trailer", reportTrailer)
	if err := x.run(w, &f); err != nil {
		if r.Context().Err() == nil {
			s.Log.Warn("export ended early", "path", f.Path, "err", err)
		}
		panic(http.ErrAbortHandler) // the client must not take what it got for all
	}
	x.report.Millis = time.Since(start).Milliseconds()
	w.Header().Set(reportTrailer, trailer(x.report))
	return nil
}

// A client need not take more than 4 KiB of trailers: Go's by default does not.
const (
	maxTrailer = 3500
	maxTold    = 400 // bytes of a path there
)

// trailer words a report in ASCII, with as much of what was left out as there is room
// for.
func trailer(t control.Transfer) string {
	t.Path, t.Skipped = shortened(t.Path), slices.Clone(t.Skipped)
	for i, s := range t.Skipped {
		t.Skipped[i] = control.Skipped{Path: shortened(s.Path), Reason: shortened(s.Reason)}
	}
	for {
		out := ascii(t)
		if len(out) <= maxTrailer || len(t.Skipped) == 0 {
			return out
		}
		t.Skipped = t.Skipped[:len(t.Skipped)-1]
	}
}

// shortened is a text that is too long without its middle.
func shortened(s string) string {
	if len(s) <= maxTold {
		return s
	}
	return strings.ToValidUTF8(s[:maxTold/2]+"…"+s[len(s)-maxTold/2:], "")
}

// ascii is t in JSON, without a byte that a header cannot have.
func ascii(t control.Transfer) string {
	b, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	var out strings.Builder
	for _, c := range string(b) {
		switch {
		case c < 0x7f:
			out.WriteRune(c)
		case c < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, c)
		default:
			c -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		}
	}
	return out.String()
}

// exporter is one export under way.
type exporter struct {
	ctx    context.Context
	v      *view.View
	out    *archive.Writer
	owner  archive.ID
	since  backend.Time
	above  []*archive.Entry // directories on the way that were not written yet
	names  map[backend.NodeID]string
	report control.Transfer
	buf    []byte
}

func (x *exporter) run(w http.ResponseWriter, f *view.Found) error {
	var err error
	if x.out, err = archive.NewWriter(w, x.owner); err != nil {
		return err
	}
	top := "."
	if !f.Attr.IsDir() {
		top = path.Base(f.Path)
	}
	if err := x.node(f.Attr, top); err != nil {
		return err
	}
	return x.out.Close()
}

// gone tells whether err says that something was removed meanwhile.
func gone(err error) bool {
	return errors.Is(err, backend.NotFound) || errors.Is(err, backend.Stale)
}

// node writes what is at p and below.
func (x *exporter) node(a backend.Attr, p string) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if reason := archive.BadPath(p); reason != "" { // nobody could read the archive
		x.report.Skip(p, reason)
		return nil
	}
	if a.IsDir() {
		return x.dir(a, p)
	}
	if a.Mtime < x.since && a.Ctime < x.since {
		return nil
	}
	e := x.entry(a, p)
	if first, ok := x.names[a.Node]; ok {
		e.Type, e.Link, e.Size = archive.Hardlink, first, 0
		_, err := x.begin(e, nil)
		return err
	}
	var ok bool
	var err error
	switch a.Type {
	case backend.TypeRegular:
		e.Type = archive.File
		ok, err = x.file(a, e)
	case backend.TypeSymlink:
		e.Type = archive.Symlink
		if e.Link, err = x.v.Readlink(nil, a.Node); err == nil {
			ok, err = x.begin(e, nil)
		} else {
			err = x.skip(p, err)
		}
	case backend.TypeFIFO:
		e.Type = archive.FIFO
		ok, err = x.begin(e, nil)
	default:
		x.report.Skip(p, "sockets and devices do not travel")
	}
	if ok && a.Nlink > 1 {
		x.names[a.Node] = p
	}
	return err
}

// skip notes what policy refuses, what is damaged and what was removed
// meanwhile; other errors it gives back.
func (x *exporter) skip(p string, err error) error {
	switch backend.KindOf(err) {
	case backend.NotFound, backend.Stale:
		return nil
	case backend.Denied, backend.NotPermitted, backend.IO:
		x.report.Skip(p, text(err))
		return nil
	}
	return err
}

func (x *exporter) dir(a backend.Attr, p string) error {
	list, err := x.v.List(nil, a.Node)
	if err != nil {
		return x.skip(p, err)
	}
	e := x.entry(a, p)
	e.Type = archive.Dir
	mark := len(x.above)
	x.above = append(x.above, e)
	if a.Mtime >= x.since || a.Ctime >= x.since {
		if err := x.writeAbove(); err != nil {
			return err
		}
	}
	for _, d := range list {
		child, err := x.v.Lookup(nil, a.Node, d.Name)
		if err != nil {
			if err = x.skip(path.Join(p, d.Name), err); err != nil {
				return err
			}
			continue
		}
		if err := x.node(child, path.Join(p, d.Name)); err != nil {
			return err
		}
	}
	x.above = x.above[:min(mark, len(x.above))]
	return nil
}

// writeAbove writes the directories that wait for something in them.
func (x *exporter) writeAbove() error {
	for _, e := range x.above {
		if e == nil {
			continue
		}
		if err := x.header(e, nil); err != nil {
			var refused *archive.Error
			if !errors.As(err, &refused) {
				return err
			}
			x.report.Skip(e.Path, refused.Reason)
		}
	}
	for n := range x.above {
		x.above[n] = nil
	}
	return nil
}

// begin writes the header of what is no directory, and tells whether tar can
// hold it.
func (x *exporter) begin(e *archive.Entry, spans []archive.Span) (bool, error) {
	if err := x.writeAbove(); err != nil {
		return false, err
	}
	err := x.header(e, spans)
	var refused *archive.Error
	if errors.As(err, &refused) {
		x.report.Skip(e.Path, refused.Reason)
		return false, nil
	}
	return err == nil, err
}

func (x *exporter) header(e *archive.Entry, spans []archive.Span) error {
	err := x.out.Begin(e, spans)
	if err == nil {
		x.report.Entries++
	}
	return err
}

// entry is a as it is written, but for its type.
func (x *exporter) entry(a backend.Attr, p string) *archive.Entry {
	e := &archive.Entry{Path: p, Mode: a.Mode, Owner: x.owner, Atime: a.Atime.Time(), Mtime: a.Mtime.Time(), Size: int64(a.Size)}
	if a.UID != backend.OwnerID {
		e.Owner.UID = a.UID
	}
	if a.GID != backend.OwnerID {
		e.Owner.GID = a.GID
	}
	names, err := x.v.ListXattr(nil, a.Node)
	for _, name := range names {
		var value []byte
		if value, err = x.v.GetXattr(nil, a.Node, name); err != nil {
			break
		}
		if e.Xattrs == nil {
			e.Xattrs = map[string][]byte{}
		}
		e.Xattrs[name] = value
	}
	if err != nil && !gone(err) && !errors.Is(err, backend.NoData) {
		x.report.Skip(p, "its extended attributes: "+text(err))
	}
	return e
}

// file writes a file. Its first bytes are read before its header is written, so
// that what may not be read, and most of what is damaged, is left out whole.
func (x *exporter) file(a backend.Attr, e *archive.Entry) (bool, error) {
	if _, err := x.v.Open(nil, a.Node, view.OpenFlags{Read: true}); err != nil {
		return false, x.skip(e.Path, err)
	}
	began, err := x.v.Rewritten(a.Node)
	if err != nil {
		return false, x.skip(e.Path, err)
	}
	var spans []archive.Span
	if a.Blocks*512 < a.Size {
		var err error
		if spans, err = x.spans(a); err != nil {
			return false, x.skip(e.Path, err)
		}
	}
	all := spans
	if spans == nil && a.Size > 0 {
		all = []archive.Span{{From: 0, To: int64(a.Size)}}
	}
	all = archive.Spans(all, int64(a.Size))
	first := 0
	if len(all) > 0 {
		var err error
		first = int(min(all[0].To-all[0].From, chunk))
		if err = x.read(a.Node, e.Path, x.buf[:first], all[0].From); err != nil {
			return false, x.skip(e.Path, err)
		}
	}
	if ok, err := x.begin(e, spans); !ok {
		return false, err
	}
	x.report.Files++
	x.report.Bytes += int64(a.Size)
	for _, s := range all {
		for at := s.From; at < s.To; {
			if err := x.ctx.Err(); err != nil {
				return false, err
			}
			b := x.buf[:min(s.To-at, chunk)]
			if first == 0 {
				if err := x.read(a.Node, e.Path, b, at); err != nil {
					return false, err
				}
			}
			first = 0
			if _, err := x.out.Write(b); err != nil {
				return false, err
			}
			at += int64(len(b))
		}
	}
	if now, err := x.v.Rewritten(a.Node); err == nil && now != began {
		x.report.Skip(e.Path, "it was written while it was read; its content may be of both")
	}
	return true, nil
}

// read fills b. Bytes that are not there any more are zeros.
func (x *exporter) read(n backend.NodeID, p string, b []byte, off int64) error {
	got, err := x.v.Read(nil, n, b, uint64(off))
	if err != nil {
		return err
	}
	if got < len(b) {
		clear(b[got:])
		x.report.Skip(p, "it became shorter while it was read; its end is zeros")
	}
	return nil
}

// spans finds the parts of a sparse file that are data.
func (x *exporter) spans(a backend.Attr) ([]archive.Span, error) {
	out := []archive.Span{}
	for at := uint64(0); at < a.Size; {
		from, err := x.v.Seek(nil, a.Node, at, false)
		if errors.Is(err, backend.NoDevice) {
			break
		}
		if err != nil {
			return nil, err
		}
		to, err := x.v.Seek(nil, a.Node, from, true)
		if err != nil {
			return nil, err
		}
		out = append(out, archive.Span{From: int64(from), To: int64(to)})
		if at = to; len(out) > 1<<14 { // the rest is written whole
			return append(out, archive.Span{From: int64(at), To: int64(a.Size)}), nil
		}
	}
	return out, nil
}
