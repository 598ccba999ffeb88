package segment

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// segFile is one segment. Content.mu guards all but what is constant and atomic.
type segFile struct {
	number uint64
	seed   uint32
	broken error // why nothing of it can be read; constant once bound

	frees atomic.Uint64 // grows with each Free; 0: no record of it is marked as freed
	freed freedAt

	f    dirfs.File // nil: not open
	refs int        // calls that use f
	gone bool       // unlinked: f is closed by the last that uses it

	pending  []span // written and not proven to be on disk
	inflight []span // pending ones that a running sync is about
	written  uint64 // grows with each completed write
	loose    uint64 // the value of written after the last write whose bytes do not ride
	synced   uint64 // the value of written that is on disk
	syncing  chan struct{}
	unproven error // why pending ones must be written again before a sync proves anything
}

func (s *segFile) name() string { return fileName(s.number) }

// freedAt is where the records of a segment begin that may be marked as freed.
type freedAt struct {
	at   map[int64]struct{}
	more bool // others may be, too
}

// maxFreed bounds what freedAt knows of a segment.
const maxFreed = 20_000

// mark notes that the record at at may be marked as freed; Content.mu held.
func (s *segFile) mark(at int64) {
	s.frees.Add(1)
	if len(s.freed.at) == maxFreed {
		s.freed.more = true
		return
	}
	if s.freed.at == nil {
		s.freed.at = map[int64]struct{}{}
	}
	s.freed.at[at] = struct{}{}
}

// mayBeFreed is false if the record at at is certainly not marked as freed:
// asking the store costs more than reading a small record.
func (c *Content) mayBeFreed(s *segFile, at int64) bool {
	if s.frees.Load() == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := s.freed.at[at]
	return known || s.freed.more
}

// wrote notes that sp was written, to be synced; Content.mu held.
func (s *segFile) wrote(sp span) {
	s.pending = addSpan(s.pending, sp)
	s.written++
}

// errNoSegment is why a segment that the store names has no file.
var errNoSegment = errors.New("the segment is missing")

var errClosed = errors.New("the content is closed")

// acquire gives the open file of a segment; release follows. Error: IO.
func (c *Content) acquire(number uint64) (*segFile, dirfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segs[number]
	switch {
	case c.closed:
		return nil, nil, errClosed
	case s == nil:
		return nil, nil, errNoSegment
	case s.broken != nil:
		return nil, nil, s.broken
	case s.f == nil:
		f, err := c.fs.Open(s.name())
		if err != nil {
			return nil, nil, err
		}
		s.f = f
		c.open++
	}
	s.refs++
	return s, s.f, nil
}

// lost tells whether nothing of a segment can be read, whoever tries.
func (c *Content) lost(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.segs[number]
	return s == nil && !c.closed || s != nil && s.broken != nil
}

// release ends an acquire. Of more than MaxOpen files it closes those that
// nobody uses, but never one with bytes that are not synced: the descriptor is
// what a failed write-back is reported to.
func (c *Content) release(s *segFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.refs--
	idle := c.open > c.opts.MaxOpen && s != c.current.Load() && len(s.pending) == 0 && len(s.inflight) == 0
	if s.refs == 0 && s.f != nil && (s.gone || idle) {
		c.shut(s)
	}
}

// shut closes s; mu held.
func (c *Content) shut(s *segFile) {
	if err := s.f.Close(); err != nil {
		c.log.Warn("closing a segment failed", "segment", s.name(), "err", err)
	}
	s.f = nil
	c.open--
}

// readRecord reads the header of ref's record, and whether it is ref's.
func readRecord(s *segFile, f dirfs.File, ref backend.Ref) (record, error) {
	var buf [maxHead]byte
	head := buf[:recordHead+4*blocks(min(ref.Length, limit))]
	if err := readFull(f, head, int64(ref.Offset)); err != nil {
		return record{}, err
	}
	r, ok := decodeRecord(head, s.seed, int64(ref.Offset))
	return r, matches(r, ok, ref)
}

// matches tells why the record found is not ref's, or nil.
func matches(r record, ok bool, ref backend.Ref) error {
	switch {
	case !ok:
		return errors.New("there is no valid record")
	case r.kind == kindVoid:
		return errors.New("the record was given back")
	case r.id != ref.ID || r.length != ref.Length || r.crc != ref.CRC:
		return fmt.Errorf("the record is of content %016x, %d bytes, crc %08x", r.id, r.length, r.crc)
	}
	return nil
}

// readFull reads all of p. A file that ends before is io.ErrUnexpectedEOF.
func readFull(f dirfs.File, p []byte, at int64) error {
	n, err := f.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

var errChecksum = errors.New("its bytes fail their checksum")

// readBlocks reads bytes [from, to) of r's content into p, whole blocks.
func readBlocks(f dirfs.File, r record, from int64, p []byte) error {
	if err := readFull(f, p, r.at+dataStart(r.length)+from); err != nil {
		return err
	}
	if !r.checkBlocks(int(from/block), p) {
		return errChecksum
	}
	return nil
}

// writeRecord writes the content first, so that a header without it is rare.
func writeRecord(s *segFile, f dirfs.File, r record, data []byte) error {
	head := r.encode(s.seed)
	if len(data) <= block {
		_, err := f.WriteAt(append(head, data...), r.at)
		return err
	}
	if _, err := f.WriteAt(data, r.at+int64(len(head))); err != nil {
		return err
	}
	_, err := f.WriteAt(head, r.at)
	return err
}

// writeVoid makes a record void; later reads of it are IO.
func writeVoid(s *segFile, f dirfs.File, at span) error {
	r := record{kind: kindVoid, at: at.from, size: at.to - at.from}
	_, err := f.WriteAt(r.encode(s.seed), at.from)
	return err
}
