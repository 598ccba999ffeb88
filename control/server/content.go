package server

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// maxChanges bounds how often a request starts again because the file it is
// about was changed or replaced meanwhile.
const maxChanges = 16

// fsRead streams a file's bytes, or answers with a part of them.
func (s *Server) fsRead(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if q.Has("offset") || q.Has("length") || q.Has("line") || q.Has("lines") {
		return s.readPiece(w, q, v, p)
	}
	for range maxChanges {
		if err = s.stream(w, v, p, q.Get("if_match")); !errors.Is(err, backend.NotFound) {
			return err
		}
		if _, found := v.Find(p, true); found != nil {
			return found
		}
	}
	return &backend.Error{Op: "read", Path: p, Kind: backend.Conflict, Err: errChanged}
}

// stream writes all of a file to w. It fails with NotFound if the file is missing, or if
// it was replaced or rewritten in place before its first byte was sent.
func (s *Server) stream(w http.ResponseWriter, v *view.View, p, match string) error {
	f, err := readable(v, p)
	if err != nil {
		return err
	}
	began, err := v.Rewritten(f.Attr.Node)
	if err != nil {
		return err
	}
	size := f.Attr.Size + 1
	if size > control.MaxPiece { // else it is read at once, as it is at one moment
		size = chunk
	}
	buf := make([]byte, size)
	for off := uint64(0); ; {
		n, a, etag, err := v.ReadAt(f.Attr.Node, buf, off)
		if now, rerr := v.Rewritten(f.Attr.Node); err == nil && (rerr != nil || now != began) {
			err = backend.NotFound // what was begun is there no more
		}
		if err == nil && off == 0 {
			err = matches(p, match, etag)
		}
		if err != nil && off == 0 {
			return err
		}
		if err != nil {
			s.Log.Warn("read ended early", "path", p, "err", err)
			panic(http.ErrAbortHandler) // the client must not take what it got for all
		}
		if off == 0 {
			describe(w, &control.Piece{Path: f.Path, Etag: etag, Size: a.Size, Mode: octal(a.Mode)})
		}
		if n == 0 {
			return nil
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return nil // the client hung up
		}
		if n < len(buf) {
			return nil
		}
		off += uint64(n)
	}
}

// readable finds a regular file that may be read, and looks again where it is
// replaced meanwhile.
func readable(v *view.View, p string) (f view.Found, err error) {
	for range maxChanges {
		if f, err = v.Find(p, true); err != nil {
			return f, err
		}
		if err = opened(v, p, &f); !errors.Is(err, backend.NotFound) {
			return f, err
		}
	}
	return f, &backend.Error{Op: "read", Path: p, Kind: backend.Conflict, Err: errChanged}
}

// opened opens what was found for reading. NotFound: it is gone since.
func opened(v *view.View, p string, f *view.Found) error {
	if f.Attr.Type != backend.TypeRegular {
		kind := backend.Invalid
		if f.Attr.IsDir() {
			kind = backend.IsDir
		}
		return &backend.Error{Op: "read", Path: p, Kind: kind}
	}
	_, err := v.Open(nil, f.Attr.Node, view.OpenFlags{Read: true})
	return err
}

// matches fails if a condition on the etag does not hold.
func matches(p, want, etag string) error {
	if want == "" || want == etag {
		return nil
	}
	return &control.Error{Kind: control.KindConflict, Text: "read " + p + ": it has changed: its etag is another one now",
		Details: map[string]any{"etag": etag}}
}

// describe tells in headers what the body will be.
func describe(w http.ResponseWriter, p *control.Piece) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", `"`+p.Etag+`"`)
	h.Set(control.HeaderPath, url.PathEscape(p.Path))
	h.Set(control.HeaderMode, p.Mode)
	h.Set(control.HeaderSize, strconv.FormatUint(p.Size, 10))
	h.Set(control.HeaderOffset, strconv.FormatUint(p.Offset, 10))
	if p.Line > 0 {
		h.Set(control.HeaderLine, strconv.Itoa(p.Line))
	}
	if p.Lines > 0 {
		h.Set(control.HeaderLines, strconv.Itoa(p.Lines))
	}
}

