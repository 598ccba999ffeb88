package server

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
)

// backup streams a backup of the store. The body is the index of an earlier one,
// or nothing; it is taken in whole first, so that neither side waits for the other.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	f, err := os.CreateTemp("", "warren-index")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	n, err := io.Copy(f, r.Body)
	if err != nil {
		return invalid("read the request: %v", err)
	}
	var index io.Reader
	if n > 0 {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		index = bufio.NewReader(f)
	}
	out := &lateHeader{w: w}
	if err := s.Daemon.Backup(r.Context(), out, index); err != nil {
		if !out.begun {
			return err
		}
		if r.Context().Err() == nil && !errors.Is(err, io.ErrClosedPipe) {
			s.Log.Error("backup ended early", "err", err)
		}
		panic(http.ErrAbortHandler) // the client must not take what it got for all
	}
	return nil
}

// lateHeader is an answer that can still become an error until it begins.
type lateHeader struct {
	w     http.ResponseWriter
	begun bool
}

// Write writes bytes of the answer.
func (l *lateHeader) Write(p []byte) (int, error) {
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/octet-stream")
		l.begun = true
	}
	return l.w.Write(p)
}
