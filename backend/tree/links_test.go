package tree_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// TestNextNameIsTheFirst: when the first name of a file goes, the one that
// follows it takes its place, and the least when none follows. So names that
// are removed in order are found without passing the deleted keys of those
// before them.
func TestNextNameIsTheFirst(t *testing.T) {
	for _, dr := range drivers() {
		t.Run(dr.name, func(t *testing.T) {
			d := dr.open(t)
			tr, err := tree.Open(context.Background(), tree.Options{Store: d.store, Content: d.content})
			must(t, err)
			defer tr.Close()
			tr.SetInUse(func(backend.NodeID) bool { return true }) // it is looked at without a name, too
			info, _, err := tr.CreateVolume(context.Background(), tree.VolumeSpec{
				Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
			must(t, err)
			var ino backend.Ino
			in := func(fn func(tx *tree.Txn) error) {
				t.Helper()
				must(t, tr.With(info.ID, fn))
			}
			in(func(tx *tree.Txn) error {
				a, err := tx.Create(backend.RootIno, "c", tree.CreateSpec{Type: backend.TypeRegular})
				ino = a.Node.Ino()
				for _, name := range []string{"a", "b", "d", "e", "f"} {
					if err == nil {
						_, err = tx.Link(ino, backend.RootIno, name)
					}
				}
				return err
			})
			links := func(near string) (got []string) {
				in(func(tx *tree.Txn) error {
					return tx.EachLink(ino, tree.Link{Parent: backend.RootIno, Name: near}, func(l tree.Link) error {
						got = append(got, l.Name)
						return nil
					})
				})
				return got
			}
			for _, c := range []struct {
				remove string
				want   []string
			}{
				{"", []string{"c", "a", "b", "d", "e", "f"}},
				{"c", []string{"d", "a", "b", "e", "f"}},
				{"e", []string{"d", "a", "b", "f"}},
				{"d", []string{"f", "a", "b"}},
				{"f", []string{"a", "b"}},
				{"a", []string{"b"}},
				{"b", nil},
			} {
				if c.remove != "" {
					in(func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, c.remove) })
				}
				if got := links(""); !slices.Equal(got, c.want) {
					t.Fatalf("without %q: %v, want %v", c.remove, got, c.want)
				}
				if len(c.want) == 5 {
					if got := links("c"); fmt.Sprint(got) != "[d e f a b]" {
						t.Errorf("near c: %v", got)
					}
				}
			}
			checkTree(t, tr)
		})
	}
}
