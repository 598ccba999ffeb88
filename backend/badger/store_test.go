package badger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bdg "github.com/dgraph-io/badger/v4"
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// The rounds of TestOldVersionsGo: each sets all keys to one value of its own,
// about 1 MiB in all.
const roundKeys, rounds, roundSize = 16, 220, 60 << 10

func setRound(tx backend.Tx, n int) error {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	value := make([]byte, roundSize)
	for i := 0; i < roundSize; i += 8 {
		binary.LittleEndian.PutUint64(value[i:], r.Uint64())
	}
	binary.BigEndian.PutUint64(value, uint64(n))
	for k := range roundKeys {
		if err := tx.Set(fmt.Appendf(nil, "key%02d", k), value); err != nil {
			return err
		}
	}
	return nil
}

// roundOf gives the round whose state tx shows.
func roundOf(tx backend.Tx) (n uint64, err error) {
	seen := 0
	err = tx.Scan(nil, nil, func(_, v []byte) error {
		seen++
		m := binary.BigEndian.Uint64(v)
		if seen > 1 && m != n {
			return fmt.Errorf("rounds %d and %d in one state", n, m)
		}
		n = m
		return nil
	})
	if err == nil && seen != roundKeys {
		err = fmt.Errorf("%d keys, want %d", seen, roundKeys)
	}
	return n, err
}

// TestOldVersionsGo overwrites the same keys again and again beside readers: the
// disk use stays bounded, a View that is open all the time keeps its state, and
// nothing is wrong after compactions. Every log must have had its blocks.
func TestOldVersionsGo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	round := func(n int) {
		t.Helper()
		if _, err := s.Update(ctx, func(tx backend.Tx) error { return setRound(tx, n) }); err != nil {
			t.Fatal(err)
		}
		checkLogs(t, dir)
	}
	round(1)
	opened, release := make(chan struct{}), make(chan struct{})
	var stop atomic.Bool
	var views sync.WaitGroup
	views.Go(func() { longView(t, s, opened, release) })
	views.Go(func() { manyViews(t, s, &stop) })
	<-opened
	for n := 2; n <= rounds; n++ {
		if n == 100 { // several compactions are over
			close(release)
		}
		round(n)
	}
	stop.Store(true)
	views.Wait()
	// 210 MiB were written. Two to four logs take 20 MiB each, the rest can go;
	// compactions come when there is something to compact.
	const limit = 180 << 20
	for n := rounds; ; n++ {
		size, err := s.Size()
		if err != nil {
			t.Fatal(err)
		}
		if size <= limit && size >= roundKeys*roundSize {
			break
		}
		if n == 4*rounds {
			t.Fatalf("Size = %d MiB, want at most %d", size>>20, limit>>20)
		}
		round(n)
		time.Sleep(20 * time.Millisecond) // on a fast disk they lag behind
	}
	closeStore(t, s)
	closeStore(t, open(t, dir))
}

