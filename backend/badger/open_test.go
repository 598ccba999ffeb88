package badger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bdg "github.com/dgraph-io/badger/v4"
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/scripts/waits"
)

// opens checks that Open of o fails with kind and a text that has all of words.
func opens(t *testing.T, o badger.Options, kind backend.Kind, words ...string) {
	t.Helper()
	s, err := badger.Open(ctx, o)
	if err == nil {
		s.Close()
		t.Fatalf("Open: no error, want kind %q", kind)
	}
	if got := backend.KindOf(err); got != kind {
		t.Errorf("Open: %v: kind %q, want %q", err, got, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("Open: %q does not say %q", err, w)
		}
	}
}

func set(t testing.TB, s *badger.Store, key, value string) backend.LSN {
	t.Helper()
	lsn, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte(key), []byte(value)) })
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func get(t testing.TB, s *badger.Store, key string) (string, error) {
	t.Helper()
	var value string
	err := s.View(ctx, func(tx backend.Tx) error {
		v, err := tx.Get([]byte(key))
		value = string(v)
		return err
	})
	return value, err
}

func closeStore(t testing.TB, s *badger.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenIsExclusive(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	opens(t, badger.Options{Dir: dir}, backend.Busy, dir, "another process", fmt.Sprint(os.Getpid()))
	if got := openInChild(t, dir); !strings.HasPrefix(got, fmt.Sprintf("open %d ", int(backend.Busy))) {
		t.Errorf("in another process: %s", got)
	}
	closeStore(t, s)
	closeStore(t, open(t, dir))
}

func TestOpenRefusesOtherPlaces(t *testing.T) {
	opens(t, badger.Options{}, backend.Invalid, "no directory")
	file := filepath.Join(t.TempDir(), "file")
	dump(t, file, []byte("x"))
	opens(t, badger.Options{Dir: file}, backend.NotDir, file)

	foreign := t.TempDir()
	db, err := bdg.Open(bdg.DefaultOptions(foreign).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opens(t, badger.Options{Dir: foreign}, backend.Invalid, foreign, "another kind of Badger store")

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	dir := t.TempDir()
	s := open(t, dir)
	set(t, s, "a", "1")
	closeStore(t, s)
	if _, err := badger.Open(cancelled, badger.Options{Dir: dir}); backend.KindOf(err) != backend.Interrupted {
		t.Errorf("Open with a cancelled context: %v", err)
	}
	closeStore(t, open(t, dir)) // it did not keep the lock
}

func TestOpenRefusesNewerFormat(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir))
	// The record of format "2", as a later version of this package would write it.
	record := badger.EncodeForTest("\x00format", "2")
	putRecord(t, dir, 0, "\x00format", record)
	opens(t, badger.Options{Dir: dir}, backend.Unsupported, `"2"`)
}

// TestLostUpdatesAreNoticed cuts the log that holds acknowledged Updates: Badger
// alone would open with what is before the cut.
func TestLostUpdatesAreNoticed(t *testing.T) {
	dir, clone := t.TempDir(), t.TempDir()
	s := open(t, dir)
	for i := range 20 {
		set(t, s, fmt.Sprint(i), strings.Repeat("v", 100))
	}
	copyDir(t, dir, clone)
	closeStore(t, s)
	log := filepath.Join(clone, "00001.mem")
	data := slurp(t, log)
	clear(data[used(data)/2:])
	dump(t, log, data)
	witness := filepath.Join(clone, "durable")
	opens(t, badger.Options{Dir: clone}, backend.IO, clone, "to 20 were acknowledged and are missing", witness)
	opens(t, badger.Options{Dir: clone}, backend.IO, "missing") // and again
	if err := os.Remove(witness); err != nil {
		t.Fatal(err)
	}
	s = open(t, clone)
	defer closeStore(t, s)
	last := s.LastLSN()
	if last == 0 || last >= 20 {
		t.Errorf("LastLSN = %d, want about 10", last)
	}
	for i := range 20 {
		if _, err := get(t, s, fmt.Sprint(i)); (err == nil) != (i < int(last)) {
			t.Errorf("key %d: %v, the last Update is %d", i, err, last)
		}
	}
}

