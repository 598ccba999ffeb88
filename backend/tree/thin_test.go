package tree_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend/tree"
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
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		live, err := b.store.Live(t.Context())
		must(t, err)
		if live.Bytes <= size*3/2 { // a content is written anew where two thirds or less of it are left
			break
		}
		if time.Now().After(end) {
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
