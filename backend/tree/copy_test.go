package tree_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// TestCopyBetweenVolumes: the bytes are shared, outlive the file, and the volume,
// that they came from, and are given back with the last that names them.
func TestCopyBetweenVolumes(t *testing.T) {
	for _, dr := range drivers() {
		t.Run(dr.name, func(t *testing.T) {
			d := dr.open(t)
			tr, err := tree.Open(context.Background(), tree.Options{Store: d.store, Content: d.content})
			must(t, err)
			defer tr.Close()
			a, b := newVolume(t, tr, "a"), newVolume(t, tr, "b")
			data := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
			src, dst := fileIn(t, tr, a, "f"), fileIn(t, tr, b, "g")
			writeAll(t, tr, src, data)
			writeAll(t, tr, dst, bytes.Repeat([]byte{'x'}, 100_000))

			from := source(t, tr, src)
			var done uint64
			must(t, tr.With(b, func(tx *tree.Txn) (err error) {
				done, err = tx.CopyFrom(from, 5, dst.Ino(), 50_001, uint64(len(data)))
				return err
			}))
			want := append(bytes.Repeat([]byte{'x'}, 50_001), data[5:]...)
			if done != uint64(len(data)-5) || !bytes.Equal(readAll(t, tr, dst), want) {
				t.Fatalf("%d bytes copied, or wrong ones", done)
			}
			checkTree(t, tr)

			writeAll(t, tr, src, []byte("changed"))
			err = tr.With(b, func(tx *tree.Txn) error {
				_, err := tx.CopyFrom(from, 0, dst.Ino(), 0, 10)
				return err
			})
			if backend.KindOf(err) != backend.WouldBlock {
				t.Errorf("a source that changed: %v", err)
			}

			_, err = tr.RemoveVolume(context.Background(), a)
			must(t, err)
			err = tr.With(b, func(tx *tree.Txn) error {
				_, err := tx.CopyFrom(from, 0, dst.Ino(), 0, 10)
				return err
			})
			if backend.KindOf(err) != backend.WouldBlock {
				t.Errorf("a source in a removed volume: %v", err)
			}
			checkTree(t, tr)
			if !bytes.Equal(readAll(t, tr, dst), want) {
				t.Error("what was shared went with its first volume")
			}
			must(t, tr.With(b, func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "g") }))
			checkTree(t, tr)
		})
	}
}

func newVolume(t *testing.T, tr *tree.Tree, name string) backend.VolumeID {
	t.Helper()
	info, _, err := tr.CreateVolume(context.Background(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: name}, Parent: tr.Root(), Name: name, Mode: 0o755})
	must(t, err)
	return info.ID
}

func fileIn(t *testing.T, tr *tree.Tree, v backend.VolumeID, name string) (node backend.NodeID) {
	t.Helper()
	must(t, tr.With(v, func(tx *tree.Txn) error {
		a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644})
		node = a.Node
		return err
	}))
	return node
}

func writeAll(t *testing.T, tr *tree.Tree, node backend.NodeID, data []byte) {
	t.Helper()
	for off := 0; off < len(data); {
		must(t, tr.With(node.Volume(), func(tx *tree.Txn) error {
			w, err := tx.Write(node.Ino(), data[off:], uint64(off))
			off += w.N
			return err
		}))
	}
}

func readAll(t *testing.T, tr *tree.Tree, node backend.NodeID) []byte {
	t.Helper()
	buf := make([]byte, 4<<20)
	n := 0
	must(t, tr.With(node.Volume(), func(tx *tree.Txn) (err error) {
		n, err = tx.Read(node.Ino(), buf, 0)
		return err
	}))
	return buf[:n]
}

func source(t *testing.T, tr *tree.Tree, node backend.NodeID) (s tree.Source) {
	t.Helper()
	must(t, tr.With(node.Volume(), func(tx *tree.Txn) (err error) {
		s, err = tx.Source(node.Ino())
		return err
	}))
	return s
}