// TestEntriesAfterTheLastUpdate has an entry that belongs to no Update, as a
// commit that failed halfway could have left it: the next Update would show it.
func TestEntriesAfterTheLastUpdate(t *testing.T) {
	dir := makeTables(t, 2)
	putRecord(t, dir, 1, "\x01stray", badger.EncodeForTest("\x01stray", "v"))
	opens(t, badger.Options{Dir: dir}, backend.IO, "the last Update is 2 and there are entries of 3")
}

// TestTablesOfAnUnfinishedFlush has tables that the manifest does not name: one
// whose entries are elsewhere too, and one that is torn.
func TestTablesOfAnUnfinishedFlush(t *testing.T) {
	dir := makeTables(t, 3)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	whole := slurp(t, tables[0])
	dump(t, filepath.Join(dir, "000090.sst"), whole)
	dump(t, filepath.Join(dir, "000091.sst"), whole[:len(whole)/2])
	dump(t, filepath.Join(dir, "000092.sst"), nil)
	closeStore(t, open(t, dir))
	left, err := filepath.Glob(filepath.Join(dir, "00009*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestOrphans puts the table of one store beside those of another: it is harmless
// when nothing in it is newer than what the other has.
func TestOrphans(t *testing.T) {
	type steps []func(backend.Tx) error
	put := func(key string) func(backend.Tx) error {
		return func(tx backend.Tx) error { return tx.Set([]byte(key), []byte(key)) }
	}
	remove := func(key string) func(backend.Tx) error {
		return func(tx backend.Tx) error { return tx.Delete([]byte(key)) }
	}
	for name, c := range map[string]struct {
		store, orphan steps
		lost          bool
	}{
		"overwritten":          {store: steps{put("b"), put("a")}, orphan: steps{put("a")}},
		"deleted since":        {store: steps{put("b"), remove("a")}, orphan: steps{put("a")}},
		"the same":             {store: steps{put("a"), put("b")}, orphan: steps{put("a")}},
		"a value":              {store: steps{put("b"), put("c")}, orphan: steps{put("a")}, lost: true},
		"a newer value":        {store: steps{put("a"), put("b")}, orphan: steps{put("b"), put("a")}, lost: true},
		"a deletion":           {store: steps{put("a"), put("b")}, orphan: steps{put("b"), remove("a")}, lost: true},
		"a deletion of none":   {store: steps{put("b"), put("b")}, orphan: steps{put("b"), remove("a")}},
		"a deletion after one": {store: steps{remove("a"), put("b")}, orphan: steps{put("b"), remove("a")}},
	} {
		t.Run(name, func(t *testing.T) {
			make := func(do steps) string {
				dir := t.TempDir()
				s := open(t, dir)
				for _, fn := range do {
					if _, err := s.Update(ctx, fn); err != nil {
						t.Fatal(err)
					}
				}
				closeStore(t, s)
				return dir
			}
			dir := make(c.store)
			tables, err := filepath.Glob(filepath.Join(make(c.orphan), "*.sst"))
			if err != nil || len(tables) != 1 {
				t.Fatal(tables, err)
			}
			dump(t, filepath.Join(dir, "000090.sst"), slurp(t, tables[0]))
			if c.lost {
				opens(t, badger.Options{Dir: dir}, backend.IO, "lost a table", "000090.sst.lost")
				return
			}
			closeStore(t, open(t, dir))
		})
	}
}

// TestTableThatOutlivedItsEnd puts back a table that a compaction dropped, as a
// power cut does before the removal is on the disk. It holds a key whose deletion
// is gone too by now.
func TestTableThatOutlivedItsEnd(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	set(t, s, "a", "1")
	closeStore(t, s)
	first := filepath.Join(dir, "000001.sst")
	table := slurp(t, first)
	s = open(t, dir)
	if _, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Delete([]byte("a")) }); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	for i := range 6 { // as many young tables as make Badger compact them
		s := open(t, dir)
		set(t, s, "b", fmt.Sprint(i))
		closeStore(t, s)
	}
	s = open(t, dir)
	for deadline := waits.In(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(first); os.IsNotExist(err) {
			break
		}
		if deadline.Passed() {
			t.Fatal("the table is never compacted")
		}
	}
	closeStore(t, s)
	dump(t, first, table)
	s = open(t, dir)
	defer closeStore(t, s)
	if _, err := get(t, s, "a"); backend.KindOf(orTest(err)) != backend.NotFound {
		t.Errorf("the deleted key: %v", err)
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("the table is still there: %v", err)
	}
}

// TestManifestThatLostATable has a manifest without its last change, which named
// a table.
func TestManifestThatLostATable(t *testing.T) {
	dir := makeTables(t, 2)
	manifest := filepath.Join(dir, "MANIFEST")
	before := len(slurp(t, manifest))
	s := open(t, dir)
	set(t, s, "lost", "lost")
	closeStore(t, s)
	dump(t, manifest, slurp(t, manifest)[:before])
	if err := os.Remove(filepath.Join(dir, "durable")); err != nil {
		t.Fatal(err) // or that alone would tell
	}
	for range 2 {
		opens(t, badger.Options{Dir: dir}, backend.IO, "its manifest lost a table", ".sst.lost")
	}
	lost, err := filepath.Glob(filepath.Join(dir, "*.lost"))
	if err != nil || len(lost) != 1 {
		t.Fatalf("kept aside: %q, %v", lost, err)
	}
	if err := os.Remove(lost[0]); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer closeStore(t, s)
	if _, err := get(t, s, "lost"); backend.KindOf(orTest(err)) != backend.NotFound || s.LastLSN() != 2 {
		t.Errorf("going on without it: %v, LastLSN %d, want 2", err, s.LastLSN())
	}
}

// makeTables makes a store with n tables of one Update each.
func makeTables(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		s := open(t, dir)
		set(t, s, fmt.Sprint("table", i), strings.Repeat("v", 1000))
		closeStore(t, s)
	}
	return dir
}

