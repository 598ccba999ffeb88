package backendtest

import (
	"fmt"
	"testing"

	"github.com/warrenfs/warren/backend"
)

func testKeyLimits(t *testing.T, h *harness) {
	longest, tooLong := fill('k', backend.MaxKey), fill('k', backend.MaxKey+1)
	h.update(func(tx backend.Tx) error {
		if err := tx.Set(longest, []byte("v")); err != nil {
			return fmt.Errorf("Set of a key of %d bytes: %w", len(longest), err)
		}
		isKind(t, "Set of a key over the limit", tx.Set(tooLong, []byte("v")), backend.TooBig)
		isKind(t, "Delete of a key over the limit", tx.Delete(tooLong), backend.TooBig)
		if tx.Set(nil, []byte("v")) == nil || tx.Set([]byte{}, []byte("v")) == nil {
			t.Error("Set of an empty key: no error")
		}
		if _, err := tx.Get(nil); err == nil {
			t.Error("Get of an empty key: no error")
		}
		if _, err := tx.Get(tooLong); err == nil {
			t.Error("Get of a key over the limit: no error")
		}
		return holds(tx, []string{string(longest), "v"})
	})
	h.holds(string(longest), "v")
	_, err := h.tryUpdate(func(tx backend.Tx) error {
		if err := tx.Set([]byte("a"), []byte("1")); err != nil {
			return err
		}
		return tx.Set(tooLong, []byte("v"))
	})
	isKind(t, "Update with a key over the limit", err, backend.TooBig)
	h.holds(string(longest), "v")
	h.update(func(tx backend.Tx) error { return tx.Delete(longest) })
	h.holds()
}

func testValueLimit(t *testing.T, h *harness) {
	biggest := fill('v', backend.MaxValue)
	biggest[0], biggest[len(biggest)-1] = 'a', 'z'
	h.update(func(tx backend.Tx) error {
		if err := tx.Set([]byte("a"), biggest); err != nil {
			return fmt.Errorf("Set of a value of %d bytes: %w", len(biggest), err)
		}
		isKind(t, "Set of a value over the limit", tx.Set([]byte("b"), fill('v', backend.MaxValue+1)), backend.TooBig)
		return holds(tx, []string{"a", string(biggest)})
	})
	h.holds("a", string(biggest))
	_, err := h.tryUpdate(func(tx backend.Tx) error {
		if err := tx.Delete([]byte("a")); err != nil {
			return err
		}
		return tx.Set([]byte("b"), fill('v', backend.MaxValue+1))
	})
	isKind(t, "Update with a value over the limit", err, backend.TooBig)
	h.holds("a", string(biggest))
	h.reopen()
	h.holds("a", string(biggest))
}

// setBytes sets keys of 8 bytes and values until n bytes are changed in all.
func setBytes(tx backend.Tx, n int) error {
	for i := 0; n > 0; i++ {
		key := fmt.Appendf(nil, "%08d", i)
		size := min(n-len(key), backend.MaxValue)
		if rest := n - len(key) - size; rest > 0 && rest < len(key) {
			size -= len(key) // so that the rest is enough for one more key
		}
		if err := tx.Set(key, fill(byte(i), size)); err != nil {
			return err
		}
		n -= len(key) + size
	}
	return nil
}

func testUpdateBytesLimit(t *testing.T, h *harness) {
	h.set("a", "1")
	_, err := h.tryUpdate(func(tx backend.Tx) error { return setBytes(tx, backend.MaxTxBytes+1) })
	isKind(t, "Update over the limit of bytes", err, backend.TooBig)
	h.holds("a", "1")
	h.update(func(tx backend.Tx) error { return setBytes(tx, backend.MaxTxBytes) })
	check := func() {
		t.Helper()
		total := 0
		h.view(func(tx backend.Tx) error {
			return tx.Scan([]byte("0"), []byte("1"), func(k, v []byte) error {
				total += len(k) + len(v)
				return nil
			})
		})
		if total != backend.MaxTxBytes {
			t.Errorf("%d bytes stored, want %d", total, backend.MaxTxBytes)
		}
	}
	check()
	h.reopen()
	check()
}

