package tree

import (
	"reflect"
	"testing"

	"github.com/warrenfs/warren/backend"
)

func records() []record {
	base := record{epoch: 3, mode: 0o4755, uid: backend.OwnerID, gid: 1000, nlink: 2, atime: 5, mtime: -7, ctime: 1 << 60, btime: 9,
		createdBy: "gaia", modifiedBy: "soul", modifiedAt: 11, link: Link{Parent: 4, Name: "a\xff"}, xattrs: 44}
	dir, lnk, reg, dev := base, base, base, base
	dir.typ, dir.entries = backend.TypeDir, 12
	lnk.typ, lnk.target, lnk.size = backend.TypeSymlink, "../x", 4
	reg.typ, reg.size, reg.bytes = backend.TypeRegular, 1<<40, 4097
	reg.extents = extstate{high: 1 << 40, gen: 2, barriers: []barrier{{gen: 1, from: 10, to: 1<<64 - 1, counted: true}}}
	dev.typ, dev.rdev = backend.TypeChar, 0x1234
	return []record{dir, lnk, reg, dev}
}

func extents() []extent {
	return []extent{
		{start: 0, end: 3, gen: 1, epoch: 2, inline: []byte("abc")},
		{start: 1 << 40, end: 1<<40 + 5000, epoch: 1, ref: backend.Ref{ID: 7, Segment: 8, Offset: 9, Length: 65536, CRC: 1 << 31}, off: 60536},
	}
}

// TestRule07Inode and TestRule10Extent are named after docs/format.md.
func TestRule07Inode(t *testing.T) {
	for _, r := range records() {
		got, err := decodeRecord(1, 2, r.encode(nil))
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v comes back as %+v, %v", r, got, err)
		}
	}
}

func TestRule10Extent(t *testing.T) {
	for _, e := range extents() {
		got, err := decodeExtent(1, 2, e.end, e.encode(nil))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%+v comes back as %+v, %v", e, got, err)
		}
	}
}

// TestDamagedRecords: every cut and every wrong first byte is an IO error.
func TestDamagedRecords(t *testing.T) {
	for _, r := range records() {
		b := r.encode(nil)
		for n := range b {
			if _, err := decodeRecord(1, 2, b[:n]); backend.KindOf(orNil(err)) != backend.IO {
				t.Errorf("a record cut to %d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := decodeRecord(1, 2, append([]byte{99}, b[1:]...)); err == nil {
			t.Error("a record of another version is accepted")
		}
	}
}

func orNil(err error) error {
	if err == nil {
		return backend.Other
	}
	return err
}

func FuzzDecode(f *testing.F) {
	for _, r := range records() {
		f.Add(r.encode(nil), uint64(10))
	}
	for _, e := range extents() {
		f.Add(e.encode(nil), e.end)
	}
	f.Fuzz(func(t *testing.T, b []byte, end uint64) {
		if r, err := decodeRecord(1, 2, b); err == nil {
			again, err := decodeRecord(1, 2, r.encode(nil))
			if err != nil || !reflect.DeepEqual(again, r) {
				t.Errorf("%+v comes back as %+v, %v", r, again, err)
			}
		}
		if e, err := decodeExtent(1, 2, end, b); err == nil {
			if e.start >= e.end || (e.inline != nil && uint64(len(e.inline)) != e.length()) {
				t.Errorf("impossible extent %+v", e)
			}
		}
		_, _ = decodeDent(1, 2, b)
		_, _ = decodeUsage(1, b)
		_, _ = decodeVolume(1, b)
		_, _ = decodeXattr(1, 2, b)
	})
}
