package segment

import (
	"github.com/warrenfs/warren/backend"
)

// FileName is a segment's file.
func FileName(segment uint64) string { return fileName(segment) }

// DataStart is where content begins in a record.
func DataStart(length uint32) int64 { return dataStart(length) }

// RecordSize is the bytes that content takes.
func RecordSize(length uint32) int64 { return recordSize(length) }

// EncodeRecord is a valid record with other data in ref's place, in a file that
// begins with head.
func EncodeRecord(head []byte, ref backend.Ref, data []byte) []byte {
	h, err := decodeFileHeader(head)
	if err != nil {
		panic(err)
	}
	return append(dataRecord(ref.ID, int64(ref.Offset), data).encode(h.seed()), data...)
}