// longView opens a View in round 1 that still shows it when it is released.
func longView(t *testing.T, s *badger.Store, opened, release chan struct{}) {
	if err := s.View(ctx, func(tx backend.Tx) error {
		close(opened)
		<-release
		n, err := roundOf(tx)
		if err == nil && n != 1 {
			err = fmt.Errorf("the View of round 1 shows round %d", n)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// manyViews opens Views until stop: rounds never go back.
func manyViews(t *testing.T, s *badger.Store, stop *atomic.Bool) {
	for last := uint64(0); !stop.Load(); {
		if err := s.View(ctx, func(tx backend.Tx) error {
			n, err := roundOf(tx)
			if n < last {
				err = fmt.Errorf("round %d after round %d", n, last)
			}
			last = n
			return err
		}); err != nil {
			t.Error(err)
			return
		}
	}
}

// checkLogs checks that Badger's logs have their blocks before they are written.
func checkLogs(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("logs: %q, %v, want one in use and the next", logs, err)
	}
	for _, name := range logs[len(logs)-2:] { // those before may be on their way out
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		if st.Blocks*512 < 20<<20 && canAllocate(t, dir) {
			t.Errorf("%s has %d KiB allocated, want 20 MiB", name, st.Blocks/2)
		}
	}
}

func canAllocate(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.CreateTemp(dir, "try")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 4096) == nil
}

// TestViewsDoNotWaitForUpdates reads while an Update is in its function.
func TestViewsDoNotWaitForUpdates(t *testing.T) {
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	set(t, s, "a", "1")
	if _, err := s.Update(ctx, func(tx backend.Tx) error {
		if err := tx.Set([]byte("a"), []byte("2")); err != nil {
			return err
		}
		read := make(chan error, 1)
		go func() {
			read <- s.View(ctx, func(tx backend.Tx) error {
				if v, err := tx.Get([]byte("a")); err != nil || string(v) != "1" {
					return fmt.Errorf("a = %q, %v", v, err)
				}
				return nil
			})
		}()
		select {
		case err := <-read:
			return err
		case <-waits.After(t, time.Minute):
			return fmt.Errorf("a View waits for an Update")
		}
	}); err != nil {
		t.Error(err)
	}
}

func TestFailedCommit(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s, err := badger.Open(ctx, badger.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "a", "1")
	if err := badger.FailCommits(s); err != nil {
		t.Fatal(err)
	}
	update := func() error {
		_, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte("a"), []byte("2")) })
		return err
	}
	if err := update(); err == nil {
		t.Fatal("a failed commit: no error")
	}
	for range 2 {
		if err := update(); backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "restart") {
			t.Errorf("an Update after a failed commit: %v", err)
		}
	}
	if got := s.LastLSN(); got != 1 {
		t.Errorf("LastLSN = %d, want 1", got)
	}
	// Badger panics in this state; Views fail and the process goes on.
	if err := s.View(ctx, func(tx backend.Tx) error {
		return tx.Scan(nil, nil, func(_, _ []byte) error { return errTest })
	}); err == nil || err == errTest {
		t.Errorf("a Scan after Badger was lost: %v", err)
	}
	if err := s.Close(); backend.KindOf(err) != backend.IO {
		t.Errorf("Close after a failed commit: %v, want IO", err)
	}
	if !strings.Contains(log.String(), "no more are accepted") {
		t.Errorf("the log does not tell: %s", log.String())
	}
	clone := t.TempDir()
	copyDir(t, dir, clone)
	s = open(t, clone)
	defer closeStore(t, s)
	if v, err := get(t, s, "a"); v != "1" || err != nil {
		t.Errorf("after a restart a = %q, %v", v, err)
	}
}

