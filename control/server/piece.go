package server

import (
	"bytes"
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// errChanged means that a file changed between two reads of one request.
var errChanged = errors.New("it changes too often to be read")

// piece is a part of a file being read. Errors: errChanged; NotFound if the file
// was replaced since it was found.
type piece struct {
	control.Piece
	v    *view.View
	node backend.NodeID
	part control.Part
	buf  []byte
}

func (x *piece) read() error {
	if x.part.Line > 0 {
		return x.lines()
	}
	size, err := x.size()
	if err != nil {
		return err
	}
	n := uint64(0)
	if x.part.Offset < size {
		n = min(x.part.Length, size-x.part.Offset)
	}
	x.Data, x.Offset = make([]byte, n), x.part.Offset
	x.Etag = "" // the file may have another one by now: what counts is that of the read
	got, err := x.at(x.Data, x.Offset)
	x.Data = x.Data[:got]
	return err
}

// size asks how big the file is.
func (x *piece) size() (uint64, error) {
	_, err := x.at(nil, 0)
	return x.Size, err
}

// at reads at off. The first read sets the facts that the others must find again.
func (x *piece) at(p []byte, off uint64) (int, error) {
	n, a, etag, err := x.v.ReadAt(x.node, p, off)
	if err != nil {
		return 0, err
	}
	if x.Etag != "" && x.Etag != etag {
		return 0, errChanged
	}
	x.Etag, x.Size, x.Mode = etag, a.Size, octal(a.Mode)
	return n, nil
}

// lines reads lines from number part.Line on: as many as were asked for and fit
// in part.Length, but of a first one that does not fit its beginning. Where the
// file ends first, it has counted all lines.
func (x *piece) lines() error {
	size, err := x.size()
	if err != nil {
		return err
	}
	x.buf = make([]byte, min(chunk, size+1))
	start, at, err := x.seekLine(size)
	if err != nil {
		return err
	}
	x.Line, x.Offset = x.part.Line, start
	if at < x.part.Line { // there are fewer
		x.Line, x.Lines, x.Offset = at+1, at, size
		return nil
	}
	x.Data = make([]byte, min(x.part.Length, size-start))
	n, err := x.at(x.Data, start)
	if err != nil {
		return err
	}
	x.Data = x.Data[:n]
	found := x.cutLines()
	if x.End() {
		x.Lines = x.Line - 1 + found
	}
	return nil
}

// seekLine finds where line part.Line starts, and gives its number; or, of a
// file with fewer lines, the number of the last one.
func (x *piece) seekLine(size uint64) (start uint64, line int, err error) {
	line = 1
	last := byte('\n')
	off := uint64(0)
	for off < size && line < x.part.Line {
		n, err := x.at(x.buf, off)
		if err != nil {
			return 0, 0, err
		}
		b := x.buf[:n]
		last = b[n-1]
		if have := bytes.Count(b, newline); line+have < x.part.Line {
			line, off = line+have, off+uint64(n)
			continue
		}
		for line < x.part.Line {
			i := bytes.IndexByte(b, '\n') + 1
			b, off, line = b[i:], off+uint64(i), line+1
		}
	}
	if off == size && last == '\n' {
		line-- // nothing comes after the last newline
	}
	return off, line, nil
}

var newline = []byte("\n")

// cutLines takes off what is more than the lines asked for, and a last line that
// is not whole, unless it is the only one. It gives the number of lines left.
func (x *piece) cutLines() int {
	lines, end := 0, 0
	for end < len(x.Data) && (x.part.Lines == 0 || lines < x.part.Lines) {
		i := bytes.IndexByte(x.Data[end:], '\n')
		if i < 0 {
			if x.End() || lines == 0 {
				lines, end = lines+1, len(x.Data)
			}
			break
		}
		lines, end = lines+1, end+i+1
	}
	x.Data = x.Data[:end]
	return lines
}
