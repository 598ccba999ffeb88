package backendtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
)

func testScanOrder(t *testing.T, h *harness) {
	// Spread over many Updates, so that drivers keep them in many places.
	want := make([]string, 0, 512)
	for _, a := range []byte{0x80, 0x00, 0xff, 0x7f, 0x01} {
		h.update(func(tx backend.Tx) error {
			for b := 255; b >= 0; b -= 5 {
				key := []byte{a, byte(b)}
				if err := tx.Set(key, key); err != nil {
					return err
				}
			}
			return nil
		})
		for b := 0; b < 256; b += 5 {
			want = append(want, string([]byte{a, byte(b)}))
		}
	}
	slices.Sort(want)
	pairs := make([]string, 0, 2*len(want))
	for _, k := range want {
		pairs = append(pairs, k, k)
	}
	h.holds(pairs...)
}

func testScanBounds(t *testing.T, h *harness) {
	h.set("a", "1", "a\x00", "2", "b", "3", "b\xff", "4", "c", "5")
	all := []string{"a", "a\x00", "b", "b\xff", "c"}
	longest := append([]byte("b"), fill(0xff, 2*backend.MaxKey)...)
	for _, c := range []struct {
		start, end []byte
		want       []string
	}{
		{nil, nil, all},
		{[]byte{}, nil, all},
		{[]byte("a"), nil, all},
		{[]byte("a"), []byte("c"), all[:4]},
		{[]byte("a\x00"), nil, all[1:]},
		{[]byte("a\x00\x00"), nil, all[2:]},
		{[]byte("a"), []byte("a\x00"), all[:1]},
		{nil, []byte("b"), all[:2]},
		{nil, []byte("b\x00"), all[:3]},
		{[]byte("b"), []byte("b"), nil},
		{[]byte("c"), []byte("a"), nil},
		{[]byte("c\x00"), nil, nil},
		{nil, []byte("a"), nil},
		{nil, []byte{}, nil},
		{[]byte{0xff}, nil, nil},
		{[]byte("b\xfe"), []byte("b\xff\x00"), all[3:4]},
		{longest, nil, all[4:]},
		{nil, longest, all[:4]},
	} {
		check := func(tx backend.Tx) error {
			pairs, err := scanAll(tx, c.start, c.end)
			if err != nil {
				return err
			}
			keys, err := scanKeys(tx, c.start, c.end)
			if err != nil {
				return err
			}
			var got []string
			for i := 0; i < len(pairs); i += 2 {
				got = append(got, pairs[i])
			}
			if !slices.Equal(got, c.want) || !slices.Equal(keys, c.want) {
				t.Errorf("Scan(%.20q, %.20q): %q, ScanKeys %q, want %q", c.start, c.end, got, keys, c.want)
			}
			return nil
		}
		h.view(check)
		h.update(check)
	}
}

func testScanPrefix(t *testing.T, h *harness) {
	keys := []string{"p", "p\x00", "pa", "p\xfe", "p\xff", "p\xff\xff", "q", "\xff", "\xff\xff", "\xff\xff\xff"}
	slices.Sort(keys)
	for _, k := range keys {
		h.set(k, "")
	}
	for _, c := range []struct{ prefix, first string }{
		{"p", "p"}, {"p\xff", "p\xff"}, {"\xff", "\xff"}, {"\xff\xff", "\xff\xff"}, {"q", "q"}, {"x", ""}, {"", keys[0]},
	} {
		var want []string
		for _, k := range keys {
			if len(k) >= len(c.prefix) && k[:len(c.prefix)] == c.prefix {
				want = append(want, k)
			}
		}
		h.view(func(tx backend.Tx) error {
			got, err := scanKeys(tx, []byte(c.prefix), backend.PrefixEnd([]byte(c.prefix)))
			if !slices.Equal(got, want) {
				t.Errorf("prefix %q: %q, want %q", c.prefix, got, want)
			}
			return err
		})
	}
}

func testScanEnds(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "c", "3")
	check := func(tx backend.Tx) error {
		for stop := 1; stop <= 3; stop++ {
			for _, c := range []struct{ give, want error }{{backend.ErrStop, nil}, {errTest, errTest}, {backend.NotFound, backend.NotFound}} {
				n := 0
				if err := tx.Scan(nil, nil, func(_, _ []byte) error {
					if n++; n == stop {
						return c.give
					}
					return nil
				}); err != c.want || n != stop {
					t.Errorf("Scan whose function returns %v at key %d: %v after %d keys", c.give, stop, err, n)
				}
				n = 0
				if err := tx.ScanKeys(nil, nil, func([]byte) error {
					if n++; n == stop {
						return c.give
					}
					return nil
				}); err != c.want || n != stop {
					t.Errorf("ScanKeys whose function returns %v at key %d: %v after %d keys", c.give, stop, err, n)
				}
			}
		}
		return nil
	}
	h.view(check)
	h.update(check)
	h.update(func(tx backend.Tx) error { // over changes of its own, too
		if err := tx.Set([]byte("b"), []byte("x")); err != nil {
			return err
		}
		return check(tx)
	})
}