// countKeys checks that the store has n keys.
func countKeys(h *harness, n int) {
	h.t.Helper()
	h.view(func(tx backend.Tx) error {
		keys, err := scanKeys(tx, nil, nil)
		if len(keys) != n {
			h.t.Errorf("%d keys, want %d", len(keys), n)
		}
		return err
	})
}

func setMany(tx backend.Tx, n, size int) error {
	for i := range n {
		if err := tx.Set(fmt.Appendf(nil, "%08d", i), fill('v', size)); err != nil {
			return err
		}
	}
	return nil
}

func deleteMany(tx backend.Tx, n int) error {
	for i := range n {
		if err := tx.Delete(fmt.Appendf(nil, "%08d", i)); err != nil {
			return err
		}
	}
	return nil
}

func testUpdateKeysLimit(t *testing.T, h *harness) {
	_, err := h.tryUpdate(func(tx backend.Tx) error { return setMany(tx, backend.MaxTxKeys+1, 0) })
	isKind(t, "Update over the limit of keys", err, backend.TooBig)
	countKeys(h, 0)
	h.update(func(tx backend.Tx) error { return setMany(tx, backend.MaxTxKeys, 0) })
	countKeys(h, backend.MaxTxKeys)
	h.set("one more", "")
	_, err = h.tryUpdate(func(tx backend.Tx) error {
		if err := deleteMany(tx, backend.MaxTxKeys); err != nil {
			return err
		}
		return tx.Delete([]byte("one more"))
	})
	isKind(t, "Update that deletes over the limit of keys", err, backend.TooBig)
	countKeys(h, backend.MaxTxKeys+1)
	h.update(func(tx backend.Tx) error { return deleteMany(tx, backend.MaxTxKeys) })
	countKeys(h, 1)
	h.reopen()
	countKeys(h, 1)
}

// setMost changes as many keys and bytes as one Update may.
func setMost(tx backend.Tx) error {
	size := backend.MaxTxBytes/backend.MaxTxKeys - 8
	if err := setMany(tx, backend.MaxTxKeys-1, size); err != nil {
		return err
	}
	rest := backend.MaxTxBytes - (backend.MaxTxKeys-1)*(size+8)
	return tx.Set([]byte("last key"), fill('v', rest-8))
}

func testUpdateBothLimits(t *testing.T, h *harness) {
	for range 3 {
		h.update(setMost)
		countKeys(h, backend.MaxTxKeys)
	}
	h.reopen()
	countKeys(h, backend.MaxTxKeys)
}

// testLimitsCountEachKeyOnce changes the same keys again and again: what counts
// is what the Update changes in the end.
func testLimitsCountEachKeyOnce(t *testing.T, h *harness) {
	big := fill('v', backend.MaxValue)
	h.update(func(tx backend.Tx) error {
		for i := range 100 { // 6.5 MB in all, 65 KB in the end
			big[0] = byte(i)
			if err := tx.Set([]byte("a"), big); err != nil {
				return err
			}
		}
		for range backend.MaxTxKeys + 1 {
			if err := tx.Set([]byte("b"), []byte("2")); err != nil {
				return err
			}
			if err := tx.Delete([]byte("b")); err != nil {
				return err
			}
		}
		return nil
	})
	big[0] = 99
	h.holds("a", string(big))
}

// testReservedKeys puts what a layer may add on top of a full Update.
func testReservedKeys(t *testing.T, h *harness) {
	if !h.fix.Reserved {
		t.Skip("the store keeps such keys for itself")
	}
	for range 3 {
		h.update(func(tx backend.Tx) error {
			if err := setMost(tx); err != nil {
				return err
			}
			for i := range 4 {
				key := fmt.Appendf(nil, "%s%d", backend.ReservedPrefix, i)
				if err := tx.Set(key, fill('v', 256-len(key))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	countKeys(h, backend.MaxTxKeys+4)
	h.reopen()
	countKeys(h, backend.MaxTxKeys+4)
}
