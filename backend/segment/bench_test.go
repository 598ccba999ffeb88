package segment_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/segment"
)

// BenchmarkGet reads parts of Refs of 1 MiB from the page cache.
func BenchmarkGet(b *testing.B) {
	f, _ := onDisk(b, segment.Options{ReclaimEvery: -1})
	var refs []backend.Ref
	for id := range uint64(64) {
		refs = append(refs, f.put(id+1, 1<<20))
	}
	for _, n := range []int{4 << 10, 128 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			p := make([]byte, n)
			b.SetBytes(int64(n))
			_ = f.s.View(bg(b), func(tx backend.Tx) error {
				for b.Loop() {
					off := rand.IntN((1<<20-n)/4096+1) * 4096
					if err := f.c.Get(tx, refs[rand.IntN(len(refs))], uint32(off), p); err != nil {
						b.Fatal(err)
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkPut puts and frees, without syncs.
func BenchmarkPut(b *testing.B) {
	for _, n := range []int{3 << 10, 128 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			f, _ := onDisk(b, segment.Options{})
			data := bytesOf(1, n)
			b.SetBytes(int64(n))
			id := uint64(0)
			for b.Loop() {
				id++
				_, err := f.s.Update(b.Context(), func(tx backend.Tx) error {
					ref, err := f.c.Put(tx, id, data)
					if err != nil {
						return err
					}
					return f.c.Free(tx, ref)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
