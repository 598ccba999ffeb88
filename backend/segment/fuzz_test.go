package segment

import (
	"bytes"
	"testing"
)

// FuzzDecodeRecord: what is taken for a record says the same when it is written.
func FuzzDecodeRecord(f *testing.F) {
	h := fileHeader{segment: 3, salt: 5}
	for _, n := range []int{1, 100, block, block + 1, limit} {
		r := dataRecord(7, 4096, bytes.Repeat([]byte{9}, n))
		f.Add(r.encode(h.seed()), h.seed(), int64(4096))
	}
	f.Add(record{kind: kindVoid, at: 64, size: 640}.encode(1), uint32(1), int64(64))
	f.Add([]byte{}, uint32(0), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, seed uint32, at int64) {
		r, ok := decodeRecord(b, seed, at)
		if !ok {
			return
		}
		if r.size < align || r.size%align != 0 || r.size > maxVoid || r.at != at {
			t.Fatalf("a record that leads nowhere: %+v", r)
		}
		if r.kind == kindData && (r.length == 0 || r.length > limit || r.size < int64(r.length) || len(r.sums) != blocks(r.length)) {
			t.Fatalf("a record that does not fit: %+v", r)
		}
		again, ok := decodeRecord(r.encode(seed), seed, at)
		if !ok || again.size != r.size || again.id != r.id || again.crc != r.crc {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}

// FuzzDecodeFileHeader: a header that is accepted is the one that is written.
func FuzzDecodeFileHeader(f *testing.F) {
	f.Add(fileHeader{segment: 1, salt: 2, store: [16]byte{3}}.encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeFileHeader(b)
		if err == nil && !bytes.Equal(h.encode()[:48], b[:48]) {
			t.Fatalf("%+v is not what was read", h)
		}
	})
}

// FuzzDecodeCounts: values of the store that are accepted are written the same.
func FuzzDecodeCounts(f *testing.F) {
	c := counts{live: 640, refs: 2, end: 9000}
	f.Add(c.encode())
	c.puts = append(c.puts, dataRecord(7, 4096, []byte("abc")).ref(4))
	f.Add(c.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCounts(4, b)
		if err != nil {
			return
		}
		if c.live < 0 || c.end < 0 {
			t.Fatalf("%+v", c)
		}
		again, err := decodeCounts(4, c.encode())
		if err != nil || again.live != c.live || again.refs != c.refs || again.end != c.end || len(again.puts) != len(c.puts) {
			t.Fatalf("%+v became %+v, %v", c, again, err)
		}
	})
}

// TestRecordFormat: rules 3 to 6 of the package doc, byte for byte.
func TestRecordFormat(t *testing.T) {
	h := fileHeader{store: [16]byte{1, 2}, segment: 0x0102, salt: 0x0304}
	b := h.encode()
	if len(b) != 4096 || string(b[:12]) != "warrenSG\x01\x00\x00\x00" || b[12] != 1 || b[28] != 2 || b[29] != 1 || b[36] != 4 {
		t.Errorf("file header %x", b[:48])
	}
	if n := fileName(0x0a1b); n != "0000000000000a1b.seg" {
		t.Errorf("file name %s", n)
	}
	for _, c := range []struct {
		length      uint32
		start, size int64
	}{{1, 64, 128}, {64, 64, 128}, {65, 64, 192}, {32 << 10, 64, 64 + 32<<10}, {32<<10 + 1, 128, 128 + 32<<10 + 64}, {1 << 20, 192, 192 + 1<<20}} {
		if s, n := dataStart(c.length), recordSize(c.length); s != c.start || n != c.size {
			t.Errorf("%d bytes begin at %d of %d, want %d of %d", c.length, s, n, c.start, c.size)
		}
	}
	r := dataRecord(0x0506, 4096, []byte("123456789")).encode(h.seed())
	if len(r) != 64 || r[4] != 1 || r[8] != 6 || r[9] != 5 || r[16] != 9 || r[24] != 128 || r[33] != 0x10 ||
		!bytes.Equal(r[20:24], []byte{0x83, 0x92, 0x06, 0xe3}) { // CRC-32C's check value
		t.Errorf("record header %x", r)
	}
	if _, ok := decodeRecord(r, fileHeader{segment: 0x0103, salt: 0x0304}.seed(), 4096); ok {
		t.Error("a record of another segment was taken")
	}
	if _, ok := decodeRecord(r, h.seed(), 4160); ok {
		t.Error("a record was taken at another offset")
	}
}
