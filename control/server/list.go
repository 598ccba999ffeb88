package server

import (
	"bufio"
	"io"
	"net/http"

	"github.com/warrenfs/warren/control"
)

// cutOff ends a listing that failed: by an error while there is nothing of it yet.
func (s *Server) cutOff(l *listWriter, p string, err error) error {
	if !l.begun {
		return err
	}
	s.Log.Warn("listing ended early", "path", p, "err", err)
	panic(http.ErrAbortHandler) // the client must not take what it got for all
}

// listAtOnce is how many elements of a list are kept before they are written.
const listAtOnce = 1000

// listWriter answers with a JSON array piece by piece, so that a directory of a
// million names takes no memory.
type listWriter struct {
	w     http.ResponseWriter
	n     int // elements
	kept  []control.Node
	begun bool
}

func (l *listWriter) add(n control.Node) error {
	l.n++
	if l.kept = append(l.kept, n); len(l.kept) < listAtOnce {
		return nil
	}
	return l.flush()
}

// flush writes what is kept.
func (l *listWriter) flush() error {
	b := bufio.NewWriterSize(l.w, 32<<10)
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/json")
		_ = b.WriteByte('[') // Flush has its error
	}
	for i := range l.kept {
		if l.begun || i > 0 {
			_ = b.WriteByte(',')
		}
		if err := encode(b, &l.kept[i]); err != nil {
			return err
		}
	}
	l.kept, l.begun = l.kept[:0], true
	return b.Flush()
}

// end writes the rest.
func (l *listWriter) end() error {
	if !l.begun && len(l.kept) == 0 {
		return reply(l.w, []control.Node{})
	}
	if err := l.flush(); err != nil {
		return nil // the client hung up
	}
	_, _ = io.WriteString(l.w, "]\n")
	return nil
}
