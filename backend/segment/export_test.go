package segment

import (
	"context"
	"time"

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

// The zeals of compaction.
const (
	AtWork   = int64(atWork)
	Idle     = int64(idle)
	Thorough = int64(thorough)
)

// CompactAs is Compact with a zeal.
func (s *Store) CompactAs(ctx context.Context, r Relocator, z int64) ([]uint64, error) {
	return s.compactWith(ctx, r, zeal(z), map[uint64]int64{})
}

// Zeals gives the zeal of each look at a store whose puts and moves at these times
// since it was opened are known: who moves something with all zeal did so then.
func Zeals(looks []Look) (out []int64) {
	start := time.Now()
	k := compactor{since: start.Add(-compactPause)}
	for _, l := range looks {
		now := start.Add(l.At)
		z := k.zeal(now, l.Puts)
		if z == thorough && l.Moves {
			k.cleaned = now
		}
		out = append(out, int64(z))
	}
	return out
}

// Look is a look for segments to compact.
type Look struct {
	At    time.Duration
	Puts  uint64
	Moves bool // it finds something
}
