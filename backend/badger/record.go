package badger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/warrenfs/warren/backend"
)

// Prefixes of stored keys.
const (
	ownPrefix  = 0x00 // the driver's own
	userPrefix = 0x01 // keys of the seam
)

const formatVersion = "1"

func formatKey() []byte { return []byte("\x00format") }
func lsnKey() []byte    { return []byte("\x00lsn") }

// storedKey is key as it is stored.
func storedKey(key []byte) []byte {
	return append(append(make([]byte, 0, 1+len(key)), userPrefix), key...)
}

// headerSize is what comes before each value.
const headerSize = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode gives the record of value under the stored key.
func encode(stored, value []byte) []byte {
	rec := make([]byte, headerSize, headerSize+len(value))
	binary.LittleEndian.PutUint32(rec, uint32(len(value)))
	binary.LittleEndian.PutUint32(rec[4:], checksum(stored, value))
	return append(rec, value...)
}

// decode gives the value in rec, a part of it, or an error that says how rec is
// damaged.
func decode(stored, rec []byte) ([]byte, error) {
	if len(rec) < headerSize {
		return nil, fmt.Errorf("a record of %d bytes", len(rec))
	}
	value := rec[headerSize:len(rec):len(rec)]
	if n := binary.LittleEndian.Uint32(rec); uint64(n) != uint64(len(value)) {
		return nil, fmt.Errorf("a value of %d bytes where %d belong", len(value), n)
	}
	if binary.LittleEndian.Uint32(rec[4:]) != checksum(stored, value) {
		return nil, fmt.Errorf("a value of %d bytes fails its checksum", len(value))
	}
	return value, nil
}

func checksum(stored, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(stored, castagnoli), castagnoli, value)
}

// timestamp is Badger's for Update lsn.
func timestamp(lsn backend.LSN) uint64 { return uint64(lsn) + 1 }
