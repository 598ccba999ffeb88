package server

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// fsRead streams a file's bytes.
func (s *Server) fsRead(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	a, err := v.Resolve(p)
	if err != nil {
		return err
	}
	if a.Type != backend.TypeRegular {
		kind := backend.Invalid
		if a.IsDir() {
			kind = backend.IsDir
		}
		return &backend.Error{Op: "read", Path: p, Kind: kind}
	}
	if _, err := v.Open(nil, a.Node, view.OpenFlags{Read: true}); err != nil {
		return err
	}
	buf := make([]byte, min(chunk, a.Size+1))
	for off := uint64(0); ; {
		n, err := v.Read(nil, a.Node, buf, off)
		if err != nil && off == 0 {
			return err
		}
		if err != nil {
			s.Log.Warn("read ended early", "path", p, "err", err)
			panic(http.ErrAbortHandler) // the client must not take what it got for all
		}
		if off == 0 {
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		if n == 0 {
			return nil
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return nil // the client hung up
		}
		off += uint64(n)
	}
}

// fsWrite replaces a file by the request's body, whole or not at all.
func (s *Server) fsWrite(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	mode, err := queryMode(r)
	if err != nil {
		return err
	}
	buf := make([]byte, chunk)
	n, err := fill(r.Body, buf)
	var a backend.Attr
	switch {
	case errors.Is(err, io.EOF):
		a, err = writeSmall(v, p, mode, buf[:n])
	case err == nil:
		a, err = s.writeBig(v, p, mode, io.MultiReader(bytes.NewReader(buf), r.Body))
	default:
		err = invalid("read the request: %v", err)
	}
	if err != nil {
		return err
	}
	return replyNode(w, v, a, p)
}

// writeSmall writes what one operation can hold. Mode 0 keeps a file's, and is
// 0644 for a new one; another mode is set on both.
func writeSmall(v *view.View, p string, mode uint32, data []byte) (backend.Attr, error) {
	a, err := v.WriteFile(p, data, newMode(mode))
	if err == nil && mode != 0 && a.Mode != mode {
		a, err = v.Setattr(nil, a.Node, backend.SetAttr{Mode: &mode})
	}
	return a, err
}

// newMode is the mode of a file that is made.
func newMode(mode uint32) uint32 {
	if mode == 0 {
		return 0o644
	}
	return mode
}

// writeBig writes body to a file without a name, which then takes the place of
// what is at p. A crash leaves nothing behind. Where the view may write the
// file but not its directory, it is written in place, and not all at once.
func (s *Server) writeBig(v *view.View, p string, mode uint32, body io.Reader) (backend.Attr, error) {
	old, err := v.Resolve(p)
	exists := err == nil
	if exists {
		if old.Type != backend.TypeRegular {
			return old, &backend.Error{Op: "write", Path: p, Kind: backend.Invalid}
		}
		if _, err := v.Open(nil, old.Node, view.OpenFlags{Write: true}); err != nil {
			return old, err
		}
		if p, err = v.Path(old.Node); err != nil { // its own name, not a symlink's
			return old, err
		}
		if mode == 0 {
			mode = old.Mode
		}
	}
	dir, name, err := v.ResolveParent(p)
	if err != nil {
		return old, err
	}
	a, err := v.Tmpfile(nil, dir.Node, newMode(mode))
	if exists && errors.Is(err, backend.Denied) {
		if _, err := v.Open(nil, old.Node, view.OpenFlags{Write: true, Truncate: true}); err != nil {
			return old, err
		}
		if err := copyTo(v, old.Node, body); err != nil {
			return old, err
		}
		return v.Getattr(nil, old.Node)
	}
	if err != nil {
		return old, err
	}
	defer s.Space.Dropped(a.Node) // it stays if it got a name
	if exists && (old.UID != a.UID || old.GID != a.GID) {
		if _, err := v.Setattr(nil, a.Node, backend.SetAttr{UID: &old.UID, GID: &old.GID, Mode: &mode}); err != nil {
			return old, err
		}
	}
	if err := copyTo(v, a.Node, body); err != nil {
		return old, err
	}
	return giveName(v, a.Node, dir.Node, name)
}

// giveName puts a nameless file in the place of what name leads to.
func giveName(v *view.View, n, dir backend.NodeID, name string) (backend.Attr, error) {
	temp := ".warren-" + rand.Text()
	if _, err := v.Link(nil, n, dir, temp); err != nil {
		return backend.Attr{}, err
	}
	if err := v.Rename(nil, dir, temp, dir, name, 0); err != nil {
		return backend.Attr{}, errors.Join(err, v.Unlink(nil, dir, temp))
	}
	return v.Getattr(nil, n)
}

// copyTo writes all of r to a new file.
func copyTo(v *view.View, n backend.NodeID, r io.Reader) error {
	buf := make([]byte, chunk)
	for off := uint64(0); ; {
		got, rerr := fill(r, buf)
		for p := buf[:got]; len(p) > 0; {
			res, err := v.Write(nil, n, p, off)
			if err != nil {
				return err
			}
			p, off = p[res.N:], off+uint64(res.N)
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil:
			return invalid("read the request: %v", rerr)
		}
	}
}

// fill reads until buf is full. io.EOF, with what was read, is the true end: a
// body that was cut short has another error, which io.ReadFull would blur.
func fill(r io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
