package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/backend"
)

const (
	magic      = "warrenSG"
	version    = 1
	fileHead   = 4096     // bytes of a file's header
	recordHead = 64       // bytes of a record's header without its table
	align      = 64       // records begin at multiples of it
	block      = 32 << 10 // bytes under one checksum
	limit      = 1 << 20  // bytes of content in a record
	maxHead    = recordHead + 4*limit/block
	maxVoid    = 1 << 40 // bytes of a void record, a bound for the decoder

	kindData = 1
	kindVoid = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// fileName is the name of a segment's file.
func fileName(segment uint64) string { return fmt.Sprintf("%016x.seg", segment) }

// nameSegment is the number in a file's name, whatever follows it.
func nameSegment(name string) (uint64, bool) {
	hex, _, ok := strings.Cut(name, ".")
	if !ok || len(hex) != 16 || strings.ToLower(hex) != hex {
		return 0, false
	}
	n, err := strconv.ParseUint(hex, 16, 64)
	return n, err == nil && n != 0
}

// fileHeader is the start of a segment's file (rule 2).
type fileHeader struct {
	store   [16]byte
	segment uint64
	salt    uint64
}

func (h fileHeader) encode() []byte {
	b := make([]byte, fileHead)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	copy(b[12:28], h.store[:])
	binary.LittleEndian.PutUint64(b[28:], h.segment)
	binary.LittleEndian.PutUint64(b[36:], h.salt)
	binary.LittleEndian.PutUint32(b[44:], checksum(b[:44]))
	return b
}

// seed begins the checksums of the file's record headers, so that a record of
// another file is none of this one.
func (h fileHeader) seed() uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], h.salt)
	binary.LittleEndian.PutUint64(b[8:], h.segment)
	return checksum(b[:])
}

// decodeFileHeader reads a file's first bytes. Errors: IO, Unsupported.
func decodeFileHeader(b []byte) (fileHeader, error) {
	var h fileHeader
	if len(b) < fileHead || string(b[:8]) != magic || binary.LittleEndian.Uint32(b[44:]) != checksum(b[:44]) {
		return h, &backend.Error{Kind: backend.IO, Err: errors.New("the segment's header is damaged")}
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return h, &backend.Error{Kind: backend.Unsupported, Err: fmt.Errorf("segment format %d, known is %d", v, version)}
	}
	copy(h.store[:], b[12:28])
	h.segment = binary.LittleEndian.Uint64(b[28:])
	h.salt = binary.LittleEndian.Uint64(b[36:])
	return h, nil
}

// record is a record's header (rules 4 to 6).
type record struct {
	kind   uint8
	id     uint64
	length uint32 // of the content
	crc    uint32 // of the content
	size   int64  // of the record, header and padding included
	at     int64  // where the record begins
	sums   []uint32
}

// blocks is the number of checksums in the table of a record of length bytes.
func blocks(length uint32) int {
	if length <= block {
		return 0
	}
	return int((int64(length) + block - 1) / block)
}

// dataStart is where content begins, counted from the record's start.
func dataStart(length uint32) int64 { return roundUp(recordHead+4*int64(blocks(length)), align) }

// recordSize is how many bytes of a segment length bytes of content take.
func recordSize(length uint32) int64 { return roundUp(dataStart(length)+int64(length), align) }

// dataRecord describes data, to be written at at.
func dataRecord(id uint64, at int64, data []byte) record {
	n := uint32(len(data))
	r := record{kind: kindData, id: id, length: n, size: recordSize(n), at: at, crc: checksum(data)}
	for i := range blocks(n) {
		r.sums = append(r.sums, checksum(data[i*block:min((i+1)*block, len(data))]))
	}
	return r
}

// ref is the Ref of a data record.
func (r record) ref(segment uint64) backend.Ref {
	return backend.Ref{ID: r.id, Segment: segment, Offset: uint64(r.at), Length: r.length, CRC: r.crc}
}

// encode gives all bytes before the content.
func (r record) encode(seed uint32) []byte {
	n := int64(recordHead)
	if r.kind == kindData {
		n = dataStart(r.length)
	}
	b := make([]byte, n)
	b[4] = r.kind
	binary.LittleEndian.PutUint64(b[8:], r.id)
	binary.LittleEndian.PutUint32(b[16:], r.length)
	binary.LittleEndian.PutUint32(b[20:], r.crc)
	binary.LittleEndian.PutUint64(b[24:], uint64(r.size))
	binary.LittleEndian.PutUint64(b[32:], uint64(r.at))
	for i, s := range r.sums {
		binary.LittleEndian.PutUint32(b[recordHead+4*i:], s)
	}
	binary.LittleEndian.PutUint32(b, crc32.Update(seed, castagnoli, b[4:recordHead+4*len(r.sums)]))
	return b
}

// decodeRecord reads the header of the record at at from its first bytes, of
// which maxHead are enough. It is false if there is no record.
func decodeRecord(b []byte, seed uint32, at int64) (record, bool) {
	if len(b) < recordHead {
		return record{}, false
	}
	r := record{
		kind: b[4], id: binary.LittleEndian.Uint64(b[8:]), length: binary.LittleEndian.Uint32(b[16:]),
		crc: binary.LittleEndian.Uint32(b[20:]), size: int64(binary.LittleEndian.Uint64(b[24:])),
		at: int64(binary.LittleEndian.Uint64(b[32:])),
	}
	table := 0
	switch r.kind {
	case kindData:
		if r.length == 0 || r.length > limit || r.size != recordSize(r.length) {
			return record{}, false
		}
		table = blocks(r.length)
	case kindVoid:
		if r.length != 0 || r.size < align || r.size%align != 0 || r.size > maxVoid {
			return record{}, false
		}
	default:
		return record{}, false
	}
	end := recordHead + 4*table
	if r.at != at || len(b) < end || crc32.Update(seed, castagnoli, b[4:end]) != binary.LittleEndian.Uint32(b) {
		return record{}, false
	}
	for i := range table {
		r.sums = append(r.sums, binary.LittleEndian.Uint32(b[recordHead+4*i:]))
	}
	return r, true
}

// checkBlocks verifies the content of whole blocks, the first being number from.
func (r record) checkBlocks(from int, data []byte) bool {
	if len(r.sums) == 0 {
		return checksum(data) == r.crc
	}
	for i := from; len(data) > 0; i++ {
		n := min(block, len(data))
		if checksum(data[:n]) != r.sums[i] {
			return false
		}
		data = data[n:]
	}
	return true
}
