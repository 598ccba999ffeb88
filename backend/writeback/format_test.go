package writeback_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

// The encoder below was written from the rules in the package doc, not from
// the package's code: what it writes must be read.

var crcTable = crc32.MakeTable(crc32.Castagnoli)

type testFile struct {
	version      uint32
	store        byte // the id is 16 times this
	seq, first   uint64
	salt         uint64
	b            []byte
	damageHeader bool
}

func newFile(seq, first uint64) *testFile {
	return &testFile{version: 1, store: 7, seq: seq, first: first, salt: seq * 0x9e3779b97f4a7c15}
}

// rec appends a record that sets key to value; durable as in rule 4.
func (f *testFile) rec(lsn, durable uint64, key, value string) *testFile {
	f.b = append(f.b, f.record(lsn, durable, key, value)...)
	return f
}

func (f *testFile) record(lsn, durable uint64, key, value string) []byte {
	le := binary.LittleEndian
	body := append([]byte{1}, le.AppendUint16(nil, uint16(len(key)))...)
	body = le.AppendUint32(body, uint32(len(value)))
	body = append(append(body, key...), value...)
	for n := 8 - len(body)%8; n > 0; n-- {
		body = append(body, 0xa5)
	}
	h := make([]byte, 48)
	le.PutUint32(h[4:], crc32.Checksum(body, crcTable))
	le.PutUint32(h[8:], uint32(48+len(body)))
	le.PutUint32(h[12:], 1)
	le.PutUint64(h[16:], lsn)
	le.PutUint64(h[24:], durable)
	seed := crc32.Checksum(le.AppendUint64(nil, f.salt), crcTable)
	le.PutUint32(h[0:], crc32.Update(seed, crcTable, h[4:48]))
	return append(h, body...)
}

// raw appends bytes that are no record.
func (f *testFile) raw(b []byte) *testFile {
	f.b = append(f.b, b...)
	return f
}

func (f *testFile) bytes() []byte {
	le := binary.LittleEndian
	h := make([]byte, 4096)
	copy(h, "warrenWL")
	le.PutUint32(h[8:], f.version)
	for i := range 16 {
		h[12+i] = f.store
	}
	le.PutUint64(h[28:], f.seq)
	le.PutUint64(h[36:], f.first)
	le.PutUint64(h[44:], f.salt)
	le.PutUint32(h[52:], crc32.Checksum(h[:52], crcTable))
	if f.damageHeader {
		h[30] ^= 1
	}
	return append(append(h, f.b...), make([]byte, 2048)...) // preallocated
}