// TestSizeAndLSN checks what status shows.
func TestSizeAndLSN(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if s.LastLSN() != 0 {
		t.Errorf("LastLSN of a new store = %d", s.LastLSN())
	}
	before, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	if lsn := set(t, s, "a", "1"); lsn != s.LastLSN() || lsn != 1 {
		t.Errorf("LSN %d, LastLSN %d", lsn, s.LastLSN())
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if s.LastLSN() != 1 {
		t.Errorf("LastLSN after reopening = %d, want 1", s.LastLSN())
	}
	after, err := s.Size()
	if err != nil {
		t.Fatal(err)
	}
	if before <= 0 || after <= 0 || after > 200<<20 {
		t.Errorf("Size: %d, then %d", before, after)
	}
}

// TestTransactionsEnd uses a transaction after its function returned.
func TestTransactionsEnd(t *testing.T) {
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	var kept backend.Tx
	keep := func(tx backend.Tx) error { kept = tx; return nil }
	if err := s.View(ctx, keep); err != nil {
		t.Fatal(err)
	}
	view := kept
	if _, err := s.Update(ctx, keep); err != nil {
		t.Fatal(err)
	}
	for _, tx := range []backend.Tx{view, kept} {
		_, err := tx.Get([]byte("a"))
		for _, err := range []error{
			err, tx.Set([]byte("a"), nil), tx.Delete([]byte("a")),
			tx.Scan(nil, nil, func(_, _ []byte) error { return nil }),
		} {
			if backend.KindOf(orTest(err)) != backend.Invalid {
				t.Errorf("after the end: %v, want Invalid", err)
			}
		}
	}
}

func orTest(err error) error {
	if err == nil {
		return errTest
	}
	return err
}

// TestPanicInAFunction leaves nothing locked.
func TestPanicInAFunction(t *testing.T) {
	s := open(t, t.TempDir())
	set(t, s, "a", "1")
	for _, call := range []func(context.Context, func(backend.Tx) error) error{
		s.View, func(ctx context.Context, fn func(backend.Tx) error) error { _, err := s.Update(ctx, fn); return err },
	} {
		func() {
			defer func() {
				if r := recover(); r != "mine" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = call(ctx, func(tx backend.Tx) error {
				return tx.Scan(nil, nil, func(_, _ []byte) error { panic("mine") })
			})
		}()
	}
	if lsn := set(t, s, "a", "2"); lsn != 2 {
		t.Errorf("LSN %d after panics, want 2", lsn)
	}
	closeStore(t, s)
}

// TestDamagedValues puts records into Badger that this package would not, as its
// own swallowed errors do: each is IO and none is a value.
func TestDamagedValues(t *testing.T) {
	const value = "the value"
	whole := badger.EncodeForTest("\x01a", value)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for what, record := range map[string][]byte{
		"nothing":           {},
		"half a header":     whole[:4],
		"a header":          whole[:8],
		"a byte less":       whole[:len(whole)-1],
		"a byte more":       append(bytes.Clone(whole), 0),
		"a bit flipped":     flipped,
		"zeros":             make([]byte, len(whole)),
		"another key's":     badger.EncodeForTest("\x01b", value),
		"an empty value's":  append(badger.EncodeForTest("\x01a", ""), value...),
		"a shorter value's": append(badger.EncodeForTest("\x01a", value[:4]), value[4:]...),
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			set(t, s, "a", value)
			set(t, s, "c", "whole")
			closeStore(t, s)
			putRecord(t, dir, 0, "\x01a", record)
			var log bytes.Buffer
			s, err := badger.Open(ctx, badger.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer closeStore(t, s)
			if v, err := get(t, s, "a"); backend.KindOf(orTest(err)) != backend.IO || v != "" {
				t.Errorf("Get: %q, %v, want IO", v, err)
			}
			err = s.View(ctx, func(tx backend.Tx) error {
				return tx.Scan(nil, nil, func(k, v []byte) error { return fmt.Errorf("Scan gives %s = %q", k, v) })
			})
			if backend.KindOf(orTest(err)) != backend.IO {
				t.Errorf("Scan: %v, want IO", err)
			}
			if v, err := get(t, s, "c"); v != "whole" || err != nil {
				t.Errorf("another key: %q, %v", v, err)
			}
			if !strings.Contains(log.String(), "key=61") {
				t.Errorf("the log does not name the key: %s", log.String())
			}
			set(t, s, "a", "again") // what is written again is whole again
			if v, err := get(t, s, "a"); v != "again" || err != nil {
				t.Errorf("after writing it again: %q, %v", v, err)
			}
		})
	}
}

// putRecord stores a record beside the package, as part of the Update that many
// after the last.
func putRecord(t *testing.T, dir string, after uint64, key string, record []byte) {
	t.Helper()
	db, err := bdg.OpenManaged(bdg.DefaultOptions(dir).WithLogger(nil).WithExternalMagic(0x7761))
	if err != nil {
		t.Fatal(err)
	}
	last := db.MaxVersion() + after
	txn := db.NewTransactionAt(last, true)
	if err := txn.Set([]byte(key), record); err != nil {
		t.Fatal(err)
	}
	if err := txn.CommitAt(last, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
