package server

import (
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
	f, err := v.Put(p, body{r.Body}, mode)
	if err != nil {
		return err
	}
	return replyNode(w, v, f)
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
