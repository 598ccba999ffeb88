package tree

import (
	"github.com/warrenfs/warren/backend"
)

const (
	// InlineMax is the longest content that stands in the extent itself.
	InlineMax = 2048
	// BlockSize is the grain of small writes.
	BlockSize = backend.BlockSize
	// maxBarriers a file may have; one more waits for the reclaimer.
	maxBarriers = 8
	// sweepMax is how many extents one operation removes at most.
	sweepMax = 512
)

// extent is bytes [start, end) of a file: inline, or [off, off+len) of ref.
// docs/format.md, rule 10.
type extent struct {
	start, end uint64
	gen        uint32
	epoch      uint32
	inline     []byte // nil: in ref
	ref        backend.Ref
	off        uint32
}

func (e *extent) length() uint64 { return e.end - e.start }

const (
	extentInline = 0
	extentRef    = 1
)

func (e *extent) encode(b []byte) []byte {
	enc := encoder{b}
	enc.byte(recordVersion)
	if e.inline != nil {
		enc.byte(extentInline)
	} else {
		enc.byte(extentRef)
	}
	enc.u(uint64(e.epoch))
	enc.u(uint64(e.gen))
	enc.u(e.length())
	if e.inline != nil {
		enc.b = append(enc.b, e.inline...)
		return enc.b
	}
	enc.u(e.ref.ID)
	enc.u(e.ref.Segment)
	enc.u(e.ref.Offset)
	enc.u(uint64(e.ref.Length))
	enc.u(uint64(e.ref.CRC))
	enc.u(uint64(e.off))
	return enc.b
}

// decodeExtent shares b's bytes.
func decodeExtent(v backend.VolumeID, i backend.Ino, end uint64, b []byte) (extent, error) {
	d := decoder{b: b}
	if d.byte() != recordVersion {
		d.bad = true
	}
	kind := d.byte()
	e := extent{end: end, epoch: uint32(d.u()), gen: uint32(d.u())}
	n := d.u()
	if n == 0 || n > end {
		d.bad = true
		return e, d.done("extent", v, i)
	}
	e.start = end - n
	switch kind {
	case extentInline:
		e.inline = d.b
		d.bad = d.bad || uint64(len(d.b)) != n
		d.b = nil
	case extentRef:
		e.ref = backend.Ref{ID: d.u(), Segment: d.u(), Offset: d.u(), Length: uint32(d.u()), CRC: uint32(d.u())}
		e.off = uint32(d.u())
		d.bad = d.bad || uint64(e.off)+n > uint64(e.ref.Length)
	default:
		d.bad = true
	}
	return e, d.done("extent", v, i)
}

// cut gives the part [from, to) of e.
func (e *extent) cut(from, to uint64) extent {
	c := *e
	c.start, c.end = from, to
	if e.inline != nil {
		c.inline = e.inline[from-e.start : to-e.start]
	} else {
		c.off += uint32(from - e.start)
	}
	return c
}
