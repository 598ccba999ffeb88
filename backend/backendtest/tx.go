package backendtest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/warrenfs/warren/backend"
)

func testGetSetDelete(t *testing.T, h *harness) {
	h.holds()
	h.update(func(tx backend.Tx) error {
		if err := absent(tx, "a"); err != nil {
			return err
		}
		if err := tx.Delete([]byte("a")); err != nil {
			return fmt.Errorf("Delete of a key that is not there: %w", err)
		}
		if err := tx.Set([]byte("a"), []byte("1")); err != nil {
			return err
		}
		if err := tx.Set([]byte("b"), []byte("2")); err != nil {
			return err
		}
		return holds(tx, []string{"a", "1", "b", "2"})
	})
	h.holds("a", "1", "b", "2")
	h.update(func(tx backend.Tx) error {
		if err := tx.Set([]byte("a"), []byte("3")); err != nil {
			return err
		}
		if err := tx.Delete([]byte("b")); err != nil {
			return err
		}
		if err := absent(tx, "b"); err != nil {
			return err
		}
		return holds(tx, []string{"a", "3"})
	})
	h.holds("a", "3")
	h.update(func(tx backend.Tx) error {
		if err := tx.Delete([]byte("a")); err != nil {
			return err
		}
		return tx.Set([]byte("a"), []byte("4"))
	})
	h.holds("a", "4")
	h.update(func(tx backend.Tx) error {
		if err := tx.Set([]byte("a"), []byte("5")); err != nil {
			return err
		}
		return tx.Delete([]byte("a"))
	})
	h.holds()
}

// testBytesAreKept has keys and values of all kinds of bytes, in byte order.
func testBytesAreKept(t *testing.T, h *harness) {
	long := string(fill(0xff, backend.MaxKey))
	keys := []string{
		"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "!badger!", "!badger!txn", "a", "a\x00",
		"a\x00\x00", "a\x00b", "a\x01", "a\xff", "a\xff\xff", "b", "c\x00\x00\x00\x00\x00\x00\x00\x01", "\x7f",
		"\x80", "\xc3\xa9", "\xfe\xff", "\xff", "\xff\x00", "\xff\xff", "\xff\xff\x00", "\xff\xff\xff", long,
	}
	var pairs []string
	for i, k := range keys {
		v := k
		switch i % 4 {
		case 0:
			v = ""
		case 1:
			v = "\x00"
		case 2:
			v = "\xff\x00\xff"
		}
		pairs = append(pairs, k, v)
	}
	h.update(func(tx backend.Tx) error {
		for i := len(pairs) - 2; i >= 0; i -= 2 {
			if err := tx.Set([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return holds(tx, pairs)
	})
	h.holds(pairs...)
	h.update(func(tx backend.Tx) error { return tx.Set([]byte("a"), nil) })
	h.view(func(tx backend.Tx) error {
		if v, err := tx.Get([]byte("a")); err != nil || len(v) != 0 {
			return fmt.Errorf("a value set to nil: %q, %v, want an empty one", v, err)
		}
		return nil
	})
	h.reopen()
	h.update(func(tx backend.Tx) error { return tx.Set([]byte("a"), []byte("a")) })
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == "a" {
			pairs[i+1] = "a"
		}
	}
	h.holds(pairs...)
}

func testSlicesAreCopied(t *testing.T, h *harness) {
	key, value := []byte("key"), []byte("value")
	h.update(func(tx backend.Tx) error {
		copy(key, "key")
		copy(value, "value")
		if err := tx.Set(key, value); err != nil {
			return err
		}
		copy(key, "xxx")
		copy(value, "xxxxx")
		if err := holds(tx, []string{"key", "value"}); err != nil {
			return err
		}
		copy(key, "gon")
		if err := tx.Delete(key); err != nil {
			return err
		}
		copy(key, "key")
		return nil
	})
	h.holds("key", "value")
}

func testGetLastsUntilTheEnd(t *testing.T, h *harness) {
	const n = 200
	h.update(func(tx backend.Tx) error {
		for i := range n {
			if err := tx.Set(fmt.Appendf(nil, "%03d", i), fill(byte(i), 1000)); err != nil {
				return err
			}
		}
		return nil
	})
	read := func(tx backend.Tx, change func(key []byte) error) error {
		var values [][]byte
		for i := range n {
			key := fmt.Appendf(nil, "%03d", i)
			v, err := tx.Get(key)
			if err != nil {
				return err
			}
			values = append(values, v)
			if err := change(key); err != nil {
				return err
			}
		}
		for i, v := range values {
			if string(v) != string(fill(byte(i), 1000)) {
				return fmt.Errorf("the value of key %d changed before the transaction ended", i)
			}
		}
		return nil
	}
	h.view(func(tx backend.Tx) error { return read(tx, func([]byte) error { return nil }) })
	h.update(func(tx backend.Tx) error {
		return read(tx, func(key []byte) error { return tx.Set(key, fill('x', 1000)) })
	})
	if _, err := h.tryUpdate(func(tx backend.Tx) error {
		for i := range n { // so that a repeated run starts as the first did
			if err := tx.Set(fmt.Appendf(nil, "%03d", i), fill(byte(i), 1000)); err != nil {
				return err
			}
		}
		return read(tx, tx.Delete)
	}); err != nil {
		t.Fatal(err)
	}
	h.holds()
}

func testViewChangesNothing(t *testing.T, h *harness) {
	h.set("a", "1")
	h.view(func(tx backend.Tx) error {
		if err := tx.Set([]byte("b"), []byte("2")); err == nil {
			t.Error("Set in a View: no error")
		}
		if err := tx.Delete([]byte("a")); err == nil {
			t.Error("Delete in a View: no error")
		}
		return holds(tx, []string{"a", "1"})
	})
	h.holds("a", "1")
	if err := view(h.s, func(backend.Tx) error { return errTest }); err != errTest {
		t.Errorf("View returned %v, want its function's own error", err)
	}
}

func testErrorRollsBack(t *testing.T, h *harness) {
	last := h.set("a", "1", "b", "2")
	kind := &backend.Error{Op: "test", Kind: backend.Quota}
	for _, want := range []error{errTest, kind, backend.NotFound, fmt.Errorf("wrapped: %w", errTest)} {
		_, err := h.tryUpdate(func(tx backend.Tx) error {
			if err := tx.Set([]byte("a"), []byte("changed")); err != nil {
				return err
			}
			if err := tx.Delete([]byte("b")); err != nil {
				return err
			}
			if err := tx.Set([]byte("c"), []byte("new")); err != nil {
				return err
			}
			return want
		})
		if err != want {
			t.Errorf("Update returned %v, want its function's own error %v", err, want)
		}
		h.holds("a", "1", "b", "2")
	}
	if lsn := h.set("a", "2"); lsn != last+1 {
		t.Errorf("after Updates that failed the LSN is %d, want %d", lsn, last+1)
	}
	if errors.Is(errTest, backend.NotFound) {
		t.Error("the test's error must have no kind")
	}
}
