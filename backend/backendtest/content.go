package backendtest

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/warrenfs/warren/backend"
)

// ContentFixture is one content driver over one store.
type ContentFixture struct {
	Fixture
	Content backend.Content
	// Damage replaces the bytes that are kept for ref by what change makes of
	// them; nil removes them. A nil Damage does so to the value under
	// backend.ContentKey, for drivers whose bytes travel in the transaction.
	Damage func(t testing.TB, ref backend.Ref, change func([]byte) []byte)
}

// ContentFactory makes a fixture with a new, empty store.
type ContentFactory func(t testing.TB) ContentFixture

// TestContent runs the conformance suite for content drivers.
func TestContent(t *testing.T, open ContentFactory) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *contentHarness)
	}{
		{"RoundTrips", testContentRoundTrips},
		{"PutLimits", testContentPutLimits},
		{"PartialGets", testContentPartialGets},
		{"OutsideIsRange", testContentRange},
		{"OwnPutIsSeen", testContentOwnPut},
		{"PutAgain", testContentPutAgain},
		{"FailedUpdatePutsNothing", testContentFailedUpdate},
		{"Free", testContentFree},
		{"DamageIsIO", testContentDamage},
		{"WrongRefIsIO", testContentWrongRef},
		{"ReopenKeepsIt", testContentReopen},
		{"ViewPutsNothing", testContentView},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fix ContentFixture
			h := newHarness(t, func(t testing.TB) Fixture {
				fix = open(t)
				return fix.Fixture
			})
			c.run(t, &contentHarness{harness: h, c: fix.Content, damage: fix.Damage})
		})
	}
}

type contentHarness struct {
	*harness
	c      backend.Content
	damage func(t testing.TB, ref backend.Ref, change func([]byte) []byte)
}

// random gives n bytes that depend on id.
func random(id uint64, n int) []byte {
	r := rand.New(rand.NewPCG(id, uint64(n)))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func (h *contentHarness) put(id uint64, data []byte) (ref backend.Ref) {
	h.t.Helper()
	h.update(func(tx backend.Tx) (err error) {
		ref, err = h.c.Put(tx, id, data)
		return err
	})
	return ref
}

// try reads n bytes at off in a View.
func (h *contentHarness) try(ref backend.Ref, off uint32, n int) ([]byte, error) {
	p := make([]byte, n)
	err := view(h.s, func(tx backend.Tx) error { return h.c.Get(tx, ref, off, p) })
	return p, err
}

// reads checks that ref gives exactly data, whole and by Check.
func (h *contentHarness) reads(ref backend.Ref, data []byte) {
	h.t.Helper()
	got, err := h.try(ref, 0, len(data))
	if err != nil || !bytes.Equal(got, data) {
		h.t.Errorf("Get of %d bytes: %v, equal: %v", len(data), err, bytes.Equal(got, data))
	}
	if err := h.check(ref); err != nil {
		h.t.Errorf("Check: %v", err)
	}
}

func (h *contentHarness) check(ref backend.Ref) error {
	return view(h.s, func(tx backend.Tx) error { return h.c.Check(tx, ref) })
}

// isGone checks that neither Get nor Check of ref gives bytes: both are IO.
func (h *contentHarness) isGone(what string, ref backend.Ref) {
	h.t.Helper()
	_, err := h.try(ref, 0, int(ref.Length))
	isKind(h.t, what+": Get", err, backend.IO)
	_, err = h.try(ref, ref.Length-1, 1)
	isKind(h.t, what+": Get of the last byte", err, backend.IO)
	isKind(h.t, what+": Check", h.check(ref), backend.IO)
}

func testContentRoundTrips(t *testing.T, h *contentHarness) {
	limit := h.c.Limit()
	if limit <= 0 || limit%4096 != 0 {
		t.Fatalf("Limit() = %d, want a positive multiple of 4096", limit)
	}
	sizes := []int{1, 2, 3, 511, 512, 4095, 4096, 4097, limit/2 + 1, limit - 1, limit}
	refs := make([]backend.Ref, len(sizes))
	for i, n := range sizes {
		data := random(uint64(i), n)
		refs[i] = h.put(uint64(i)<<40+1, data)
		want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		if r := refs[i]; r.ID != uint64(i)<<40+1 || r.Length != uint32(n) || r.CRC != want {
			t.Errorf("the Ref of %d bytes is %+v, want their CRC-32C %08x", n, r, want)
		}
	}
	for i, n := range sizes {
		h.reads(refs[i], random(uint64(i), n))
	}
	zeros := make([]byte, limit)
	h.reads(h.put(1<<63, zeros), zeros)
}

func testContentPutLimits(t *testing.T, h *contentHarness) {
	for _, c := range []struct {
		n    int
		kind backend.Kind
	}{{0, backend.Invalid}, {h.c.Limit() + 1, backend.TooBig}} {
		_, err := h.tryUpdate(func(tx backend.Tx) error {
			_, err := h.c.Put(tx, 1, make([]byte, c.n))
			return err
		})
		isKind(t, fmt.Sprintf("Put of %d bytes", c.n), err, c.kind)
	}
	// As many as the tree puts into one Update.
	refs := []backend.Ref{}
	h.update(func(tx backend.Tx) error {
		refs = refs[:0]
		for sum := 0; sum < backend.MaxPutBytes; sum += h.c.Limit() {
			n := min(h.c.Limit(), backend.MaxPutBytes-sum)
			ref, err := h.c.Put(tx, uint64(sum+1), random(uint64(sum), n))
			if err != nil {
				return err
			}
			refs = append(refs, ref)
		}
		return nil
	})
	for _, ref := range refs {
		h.reads(ref, random(ref.ID-1, int(ref.Length)))
	}
}

func testContentPartialGets(t *testing.T, h *contentHarness) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 100, 4096, h.c.Limit()} {
		data := random(9, n)
		ref := h.put(uint64(n), data)
		for range 50 {
			off := r.IntN(n + 1)
			size := r.IntN(n - off + 1)
			got, err := h.try(ref, uint32(off), size)
			if err != nil || !bytes.Equal(got, data[off:off+size]) {
				t.Fatalf("Get of [%d, %d) of %d: %v, equal: %v", off, off+size, n, err, bytes.Equal(got, data[off:off+size]))
			}
		}
	}
}

