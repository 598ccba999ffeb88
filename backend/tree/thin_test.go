package tree_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestWhatIsLeftOfContentsIsThinned: where writes of many sizes overwrite each
// other, what the segments hold is at most half as much again as the file, though
// contents are given back whole.
func TestWhatIsLeftOfContentsIsThinned(t *testing.T) {
	b := newBulk(t)
	r := rand.New(rand.NewPCG(2, 2))
	const size, pageSize = 6 << 20, 4096
	want := noise(r, size)
	for at := 0; at < size; at += 1 << 20 {
		b.write(want[at:at+1<<20], uint64(at))
	}
	for range 3000 {
		n := pageSize
		if r.IntN(20) == 0 {
			n *= 64
		}
		at, data := r.IntN((size-n)/pageSize+1)*pageSize, noise(r, n)
		copy(want[at:], data)
		b.write(data, uint64(at))
	}
	for end := waits.In(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		live, err := b.store.Live(t.Context())
		must(t, err)
		if live.Bytes <= size*3/2 { // a content is written anew where two thirds or less of it are left
			break
		}
		if end.Passed() {
			t.Fatalf("%d bytes are held for %d", live.Bytes, size)
		}
		// Looks come with writes.
		at, data := r.IntN(size/pageSize)*pageSize, noise(r, pageSize)
		copy(want[at:], data)
		b.write(data, uint64(at))
	}
	b.expect(0, want)
	checkTree(t, b.tr)
	b.reopen()
	b.expect(0, want)
}

// TestSharedContentsAreNotThinned: what a copy names stays as it is, and right.
func TestSharedContentsAreNotThinned(t *testing.T) {
	b := newBulk(t)
	r := rand.New(rand.NewPCG(3, 3))
	const size, pageSize = 1 << 20, 4096
	want := noise(r, size)
	b.write(want, 0)
	copied := b.create("copy")
	b.do(func(tx *tree.Txn) error { return second(tx.CopyRange(b.ino, 0, copied, 0, size)) })
	shared := append([]byte(nil), want...)
	for range 600 {
		at, data := r.IntN(size/pageSize)*pageSize, noise(r, pageSize)
		copy(want[at:], data)
		b.write(data, uint64(at))
	}
	b.expect(0, want)
	b.ino = copied
	b.expect(0, shared)
	checkTree(t, b.tr)
}

// TestPartsAreThinnedAtRest: of contents of which a fifth was overwritten, too
// little for that to be done at once, the rest is written anew when nothing changes
// for a while; so is what a truncate left of short ones.
func TestPartsAreThinnedAtRest(t *testing.T) {
	b := newBulk(t)
	must(t, b.close())
	b.rest = 300 * time.Millisecond
	b.open()
	r := rand.New(rand.NewPCG(4, 4))
	const size, big, pageSize, short, shorts = 24 << 20, 64 << 10, 4096, 3000, 500
	want := noise(r, size)
	for at := 0; at < size; at += big {
		b.write(want[at:at+big], uint64(at))
	}
	for at := 0; at < size; at += big {
		for _, page := range r.Perm(big / pageSize)[:3] {
			at, data := at+page*pageSize, noise(r, pageSize)
			copy(want[at:], data)
			b.write(data, uint64(at))
		}
	}
	thinned := func(what string, most int64) {
		t.Helper()
		for end := waits.In(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			held, err := b.store.Live(t.Context())
			must(t, err)
			if held.Bytes <= most {
				return
			}
			if end.Passed() {
				t.Fatalf("%s: %d bytes are held, want at most %d", what, held.Bytes, most)
			}
		}
	}
	thinned("at rest", size*108/100) // on a busy machine the pass may have begun before the last writes
	for i := range shorts {
		ino, n := b.create(fmt.Sprint("short", i)), uint64(short)
		b.do(func(tx *tree.Txn) error {
			return errors.Join(second(tx.Write(ino, want[:2*short], 0)), second(tx.Setattr(ino, backend.SetAttr{Size: &n})))
		})
	}
	b.tr.ThinNow(t.Context())
	thinned("short ones", (size+shorts*short)*103/100)
	check := func() {
		t.Helper()
		b.expect(0, want)
		checkTree(t, b.tr)
	}
	check()
	b.reopen()
	check()
	b.do(func(tx *tree.Txn) error {
		n, _, err := tx.Lookup(backend.RootIno, "short7")
		b.ino = n.Ino()
		return err
	})
	b.expect(0, want[:short])
}