// readPiece answers with a part of a file, all of one moment.
func (s *Server) readPiece(w http.ResponseWriter, q url.Values, v *view.View, path string) error {
	part, err := queryPart(q)
	if err != nil {
		return err
	}
	var p control.Piece
	for range maxChanges {
		var f view.Found
		if f, err = readable(v, path); err != nil {
			return err
		}
		x := piece{v: v, node: f.Attr.Node, part: part}
		x.Path = f.Path
		err = x.read()
		p = x.Piece
		if err == nil {
			err = matches(path, part.IfMatch, p.Etag)
			break
		}
		if !errors.Is(err, errChanged) && !errors.Is(err, backend.NotFound) {
			break
		}
		if err = matches(path, part.IfMatch, p.Etag); err != nil {
			return err
		}
		err = &backend.Error{Op: "read", Path: path, Kind: backend.Conflict, Err: errChanged}
	}
	if err != nil {
		return err
	}
	describe(w, &p)
	_, _ = w.Write(p.Data) // or the client hung up
	return nil
}

// queryPart reads which part of a file is asked for.
func queryPart(q url.Values) (p control.Part, err error) {
	p.IfMatch, p.Length = q.Get("if_match"), control.MaxPiece
	number := func(name string, to *uint64, least, most uint64) {
		if !q.Has(name) || err != nil {
			return
		}
		n, perr := strconv.ParseUint(q.Get(name), 10, 64)
		if perr != nil || n < least || n > most {
			err = invalid("%s %q is no number from %d to %d", name, q.Get(name), least, most)
		}
		*to = n
	}
	var line, lines uint64
	number("offset", &p.Offset, 0, backend.MaxFileSize)
	number("length", &p.Length, 1, control.MaxPiece)
	number("line", &line, 1, maxLine)
	number("lines", &lines, 1, maxLine)
	p.Line, p.Lines = int(line), int(lines)
	if err == nil && (line > 0 && q.Has("offset") || line == 0 && lines > 0) {
		err = invalid("a part begins at an offset or at a line, not both; lines are counted from a line")
	}
	return p, err
}

// maxLine is the greatest number of a line that may be asked for.
const maxLine = 1 << 40

// fsWrite replaces a file by the request's body, whole or not at all, or adds it
// to the end of one.
func (s *Server) fsWrite(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	mode, err := queryMode(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	cond := view.Cond{Match: q.Get("if_match"), Absent: q.Get("no_clobber") == "true"}
	var f view.Found
	var etag string
	if q.Get("append") == "true" {
		if mode != 0 {
			return invalid("a mode is for a file that is written whole")
		}
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(body{r.Body}, control.MaxPiece+1)); err != nil {
			return err
		}
		if len(data) > control.MaxPiece {
			return &backend.Error{Op: "write", Path: p, Kind: backend.TooBig, Err: errors.New("at most 8 MiB are appended at once")}
		}
		f, etag, err = v.AppendFile(p, data, 0, cond)
	} else {
		f, etag, err = v.PutIf(p, body{r.Body}, mode, cond)
	}
	if err != nil {
		return s.moved(v, p, err)
	}
	n, err := nodeAt(v, f, etag)
	if err != nil {
		return err
	}
	return reply(w, n)
}

// moved adds to the failure of a condition on an etag which one the file has.
func (s *Server) moved(v *view.View, p string, err error) error {
	if !errors.Is(err, backend.Conflict) {
		return err
	}
	e := &control.Error{Kind: control.KindConflict, Text: text(err)}
	if f, ferr := v.Find(p, true); ferr == nil {
		if etag, eerr := v.Etag(f.Attr.Node); eerr == nil {
			e.Details = map[string]any{"etag": etag}
		}
	}
	return e
}

// body is a request's; it tells its own failures from those of the tree.
type body struct{ r io.Reader }

func (b body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = invalid("read the request: %v", err)
	}
	return n, err
}
