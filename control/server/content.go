package server

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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
	switch {
	case errors.Is(err, io.EOF):
		a, err := v.WriteFile(p, buf[:n], mode)
		if err != nil {
			return err
		}
		return replyNode(w, v, a, p)
	case err != nil:
		return invalid("read the request: %v", err)
	}
	a, err := s.writeBig(v, p, mode, buf, r.Body)
	if err != nil {
		return err
	}
	return replyNode(w, v, a, p)
}

// writeBig writes first and rest to a file without a name, which then takes
// the place of what is at p. A crash leaves nothing behind.
func (s *Server) writeBig(v *view.View, p string, mode uint32, first []byte, rest io.Reader) (backend.Attr, error) {
	none := backend.Attr{}
	if old, err := v.Resolve(p); err == nil {
		if p, err = v.Path(old.Node); err != nil { // through symlinks
			return none, err
		}
		if mode == 0 {
			mode = old.Mode
		}
	}
	if mode == 0 {
		mode = 0o644
	}
	dir, name, err := v.ResolveParent(p)
	if err != nil {
		return none, err
	}
	a, err := v.Tmpfile(nil, dir.Node, mode)
	if err != nil {
		return none, err
	}
	linked := false
	defer func() {
		if !linked {
			s.Space.Dropped(a.Node)
		}
	}()
	if err := copyTo(v, a.Node, io.MultiReader(bytes.NewReader(first), rest)); err != nil {
		return none, err
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return none, err
	}
	temp := ".warren-" + hex.EncodeToString(b[:])
	if _, err := v.Link(nil, a.Node, dir.Node, temp); err != nil {
		return none, err
	}
	linked = true
	if err := v.Rename(nil, dir.Node, temp, dir.Node, name, 0); err != nil {
		return none, errors.Join(err, v.Unlink(nil, dir.Node, temp))
	}
	return v.Getattr(nil, a.Node)
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
