package writeback

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/warrenfs/warren/backend"
)

// Sizes of a record (format rules 4 to 7).
const (
	recordHeader = 48
	changeHeader = 7
	recordAlign  = 8
	padByte      = 0xa5
	// maxRecord is the longest record there can be.
	maxRecord = recordHeader + backend.MaxTxBytes + backend.MaxTxKeys*changeHeader + recordAlign
)

// The operations of a change.
const (
	opSet    = 1
	opDelete = 2
	opRide   = 3 // a value that is for the log alone
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordInfo is a record's header.
type recordInfo struct {
	length  int // of the whole record, bytes
	count   int // changes
	lsn     backend.LSN
	durable backend.LSN // what was on disk when the record was written
	origin  backend.Origin
}

// appendChange adds one change to a record under construction.
func appendChange(b []byte, op byte, key, value []byte) []byte {
	b = append(b, op, byte(len(key)), byte(len(key)>>8),
		byte(len(value)), byte(len(value)>>8), byte(len(value)>>16), byte(len(value)>>24))
	b = append(b, key...)
	return append(b, value...)
}

// appendPadding ends a record under construction: 1 to 8 bytes, none of them 0,
// so that a record cut anywhere in a file of zeros is never a whole one.
func appendPadding(b []byte) []byte {
	for n := recordAlign - len(b)%recordAlign; n > 0; n-- {
		b = append(b, padByte)
	}
	return b
}

// finish fills in the header of a padded record, but for what seal fills in.
func finish(rec []byte, count int, o backend.Origin) {
	le := binary.LittleEndian
	le.PutUint32(rec[4:], crc32.Checksum(rec[recordHeader:], castagnoli))
	le.PutUint32(rec[8:], uint32(len(rec)))
	le.PutUint32(rec[12:], uint32(count))
	le.PutUint64(rec[32:], o.Conn)
	le.PutUint64(rec[40:], o.Request)
}

// seal fills in what belongs to the record's place in the log: its number, what
// is durable as it is written, and the file's seed. It may run again for another file.
func seal(rec []byte, seed uint32, lsn, durable backend.LSN) {
	le := binary.LittleEndian
	le.PutUint64(rec[16:], uint64(lsn))
	le.PutUint64(rec[24:], uint64(durable))
	le.PutUint32(rec[0:], crc32.Update(seed, castagnoli, rec[4:recordHeader]))
}

// readHeader reads the header at the start of b. ok is false unless it is one
// that was sealed with seed.
func readHeader(b []byte, seed uint32) (info recordInfo, ok bool) {
	if len(b) < recordHeader {
		return info, false
	}
	le := binary.LittleEndian
	length := le.Uint32(b[8:])
	if length%recordAlign != 0 || length <= recordHeader || length > maxRecord {
		return info, false // cheap: most bytes that are no header end here
	}
	if le.Uint32(b[0:]) != crc32.Update(seed, castagnoli, b[4:recordHeader]) {
		return info, false
	}
	return recordInfo{
		length: int(length), count: int(le.Uint32(b[12:])),
		lsn: backend.LSN(le.Uint64(b[16:])), durable: backend.LSN(le.Uint64(b[24:])),
		origin: backend.Origin{Conn: le.Uint64(b[32:]), Request: le.Uint64(b[40:])},
	}, true
}

// readRecord reads the whole record at the start of b: its header and a body
// that passes its checksum. rec is the part of b that it fills.
func readRecord(b []byte, seed uint32) (info recordInfo, rec []byte, ok bool) {
	info, ok = readHeader(b, seed)
	if !ok || info.length > len(b) {
		return info, nil, false
	}
	rec = b[:info.length:info.length]
	if binary.LittleEndian.Uint32(rec[4:]) != crc32.Checksum(rec[recordHeader:], castagnoli) {
		return info, nil, false
	}
	return info, rec, true
}

// decodeChanges gives the changes of a whole record, and what rides in it. Their
// keys and values are parts of rec. An error means a record that no writer of
// this format made.
func decodeChanges(rec []byte, info recordInfo) (entries, rides []entry, err error) {
	body := rec[recordHeader:]
	if info.count < 1 || info.count > backend.MaxTxKeys || info.count*(changeHeader+1) > len(body) {
		return nil, nil, fmt.Errorf("%d changes in %d bytes", info.count, len(body))
	}
	entries = make([]entry, 0, info.count)
	for i := range info.count {
		e := entry{lsn: info.lsn}
		op, rest, err := decodeChange(body, &e)
		if err != nil {
			return nil, nil, fmt.Errorf("change %d: %w", i, err)
		}
		if op == opRide {
			rides = append(rides, e)
		} else {
			entries = append(entries, e)
		}
		body = rest
	}
	if len(body) < 1 || len(body) > recordAlign {
		return nil, nil, fmt.Errorf("%d bytes after the last change", len(body))
	}
	for _, b := range body {
		if b != padByte {
			return nil, nil, errors.New("padding is not padding")
		}
	}
	return entries, rides, nil
}

func decodeChange(body []byte, e *entry) (op byte, rest []byte, err error) {
	if len(body) < changeHeader {
		return 0, nil, errors.New("its header is cut off")
	}
	op = body[0]
	klen := int(binary.LittleEndian.Uint16(body[1:]))
	vlen := int(binary.LittleEndian.Uint32(body[3:]))
	body = body[changeHeader:]
	switch {
	case op != opSet && op != opDelete && op != opRide:
		return 0, nil, fmt.Errorf("unknown operation %d", op)
	case klen < 1 || klen > backend.MaxKey:
		return 0, nil, fmt.Errorf("key of %d bytes", klen)
	case vlen > backend.MaxValue || op == opDelete && vlen != 0:
		return 0, nil, fmt.Errorf("value of %d bytes", vlen)
	case klen+vlen > len(body):
		return 0, nil, errors.New("it is cut off")
	}
	e.key = asString(body[:klen])
	e.value = body[klen : klen+vlen : klen+vlen]
	e.deleted = op == opDelete
	return op, body[klen+vlen:], nil
}
