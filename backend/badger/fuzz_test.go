package badger

import (
	"bytes"
	"os"
	"testing"

	"github.com/warrenfs/warren/backend"
)

// FuzzDecode: what decode accepts is what encode makes of the value it gives.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x01a"), encode([]byte("\x01a"), []byte("value")))
	f.Add([]byte("\x01a"), encode([]byte("\x01a"), nil))
	f.Add([]byte("\x01b"), encode([]byte("\x01a"), []byte("value")))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, record []byte) {
		value, err := decode(key, record)
		if err != nil {
			return
		}
		if !bytes.Equal(encode(key, value), record) {
			t.Errorf("decode(%x, %x) = %x, which is stored otherwise", key, record, value)
		}
	})
}

// FuzzRoundTrip: what was encoded is decoded under its own key and no other.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x01a"), []byte("value"))
	f.Add([]byte("\x01"), []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		got, err := decode(key, encode(key, value))
		if err != nil || !bytes.Equal(got, value) {
			t.Errorf("%x under %x: %x, %v", value, key, got, err)
		}
	})
}

// FuzzDroppedTables must read any bytes; Badger has checked real ones before.
func FuzzDroppedTables(f *testing.F) {
	head := []byte("Bdgrwa\x00\x08")
	record := "\x00\x00\x00\x06\xaa\xbb\xcc\xdd" + "\x0a\x04\x08\x07\x10\x01" // table 7 ends
	f.Add(append(head, record...))
	f.Add(append(head, record+record[:9]...))
	f.Add(head)
	f.Fuzz(func(t *testing.T, log []byte) {
		if len(log) >= 8 {
			droppedTables(log)
		}
	})
}

func TestDroppedTables(t *testing.T) {
	change := func(id, op byte) string { return string([]byte{0x0a, 6, 0x08, id, 0x10, op, 0x18, 6}) }
	record := func(changes string) string {
		return string([]byte{0, 0, 0, byte(len(changes)), 1, 2, 3, 4}) + changes
	}
	log := "Bdgrwa\x00\x08" + record(change(1, 0)) + record(change(2, 0)+change(1, 1)) + record(change(3, 0)) + record(change(3, 1))[:12]
	got := droppedTables([]byte(log))
	if len(got) != 1 || !got[1] {
		t.Errorf("dropped: %v, want table 1", got)
	}
}

func TestWitnessLine(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []backend.LSN{0, 1, 1 << 40, 1<<64 - 1, 7} {
		w, _, err := openWitness(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.write(want); err != nil {
			t.Fatal(err)
		}
		if err := w.file.Close(); err != nil {
			t.Fatal(err)
		}
		again, got, err := openWitness(dir)
		if err != nil || got != want {
			t.Errorf("witness %d, %v, want %d", got, err, want)
		}
		if err := again.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWitnessThatCannotBeRead is an error, and not one that names nothing.
func TestWitnessThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/proc/self/mem", witnessFile(dir)); err != nil { // nothing is at its start
		t.Fatal(err)
	}
	if w, lsn, err := openWitness(dir); err == nil {
		t.Errorf("it names Update %d", lsn)
		w.file.Close()
	}
}
