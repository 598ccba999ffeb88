package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control/archive"
)

// planned is an entry that was read and has no name yet.
type planned struct {
	archive.Entry
	Node backend.NodeID // of a file: its content, without a name
}

// stored is a planned entry in the plan's file: names as bytes, which JSON
// keeps whatever they are.
type stored struct {
	planned
	Path, Link []byte
	Names      [][]byte // of the extended attributes
	Values     [][]byte
}

// plan is what was read of an archive, in a temporary file without a name, so
// that a large archive takes no memory.
type plan struct {
	file *os.File
	buf  *bufio.Writer
	enc  *json.Encoder
}

func newPlan() (*plan, error) {
	f, err := os.CreateTemp("", "warren-import")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := &plan{file: f, buf: bufio.NewWriterSize(f, 64<<10)}
	p.enc = json.NewEncoder(p.buf)
	return p, nil
}

func (p *plan) close() { _ = p.file.Close() }

// add appends an entry.
func (p *plan) add(e *planned) error {
	s := stored{planned: *e, Path: []byte(e.Path), Link: []byte(e.Link)}
	for name, v := range e.Xattrs {
		s.Names, s.Values = append(s.Names, []byte(name)), append(s.Values, v)
	}
	s.Entry.Path, s.Entry.Link, s.Entry.Xattrs = "", "", nil
	return p.enc.Encode(&s)
}

// each calls fn with every entry, in order. An error of fn ends it.
func (p *plan) each(fn func(*planned) error) error {
	if err := p.buf.Flush(); err != nil {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	d := json.NewDecoder(bufio.NewReaderSize(p.file, 64<<10))
	for {
		var s stored
		if err := d.Decode(&s); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		e := s.planned
		e.Path, e.Link = string(s.Path), string(s.Link)
		for n, name := range s.Names {
			if e.Xattrs == nil {
				e.Xattrs = map[string][]byte{}
			}
			e.Xattrs[string(name)] = s.Values[n]
		}
		if err := fn(&e); err != nil {
			return err
		}
	}
}
