// Package quota says how much a volume may hold. It knows amounts and limits,
// not what counts: [Use] is what backend/tree has counted, in the transaction
// of each change, and [Limits.Admit] judges the change there, under the volume's
// lock. So a hard limit is never overshot, however many write.
//
// # What counts
//
// Bytes are those that the extents of regular files hold: what stat(2) tells in
// st_blocks, before it is rounded up. A hole is nothing. Content that several
// files share counts in each of them, as du(1) has it, so that what a copy may
// cost later, when it is changed, is paid for when it is made. Names, inodes,
// symlinks and attributes are no bytes; the limit of inodes bounds them. Inodes
// are all that the volume has, its root directory and unlinked open files
// included.
//
// # Limits
//
// A hard limit refuses: what would add to a use that is, or comes to be, over it
// fails with backend.Quota. What takes away, or adds nothing, is never refused,
// also where a limit was set below the use. A soft limit only tells: it refuses
// nothing.
package quota

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/warrenfs/warren/backend"
)

// Use is what a volume holds.
type Use struct{ Bytes, Inodes uint64 }

// Limits are those of one volume; 0 is none.
type Limits struct {
	Bytes, SoftBytes   uint64
	Inodes, SoftInodes uint64
}

// MaxBytes is the highest limit of bytes: what statfs(2) can tell in blocks that
// programs multiply without overflow.
const MaxBytes = 1 << 60

// Check refuses limits that make no sense. Invalid.
func (l Limits) Check() error {
	switch {
	case l.Bytes > MaxBytes || l.SoftBytes > MaxBytes:
		return bad("a quota of bytes is at most 1 EiB")
	case l.Inodes > uint64(backend.MaxIno) || l.SoftInodes > uint64(backend.MaxIno):
		return bad(fmt.Sprintf("a quota of inodes is at most %d", uint64(backend.MaxIno)))
	case l.Bytes > 0 && l.SoftBytes > l.Bytes, l.Inodes > 0 && l.SoftInodes > l.Inodes:
		return bad("a soft limit is not above the hard one")
	}
	return nil
}

func bad(text string) error {
	return &backend.Error{Kind: backend.Invalid, Err: errors.New(text)}
}

// Admit judges a change from before to after: backend.Quota if it adds to what
// is over a hard limit then.
func (l *Limits) Admit(before, after Use) error {
	switch {
	case l.Bytes > 0 && after.Bytes > l.Bytes && after.Bytes > before.Bytes:
		return errBytes
	case l.Inodes > 0 && after.Inodes > l.Inodes && after.Inodes > before.Inodes:
		return errInodes
	}
	return nil
}

var (
	errBytes  = &backend.Error{Kind: backend.Quota, Err: errors.New("the volume has no bytes left; delete something, or have its quota raised (`warren quota show` tells)")}
	errInodes = &backend.Error{Kind: backend.Quota, Err: errors.New("the volume has no inodes left; delete something, or have its quota raised (`warren quota show` tells)")}
)

// Room is how much may still be added to u: at most free bytes and inodes, which
// is what there is without limits.
func (l *Limits) Room(u, free Use) Use {
	return Use{Bytes: room(l.Bytes, u.Bytes, free.Bytes), Inodes: room(l.Inodes, u.Inodes, free.Inodes)}
}

func room(limit, used, free uint64) uint64 {
	switch {
	case limit == 0:
		return free
	case used >= limit:
		return 0
	}
	return min(free, limit-used)
}

// Over tells which soft limits u is over.
func (l *Limits) Over(u Use) (bytes, inodes bool) {
	return l.SoftBytes > 0 && u.Bytes > l.SoftBytes, l.SoftInodes > 0 && u.Inodes > l.SoftInodes
}

// version is the first byte of a record.
const version = 1

// Append encodes l, set in a volume's epoch (docs/format.md, rule 20).
func (l Limits) Append(b []byte, epoch uint32) []byte {
	b = append(b, version)
	for _, n := range []uint64{uint64(epoch), l.Bytes, l.SoftBytes, l.Inodes, l.SoftInodes} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// Decode reads what Append wrote. IO for anything else.
func Decode(b []byte) (Limits, error) {
	var n [5]uint64
	if len(b) > 0 && b[0] == version {
		b = b[1:]
		for i := range n {
			v, size := binary.Uvarint(b)
			if size <= 0 {
				return Limits{}, errDamaged
			}
			n[i], b = v, b[size:]
		}
		l := Limits{n[1], n[2], n[3], n[4]}
		if len(b) == 0 && l.Check() == nil {
			return l, nil
		}
	}
	return Limits{}, errDamaged
}

var errDamaged = &backend.Error{Op: "read quota", Kind: backend.IO, Err: errors.New("its record is damaged; run warren fsck")}
