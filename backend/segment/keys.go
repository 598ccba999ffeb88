package segment

import (
	"encoding/binary"
	"errors"

	"github.com/warrenfs/warren/backend"
)

// Keys (rules 8 to 10). Numbers in keys are big-endian.
const (
	family    = 's'
	subStore  = 0 // s 0: the store's id
	subCounts = 1 // s 1 <segment>: counts
	subFreed  = 2 // s 2 <segment><offset>: a freed record
	subRide   = 3 // s 3 <segment><offset>: content that rides, in the log alone
)

func storeKey() []byte { return []byte{family, subStore} }

func countsKey(segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{family, subCounts}, segment)
}

func freedKey(segment, offset uint64) []byte {
	return binary.BigEndian.AppendUint64(freedPrefix(segment), offset)
}

func rideKey(segment, offset uint64) []byte {
	b := binary.BigEndian.AppendUint64([]byte{family, subRide}, segment)
	return binary.BigEndian.AppendUint64(b, offset)
}

// decodeRide reads what rides: where its record belongs, and the content.
func decodeRide(key, value []byte) (segment uint64, at int64, id uint64, data []byte, err error) {
	r := reader{b: value}
	id = r.u(1<<64 - 1)
	if len(key) != 18 || key[0] != family || key[1] != subRide || r.bad || len(r.b) == 0 || len(r.b) > limit {
		return 0, 0, 0, nil, errValue
	}
	at = int64(binary.BigEndian.Uint64(key[10:]))
	if at < fileHead || at%align != 0 {
		return 0, 0, 0, nil, errValue
	}
	return binary.BigEndian.Uint64(key[2:]), at, id, r.b, nil
}

func freedPrefix(segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{family, subFreed}, segment)
}

// counts is what the store keeps of a segment (rule 9).
type counts struct {
	live int64         // bytes of records that are named
	refs uint64        // number of records that are named
	end  int64         // where the last record that was ever named ends
	puts []backend.Ref // of the Update that wrote the value
}

const valueVersion = 1

var errValue = &backend.Error{Op: "segment", Kind: backend.IO, Err: errors.New("a record of the segment counts is damaged")}

func (c counts) encode() []byte {
	b := []byte{valueVersion}
	for _, n := range []uint64{uint64(c.live), c.refs, uint64(c.end), uint64(len(c.puts))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, p := range c.puts {
		for _, n := range []uint64{p.ID, p.Offset, uint64(p.Length), uint64(p.CRC)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) u(most uint64) uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > most {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func decodeCounts(segment uint64, b []byte) (counts, error) {
	if len(b) == 0 || b[0] != valueVersion {
		return counts{}, errValue
	}
	const most = 1 << 62
	r := reader{b: b[1:]}
	c := counts{live: int64(r.u(most)), refs: r.u(most), end: int64(r.u(most))}
	n := r.u(uint64(len(b)))
	for i := uint64(0); i < n && !r.bad; i++ {
		c.puts = append(c.puts, backend.Ref{ID: r.u(1<<64 - 1), Segment: segment, Offset: r.u(most),
			Length: uint32(r.u(limit)), CRC: uint32(r.u(1<<32 - 1))})
	}
	if r.bad || len(r.b) > 0 {
		return counts{}, errValue
	}
	return c, nil
}

// countsSegment is the segment of a counts key.
func countsSegment(key []byte) (uint64, bool) {
	if len(key) != 10 || key[0] != family || key[1] != subCounts {
		return 0, false
	}
	return binary.BigEndian.Uint64(key[2:]), true
}

// freedRecord reads a freed key and its value, the content's length.
func freedRecord(key, value []byte) (segment uint64, s span, err error) {
	r := reader{b: value}
	n := uint32(r.u(1<<32 - 1))
	if len(key) != 18 || r.bad || len(r.b) > 0 {
		return 0, span{}, errValue
	}
	at := int64(binary.BigEndian.Uint64(key[10:]))
	return binary.BigEndian.Uint64(key[2:]), span{at, at + recordSize(n)}, nil
}

// span is the bytes [from, to) of a segment's file.
type span struct{ from, to int64 }