// testScanSeesOwnChanges scans in an Update over stored keys that it changed,
// deleted and added between, before and after.
func testScanSeesOwnChanges(t *testing.T, h *harness) {
	h.set("b", "1", "d", "2", "f", "3", "h", "4")
	h.update(func(tx backend.Tx) error {
		for _, step := range []struct {
			key  string
			want []string
		}{
			{"+a", []string{"a", "new", "b", "1", "d", "2", "f", "3", "h", "4"}},
			{"+d", []string{"a", "new", "b", "1", "d", "new", "f", "3", "h", "4"}},
			{"-f", []string{"a", "new", "b", "1", "d", "new", "h", "4"}},
			{"-h", []string{"a", "new", "b", "1", "d", "new"}},
			{"+i", []string{"a", "new", "b", "1", "d", "new", "i", "new"}},
			{"+c", []string{"a", "new", "b", "1", "c", "new", "d", "new", "i", "new"}},
			{"-b", []string{"a", "new", "c", "new", "d", "new", "i", "new"}},
			{"-c", []string{"a", "new", "d", "new", "i", "new"}},
			{"-a", []string{"d", "new", "i", "new"}},
			{"+f", []string{"d", "new", "f", "new", "i", "new"}},
			{"-x", []string{"d", "new", "f", "new", "i", "new"}},
		} {
			key := []byte(step.key[1:])
			err := tx.Delete(key)
			if step.key[0] == '+' {
				err = tx.Set(key, []byte("new"))
			}
			if err != nil {
				return err
			}
			if err := holds(tx, step.want); err != nil {
				return fmt.Errorf("after %s: %w", step.key, err)
			}
		}
		return nil
	})
	h.holds("d", "new", "f", "new", "i", "new")
}

// testScanWhileChanging calls Get, Set and Delete inside a Scan, over keys of an
// earlier Update and over keys of the same: those that are not changed meanwhile
// are seen once each, in order.
func testScanWhileChanging(t *testing.T, h *harness) {
	const n = 500
	put := func(tx backend.Tx) error {
		for i := range n {
			if err := tx.Set(fmt.Appendf(nil, "k%03d", i), fill('v', i)); err != nil {
				return err
			}
		}
		return nil
	}
	h.update(put)
	for _, before := range []func(backend.Tx) error{func(backend.Tx) error { return nil }, put} {
		changeWhileScanning(t, h, n, before)
	}
}

func changeWhileScanning(t *testing.T, h *harness, n int, before func(backend.Tx) error) {
	t.Helper()
	h.update(func(tx backend.Tx) error {
		if err := before(tx); err != nil {
			return err
		}
		var seen []string
		err := tx.Scan([]byte("k"), []byte("l"), func(key, value []byte) error {
			seen = append(seen, string(key))
			if len(value) != len(seen)-1 {
				return fmt.Errorf("%s has %d bytes", key, len(value))
			}
			if v, err := tx.Get(key); err != nil || len(v) != len(value) {
				return fmt.Errorf("Get(%s) inside the Scan: %d bytes, %v", key, len(v), err)
			}
			if err := tx.Set(append([]byte("j"), key...), value); err != nil {
				return err
			}
			if err := tx.Set(append([]byte("m"), key...), nil); err != nil {
				return err
			}
			return tx.Delete(append([]byte(nil), key...))
		})
		if err != nil {
			return err
		}
		if len(seen) != n || !slices.IsSorted(seen) {
			return fmt.Errorf("saw %d keys, sorted: %v; want %d", len(seen), slices.IsSorted(seen), n)
		}
		left, err := scanKeys(tx, []byte("k"), []byte("l"))
		if len(left) != 0 {
			return fmt.Errorf("%d keys left after deleting all", len(left))
		}
		return err
	})
	h.view(func(tx backend.Tx) error {
		for prefix, want := range map[string]int{"j": n, "k": 0, "m": n} {
			keys, err := scanKeys(tx, []byte(prefix), backend.PrefixEnd([]byte(prefix)))
			if err != nil {
				return err
			}
			if len(keys) != want {
				t.Errorf("%d keys with %q, want %d", len(keys), prefix, want)
			}
		}
		return nil
	})
}

func testScanInsideScan(t *testing.T, h *harness) {
	h.set("a", "1", "b", "2", "c", "3")
	nested := func(tx backend.Tx) error {
		var got []string
		err := tx.ScanKeys(nil, nil, func(outer []byte) error {
			return tx.Scan(outer, nil, func(inner, _ []byte) error {
				got = append(got, string(outer)+string(inner))
				return nil
			})
		})
		if want := []string{"aa", "ab", "ac", "bb", "bc", "cc"}; !slices.Equal(got, want) {
			t.Errorf("a Scan inside a Scan saw %q, want %q", got, want)
		}
		return err
	}
	h.view(nested)
	h.update(nested)
	h.update(func(tx backend.Tx) error {
		if err := tx.Set([]byte("b"), []byte("x")); err != nil {
			return err
		}
		return nested(tx)
	})
}
