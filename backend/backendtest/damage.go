package backendtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/warrenfs/warren/backend"
)

// change damages what is kept for ref.
func (h *contentHarness) change(ref backend.Ref, change func([]byte) []byte) {
	h.t.Helper()
	if h.damage != nil {
		h.damage(h.t, ref, change)
		return
	}
	h.update(func(tx backend.Tx) error {
		key := backend.ContentKey(ref.ID)
		data, err := tx.Get(key)
		if err != nil {
			return err
		}
		data = change(bytes.Clone(data))
		if data == nil {
			return tx.Delete(key)
		}
		return tx.Set(key, data)
	})
}

// testContentDamage changes kept bytes in every way: reading them is IO, and
// putting them again mends them.
func testContentDamage(t *testing.T, h *contentHarness) {
	const n = 9000
	flip := func(bit int) func([]byte) []byte {
		return func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b }
	}
	damages := map[string]func([]byte) []byte{
		"removed":         func([]byte) []byte { return nil },
		"emptied":         func([]byte) []byte { return []byte{} },
		"one byte left":   func(b []byte) []byte { return b[:1] },
		"last byte lost":  func(b []byte) []byte { return b[:len(b)-1] },
		"first byte lost": func(b []byte) []byte { return b[1:] },
		"half lost":       func(b []byte) []byte { return b[:len(b)/2] },
		"a byte too many": func(b []byte) []byte { return append(b, 0) },
		"twice":           func(b []byte) []byte { return append(b, b...) },
		"zeroed":          func(b []byte) []byte { clear(b); return b },
		"a page zeroed":   func(b []byte) []byte { clear(b[4096:8192]); return b },
		"other bytes":     func(b []byte) []byte { return random(99, len(b)) },
		"bytes swapped":   func(b []byte) []byte { b[0], b[1] = b[1], b[0]+1; return b },
	}
	for bit := 0; bit < n*8; bit += n*8/40 + 1 {
		damages[fmt.Sprintf("bit %d flipped", bit)] = flip(bit)
	}
	other := h.put(2, random(2, n))
	for what, damage := range damages {
		ref := h.put(1, random(1, n))
		h.change(ref, damage)
		h.isGone(what, ref)
		h.reads(h.put(1, random(1, n)), random(1, n))
	}
	h.reads(other, random(2, n))
}

// testContentWrongRef reads by refs whose length or checksum is not that of the
// bytes.
func testContentWrongRef(t *testing.T, h *contentHarness) {
	ref := h.put(1, random(1, 5000))
	for what, change := range map[string]func(*backend.Ref){
		"another checksum": func(r *backend.Ref) { r.CRC ^= 1 },
		"shorter":          func(r *backend.Ref) { r.Length-- },
		"longer":           func(r *backend.Ref) { r.Length++ },
	} {
		wrong := ref
		change(&wrong)
		h.isGone(what, wrong)
	}
	h.reads(ref, random(1, 5000))
}

func testContentReopen(t *testing.T, h *contentHarness) {
	refs := map[int]backend.Ref{}
	for _, n := range []int{1, 4096, h.c.Limit()} {
		refs[n] = h.put(uint64(n), random(uint64(n), n))
	}
	h.reopen()
	for n, ref := range refs {
		h.reads(ref, random(uint64(n), n))
	}
}

func testContentView(t *testing.T, h *contentHarness) {
	ref := h.put(1, random(1, 100))
	h.view(func(tx backend.Tx) error {
		if _, err := h.c.Put(tx, 2, random(2, 100)); err == nil {
			t.Error("Put in a View: no error")
		}
		if err := h.c.Free(tx, ref); err == nil {
			t.Error("Free in a View: no error")
		}
		return nil
	})
	h.reads(ref, random(1, 100))
}