func testContentRange(t *testing.T, h *contentHarness) {
	ref := h.put(7, random(7, 1000))
	for _, c := range []struct {
		off uint32
		n   int
	}{{0, 1001}, {1, 1000}, {999, 2}, {1000, 1}, {1001, 0}, {5000, 10}, {1<<32 - 1, 1}, {1<<32 - 1, 2000}} {
		_, err := h.try(ref, c.off, c.n)
		isKind(t, fmt.Sprintf("Get of %d bytes at %d of 1000", c.n, c.off), err, backend.Range)
	}
}

func testContentOwnPut(t *testing.T, h *contentHarness) {
	data := random(1, 5000)
	h.update(func(tx backend.Tx) error {
		ref, err := h.c.Put(tx, 1, data)
		if err != nil {
			return err
		}
		p := make([]byte, 100)
		if err := h.c.Get(tx, ref, 4900, p); err != nil {
			return err
		}
		if !bytes.Equal(p, data[4900:]) {
			t.Error("an Update read other bytes than it put")
		}
		return h.c.Check(tx, ref)
	})
}

func testContentPutAgain(t *testing.T, h *contentHarness) {
	h.put(5, random(1, 3000))
	again := h.put(5, random(1, 3000))
	h.reads(again, random(1, 3000))
	h.reads(h.put(5, random(2, 100)), random(2, 100))
	var ref backend.Ref
	h.update(func(tx backend.Tx) (err error) { // twice in one Update: the last stands
		if _, err = h.c.Put(tx, 6, random(3, 2000)); err != nil {
			return err
		}
		ref, err = h.c.Put(tx, 6, random(4, 500))
		return err
	})
	h.reads(ref, random(4, 500))
}

func testContentFailedUpdate(t *testing.T, h *contentHarness) {
	kept := h.put(1, random(1, 100))
	var lost backend.Ref
	_, err := h.tryUpdate(func(tx backend.Tx) (err error) {
		if lost, err = h.c.Put(tx, 2, random(2, 100)); err != nil {
			return err
		}
		if err := h.c.Free(tx, kept); err != nil {
			return err
		}
		return errTest
	})
	if err != errTest {
		t.Fatal(err)
	}
	h.reads(kept, random(1, 100))
	h.isGone("what a failed Update put", lost)
}

func testContentFree(t *testing.T, h *contentHarness) {
	a, b := h.put(1, random(1, 5000)), h.put(2, random(2, 5000))
	h.update(func(tx backend.Tx) error { return h.c.Free(tx, a) })
	h.isGone("a freed ref", a)
	h.reads(b, random(2, 5000))
	h.update(func(tx backend.Tx) error { // put and freed in one Update
		ref, err := h.c.Put(tx, 3, random(3, 100))
		if err != nil {
			return err
		}
		return h.c.Free(tx, ref)
	})
	h.reads(b, random(2, 5000))
}