// TestDamageBehindOpen has a damaged table that Open does not read.
func TestDamageBehindOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	value := func(i int) string {
		v := make([]byte, 2000)
		for j := range v {
			v[j] = byte(rand.New(rand.NewPCG(uint64(i), uint64(j))).Uint32())
		}
		return string(v)
	}
	for i := range 40 { // in several blocks of one table
		set(t, s, fmt.Sprintf("key%02d", i), value(i))
	}
	closeStore(t, s)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	name := tables[len(tables)-1]
	data := slurp(t, name)
	for i := range 64 {
		data[len(data)/2+i] ^= 0x5a // in a block in the middle
	}
	dump(t, name, data)
	opens(t, badger.Options{Dir: dir}, backend.IO, name, "damaged", "backup")

	var log bytes.Buffer
	s, err = badger.Open(ctx, badger.Options{Dir: dir, VerifyBytes: -1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := waits.In(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, err := s.Update(ctx, func(tx backend.Tx) error { return errTest })
		if backend.KindOf(err) == backend.IO {
			break
		}
		if deadline.Passed() {
			t.Fatal("the damage was not found")
		}
	}
	if v, err := get(t, s, "key39"); err != nil || v != value(39) {
		t.Errorf("what is whole: %d bytes, %v", len(v), err)
	}
	if _, err := get(t, s, "no such key"); backend.KindOf(err) != backend.IO {
		t.Errorf("a key that was not found: %v, want IO", err)
	}
	err = s.View(ctx, func(tx backend.Tx) error {
		return tx.ScanKeys(nil, nil, func([]byte) error { return nil })
	})
	if backend.KindOf(err) != backend.IO {
		t.Errorf("a scan: %v, want IO", err)
	}
	closeStore(t, s)
	if !strings.Contains(log.String(), "the store is damaged") {
		t.Errorf("the log does not tell: %s", log.String())
	}
}

var errTest = errors.New("an error of the test")
