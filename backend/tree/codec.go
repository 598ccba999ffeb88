package tree

import (
	"encoding/binary"
	"fmt"

	"github.com/warrenfs/warren/backend"
)

// encoder appends the fields of a record. Numbers are unsigned varints, times
// and other signed numbers zig-zag ones, strings their length and bytes.
type encoder struct{ b []byte }

func (e *encoder) byte(v byte)  { e.b = append(e.b, v) }
func (e *encoder) u(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) i(v int64)    { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) str(s string) { e.u(uint64(len(s))); e.b = append(e.b, s...) }

// decoder reads them back. After the first bad field every read gives zero
// and bad stays set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) u() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) i() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.u()
	if d.bad || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) str() string { return string(d.bytes()) }

// done reports a record that is short, long or of a version this code does
// not know. what names the record for the reader of the error.
func (d *decoder) done(what string, v backend.VolumeID, i backend.Ino) error {
	if !d.bad && len(d.b) == 0 {
		return nil
	}
	return &backend.Error{Op: "decode " + what, Path: backend.Node(v, i).String(), Kind: backend.IO,
		Err: fmt.Errorf("record is damaged; run warren fsck")}
}
