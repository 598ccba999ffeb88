package tree_test

import (
	"fmt"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
)

func benchTree(b *testing.B) (*tree.Tree, backend.VolumeID) {
	tr, err := tree.Open(b.Context(), tree.Options{Store: mem.New(mem.Options{}), Content: mem.Content{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { tr.Close() })
	info, _, err := tr.CreateVolume(b.Context(), tree.VolumeSpec{Parent: tr.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		b.Fatal(err)
	}
	return tr, info.ID
}

func BenchmarkLookupWarm(b *testing.B) {
	tr, vol := benchTree(b)
	err := tr.With(vol, func(tx *tree.Txn) error {
		return second(tx.Create(backend.RootIno, "f", tree.CreateSpec{Type: backend.TypeRegular}))
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		err := tr.With(vol, func(tx *tree.Txn) error {
			n, _, err := tx.Lookup(backend.RootIno, "f")
			if err == nil {
				_, err = tx.Attr(n.Ino())
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateWrite(b *testing.B) {
	tr, vol := benchTree(b)
	data := make([]byte, 1000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		err := tr.With(vol, func(tx *tree.Txn) error {
			a, err := tx.Create(backend.RootIno, fmt.Sprint("f", i), tree.CreateSpec{Type: backend.TypeRegular})
			if err == nil {
				_, err = tx.Write(a.Node.Ino(), data, 0)
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