// preparedDriver gives a driver that has Update committed of store 7: rule 10.
func preparedDriver(t *testing.T, committed uint64) *mem.Store {
	t.Helper()
	driver := mem.New(mem.Options{})
	v := binary.LittleEndian.AppendUint32(nil, 1)
	v = append(v, []byte(strings.Repeat("\x07", 16))...)
	v = binary.LittleEndian.AppendUint64(v, committed)
	_, err := driver.Update(t.Context(), func(tx backend.Tx) error {
		if err := tx.Set([]byte("base"), []byte("b")); err != nil {
			return err
		}
		return tx.Set([]byte("\x00warren/writeback"), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// formatCase is a log, and what Open must make of it.
type formatCase struct {
	name      string
	committed uint64
	files     map[string]*testFile
	last      backend.LSN // of what is found
	want      state       // beside "base"
	refused   []string    // parts of the error's text; nil: it opens
	kind      backend.Kind
	// With AcceptLoss:
	aside    []string // files that are kept as *.damaged
	keptLast backend.LSN
}

func formatCases() []formatCase {
	name := func(seq string) string { return strings.Repeat("0", 16-len(seq)) + seq + ".log" }
	other := newFile(9, 0)
	torn := newFile(1, 1).record(3, 0, "c", "3")
	flipped := newFile(1, 1).record(2, 0, "b", "2")
	flipped[50] ^= 1
	badLength := newFile(1, 1).record(2, 0, "b", "2")
	badLength[9] ^= 0x40
	one := name("1")
	return []formatCase{
		{name: "records after the committed one are taken", committed: 1, last: 3, want: state{"b": "2", "c": "3"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").rec(2, 0, "b", "2").rec(3, 0, "c", "3")}},
		{name: "files are ordered by their header, not their name", last: 2, want: state{"a": "2"},
			files: map[string]*testFile{name("5"): newFile(1, 0).rec(1, 0, "a", "1"), name("4"): newFile(2, 0).rec(2, 1, "a", "2")}},
		{name: "a torn record ends the log", last: 2, want: state{"a": "1", "b": "2"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").rec(2, 0, "b", "2").raw(torn[:len(torn)-9])}},
		{name: "a flipped bit in the last record ends the log", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(flipped)}},
		{name: "a wrong length ends the log", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(badLength)}},
		{name: "unsynced records reached the disk out of order", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(make([]byte, 64)).rec(3, 1, "c", "3").rec(4, 1, "d", "4")}},
		{name: "a record that was on disk is missing in the middle", refused: []string{one, "offset 4160", "record 2", "AcceptLoss"}, kind: backend.IO,
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(flipped).rec(3, 1, "c", "3").rec(4, 2, "d", "4")},
			last:  1, want: state{"a": "1"}, aside: []string{one}, keptLast: 1},
		{name: "damage up to the committed record does not matter", committed: 2, last: 4, want: state{"c": "3", "d": "4"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(flipped).rec(3, 2, "c", "3").rec(4, 2, "d", "4")}},
		{name: "a file is missing", refused: []string{name("3"), "record 2", "AcceptLoss"}, kind: backend.IO,
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1"), name("3"): newFile(3, 0).rec(3, 2, "c", "3")},
			want:  state{"a": "1"}, aside: []string{name("3")}, keptLast: 1},
		{name: "the first file is missing", refused: []string{name("3"), "record 1"}, kind: backend.IO,
			files: map[string]*testFile{name("3"): newFile(3, 0).rec(3, 2, "c", "3")}, aside: []string{name("3")}},
		{name: "all files are missing", committed: 5, refused: []string{"no log files", "AcceptLoss"}, kind: backend.IO, keptLast: 5},
		{name: "first replaces what earlier files have", last: 2, want: state{"a": "1", "b": "new"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").rec(2, 0, "b", "2").rec(3, 0, "z", "never"),
				name("2"): newFile(2, 2).rec(2, 2, "b", "new")}},
		{name: "first replaces even with no record of its own", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").rec(2, 0, "z", "never"), name("2"): newFile(2, 2)}},
		{name: "records of another file are no records", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1").raw(other.record(2, 9, "z", "stale")).raw(other.record(3, 9, "z", "stale"))}},
		{name: "unfinished and foreign files are ignored", last: 1, want: state{"a": "1"},
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1"), strings.Repeat("0", 15) + "2.tmp": newFile(2, 1).rec(1, 1, "a", "x"),
				strings.Repeat("0", 15) + "3.log.damaged": newFile(3, 1).rec(1, 1, "a", "x"), "README": newFile(4, 1).rec(1, 1, "a", "x")}},
		{name: "a file of another store", refused: []string{name("2"), "0808080808", "0707070707", "AcceptLoss"}, kind: backend.IO,
			files: map[string]*testFile{one: newFile(1, 1).rec(1, 0, "a", "1"), name("2"): {version: 1, store: 8, seq: 2}},
			want:  state{"a": "1"}, aside: []string{name("2")}, keptLast: 1},
		{name: "a file of another version", refused: []string{one, "version 2"}, kind: backend.Unsupported,
			files: map[string]*testFile{one: {version: 2, store: 7, seq: 1}}, aside: []string{one}},
		{name: "a damaged header", refused: []string{one, "header is damaged"}, kind: backend.IO,
			files: map[string]*testFile{one: {version: 1, store: 7, seq: 1, damageHeader: true}}, aside: []string{one}},
	}
}

// TestFormat opens logs made by hand. What is refused must open with
// AcceptLoss, with the files concerned kept.
func TestFormat(t *testing.T) {
	for _, c := range formatCases() {
		t.Run(c.name, func(t *testing.T) {
			s, d, err := openFormat(t, c, false)
			if c.refused == nil {
				if err != nil {
					t.Fatal(err)
				}
				c.holds(t, s, c.last)
				return
			}
			if err == nil {
				t.Fatalf("Open did not refuse; LSN %d", s.LastLSN())
			}
			for _, part := range c.refused {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if got := backend.KindOf(err); got != c.kind {
				t.Errorf("kind %q, want %q", got, c.kind)
			}
			for name := range c.files {
				if d.Names[name] == nil {
					t.Errorf("%s is gone although Open refused", name)
				}
			}
			s, d, err = openFormat(t, c, true)
			if err != nil {
				t.Fatalf("with AcceptLoss: %v", err)
			}
			for _, name := range c.aside {
				if d.Names[name+".damaged"] == nil {
					t.Errorf("%s was not kept aside", name)
				}
			}
			c.holds(t, s, c.keptLast)
		})
	}
}

func openFormat(t *testing.T, c formatCase, acceptLoss bool) (*writeback.Store, *disk, error) {
	t.Helper()
	d := newDisk()
	for name, f := range c.files {
		d.Names[name] = crashdir.Whole(f.bytes())
	}
	d.Synced = maps.Clone(d.Names)
	o := options(d, preparedDriver(t, c.committed))
	o.AcceptLoss = acceptLoss
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, err := writeback.Open(ctx, o)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, d, err
}

// holds checks what the opened store shows, and that it still does after Updates went on.
func (c formatCase) holds(t *testing.T, s *writeback.Store, last backend.LSN) {
	t.Helper()
	want := maps.Clone(c.want)
	if want == nil {
		want = state{}
	}
	want["base"] = "b"
	if s.LastLSN() != last {
		t.Errorf("last LSN %d, want %d", s.LastLSN(), last)
	}
	if got, err := readAll(t.Context(), s); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	lsn, err := apply1(t.Context(), s, []edit{{key: "more", value: "m"}})
	if err = errors.Join(err, s.WaitDurable(t.Context(), lsn), s.Flush(t.Context())); err != nil {
		t.Error(err)
	}
	want["more"] = "m"
	if got, err := readAll(t.Context(), s); err != nil || !maps.Equal(got, want) {
		t.Errorf("after more: got %q, %v; want %q", got, err, want)
	}
}

// TestFormatOfWhatIsWritten reads a record byte by byte: rules 2 to 7.
func TestFormatOfWhatIsWritten(t *testing.T) {
	d := newDisk()
	s := open(t, options(d, preparedDriverWithLog(t, d)))
	defer s.Close()
	lsn, err := s.UpdateFrom(t.Context(), backend.Origin{Conn: 0x1122, Request: 0x3344}, func(tx backend.Tx) error {
		return errors.Join(tx.Set([]byte("key"), []byte("gone")), tx.Set([]byte("key"), []byte("value")), tx.Delete([]byte("del")))
	})
	if err != nil || lsn != 1 {
		t.Fatal(lsn, err)
	}
	var b []byte
	for name, f := range d.Names {
		if strings.HasSuffix(name, ".log") {
			b = f.Cache
		}
	}
	le := binary.LittleEndian
	seed := crc32.Checksum(b[44:52], crcTable)
	want := newFile(0, 0)
	want.salt = le.Uint64(b[44:])
	rec := b[4096:]
	if string(b[:8]) != "warrenWL" || le.Uint32(b[8:]) != 1 || string(b[12:28]) != strings.Repeat("\x07", 16) ||
		le.Uint64(b[36:]) != 1 || le.Uint32(b[52:]) != crc32.Checksum(b[:52], crcTable) {
		t.Errorf("header % x", b[:56])
	}
	body := "\x01\x03\x00\x05\x00\x00\x00keyvalue" + "\x02\x03\x00\x00\x00\x00\x00del"
	body += strings.Repeat("\xa5", 8-len(body)%8)
	if got := string(rec[48 : 48+len(body)]); got != body {
		t.Errorf("body %q, want %q", got, body)
	}
	for _, f := range []struct {
		name      string
		got, want uint64
	}{
		{"header crc", uint64(le.Uint32(rec)), uint64(crc32.Update(seed, crcTable, rec[4:48]))},
		{"body crc", uint64(le.Uint32(rec[4:])), uint64(crc32.Checksum([]byte(body), crcTable))},
		{"length", uint64(le.Uint32(rec[8:])), uint64(48 + len(body))},
		{"changes", uint64(le.Uint32(rec[12:])), 2},
		{"LSN", le.Uint64(rec[16:]), 1},
		{"durable", le.Uint64(rec[24:]), 0},
		{"connection", le.Uint64(rec[32:]), 0x1122},
		{"request", le.Uint64(rec[40:]), 0x3344},
	} {
		if f.got != f.want {
			t.Errorf("%s: %#x, want %#x", f.name, f.got, f.want)
		}
	}
}

// preparedDriverWithLog is preparedDriver with an empty log in d.
func preparedDriverWithLog(t *testing.T, d *disk) *mem.Store {
	t.Helper()
	d.Names["0000000000000001.log"] = crashdir.Whole(newFile(1, 1).bytes())
	return preparedDriver(t, 0)
}

// TestLogOfAnotherDriver refuses a log with records beside a new driver.
func TestLogOfAnotherDriver(t *testing.T) {
	d := newDisk()
	d.Names["0000000000000001.log"] = crashdir.Whole(newFile(1, 1).rec(1, 0, "a", "1").bytes())
	_, err := writeback.Open(t.Context(), options(d, mem.New(mem.Options{})))
	if err == nil || backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "driver is new and empty") {
		t.Errorf("Open: %v", err)
	}
}

// badSector is a disk one of whose files cannot be read from an offset on.
type badSector struct {
	*disk
	at int64
}

type badFile struct {
	dirfs.File
	at int64
}

func (b badSector) Open(name string) (dirfs.File, error) {
	f, err := b.disk.Open(name)
	return badFile{f, b.at}, err
}

func (b badFile) ReadAt(p []byte, at int64) (int, error) {
	if at <= b.at && b.at < at+int64(len(p)) {
		return 0, syscall.EIO
	}
	return b.File.ReadAt(p, at)
}

// TestUnreadableLog: an error of the disk is refused, and with AcceptLoss what
// can be read before it is kept.
func TestUnreadableLog(t *testing.T) {
	d := newDisk()
	f := newFile(1, 1).rec(1, 0, "a", "1").rec(2, 0, "b", string(make([]byte, 6000))).rec(3, 1, "c", "3").rec(4, 3, "d", "4")
	d.Names["0000000000000001.log"] = crashdir.Whole(f.bytes())
	o := options(badSector{d, 8200}, preparedDriver(t, 0))
	if _, err := writeback.Open(t.Context(), o); err == nil || backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "AcceptLoss") {
		t.Errorf("Open: %v", err)
	}
	o.AcceptLoss = true
	s := open(t, o)
	defer s.Close()
	formatCase{want: state{"a": "1"}}.holds(t, s, 1)
	if d.Names["0000000000000001.log.damaged"] == nil {
		t.Error("the file was not kept aside")
	}
}
