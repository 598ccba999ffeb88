package writeback

import (
	"bytes"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// sealed makes the record of a change set, as an Update does.
func sealed(seed uint32, lsn backend.LSN, changes ...string) []byte {
	var c changeSet
	c.reset()
	for i := 0; i+1 < len(changes); i += 2 {
		if changes[i+1] == "-" {
			_ = c.put(opDelete, []byte(changes[i]), nil)
		} else {
			_ = c.put(opSet, []byte(changes[i]), []byte(changes[i+1]))
		}
	}
	p := c.record(backend.Origin{Conn: 1, Request: 2}, lsn)
	seal(p.rec, seed, lsn, lsn-1)
	return p.rec
}

// FuzzDecodeChanges gives the decoder any body: what it takes must be what the
// encoder would have written.
func FuzzDecodeChanges(f *testing.F) {
	for _, rec := range [][]byte{
		sealed(1, 1, "k", "v"), sealed(1, 1, "k", "", "l", "-"), sealed(1, 1, "key", string(make([]byte, 3000)), "x", "y"),
	} {
		f.Add(rec[recordHeader:], 1)
		f.Add(rec[recordHeader:], 2)
		f.Add(rec[recordHeader:len(rec)-1], 1)
		ridden := bytes.Clone(rec[recordHeader:])
		ridden[0] = opRide
		f.Add(ridden, 2)
	}
	f.Fuzz(func(t *testing.T, body []byte, count int) {
		rec := append(make([]byte, recordHeader), body...)
		entries, rides, err := decodeChanges(rec, recordInfo{count: count, lsn: 9})
		if err != nil {
			return
		}
		if len(rides) > 0 {
			if len(entries)+len(rides) != count {
				t.Fatalf("%d entries and %d that ride of %d", len(entries), len(rides), count)
			}
			return
		}
		again := make([]byte, recordHeader)
		for _, e := range entries {
			op := byte(opSet)
			if e.deleted {
				op = opDelete
			}
			if e.lsn != 9 || len(e.key) < 1 || len(e.key) > backend.MaxKey || len(e.value) > backend.MaxValue {
				t.Fatalf("entry %q of %d bytes, LSN %d", e.key, len(e.value), e.lsn)
			}
			again = appendChange(again, op, []byte(e.key), e.value)
		}
		if !bytes.HasPrefix(rec, again) || len(rec)-len(again) > recordAlign || len(entries) != count {
			t.Fatalf("%d entries of %d were decoded from % x", len(entries), count, body)
		}
	})
}

// FuzzScan gives recovery a file with any bytes after two good records: it must
// find these, and nothing that is no record.
func FuzzScan(f *testing.F) {
	h := header{seq: 1, first: 1, salt: 42}
	seed := h.seed()
	one, two := sealed(seed, 1, "a", "1"), sealed(seed, 2, "b", "2", "c", "-")
	three := sealed(seed, 3, "d", "4")
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, 200), uint8(0))
	f.Add(three, uint8(3))
	f.Add(three[:len(three)-1], uint8(1))
	f.Add(append(make([]byte, 64), three...), uint8(2))
	f.Add(sealed(seed+1, 3, "z", "z"), uint8(0))
	f.Add(bytes.Repeat([]byte{padByte}, 300), uint8(9))
	f.Fuzz(func(t *testing.T, rest []byte, committed uint8) {
		data := append(append(append(h.encode(), one...), two...), rest...)
		sf, err := scanFile(data, backend.LSN(committed))
		if err != nil {
			t.Fatal(err)
		}
		if len(sf.records) < 2 || sf.records[0].lsn != 1 || sf.records[1].lsn != 2 {
			t.Fatalf("the good records were not found: %+v", sf.records)
		}
		at := int64(fileHeader)
		for _, r := range sf.records {
			if r.at < at || r.at%recordAlign != 0 || r.at+int64(r.length) > int64(len(data)) {
				t.Fatalf("record at %d, %d bytes, after %d in %d", r.at, r.length, at, len(data))
			}
			at = r.at + int64(r.length)
			if (r.rec == nil) != (r.lsn <= backend.LSN(committed)) {
				t.Fatalf("record %d with committed %d: %d bytes kept", r.lsn, committed, len(r.rec))
			}
		}
		got := assemble([]*scannedFile{sf}, backend.LSN(committed), 0, dirfs.Run{})
		for i, p := range got.ops {
			if p.lsn != backend.LSN(committed)+1+backend.LSN(i) || len(p.rec) == 0 {
				t.Fatalf("update %d is number %d after %d", p.lsn, i, committed)
			}
		}
	})
}
