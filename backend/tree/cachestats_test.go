package tree_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// waitKeysGone waits until nothing of a removed volume is left in the store.
func waitKeysGone(t *testing.T, s backend.Store, id backend.VolumeID) {
	t.Helper()
	of := binary.BigEndian.AppendUint32(nil, uint32(id))
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		left := 0
		must(t, s.View(t.Context(), func(tx backend.Tx) error {
			return tx.ScanKeys(nil, []byte{0xff}, func(k []byte) error {
				if len(k) >= 5 && bytes.Equal(k[1:5], of) {
					left++
				}
				return nil
			})
		}))
		if left == 0 {
			return
		}
		if end.Passed() {
			t.Fatalf("%d keys of a removed volume are left", left)
		}
	}
}

// TestCacheStats: what was had and what was read counts, by whom it was asked
// does not, and nothing is lost when a volume goes.
func TestCacheStats(t *testing.T) {
	dr := openMem(t)
	tr, err := tree.Open(t.Context(), tree.Options{Store: dr.store, Content: dr.content, CacheInodes: 200})
	must(t, err)
	defer tr.Close()
	info, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
	must(t, err)
	const files = 600 // more than are prefetched, and than are kept
	for i := range files {
		must(t, tr.With(info.ID, func(tx *tree.Txn) error {
			_, err := tx.Create(backend.RootIno, fmt.Sprint(i), tree.CreateSpec{Type: backend.TypeRegular})
			return err
		}))
	}
	look := func(name string) {
		must(t, tr.With(info.ID, func(tx *tree.Txn) error {
			node, _, err := tx.Lookup(backend.RootIno, name)
			if err == nil {
				_, err = tx.Attr(node.Ino())
			}
			return err
		}))
	}
	before := tr.CacheStats()
	for i := range files {
		look(fmt.Sprint(i))
	}
	swept := tr.CacheStats()
	if swept.InodeMisses < before.InodeMisses+files/2 {
		t.Errorf("%d inodes, of which 50 are kept, were looked up: %+v, then %+v", files, before, swept)
	}
	look(fmt.Sprint(files - 1))
	look(fmt.Sprint(files - 1))
	again := tr.CacheStats()
	if again.InodeMisses != swept.InodeMisses || again.NameMisses != swept.NameMisses {
		t.Errorf("what was just looked up is not cached: %+v, then %+v", swept, again)
	}
	if again.InodeHits <= swept.InodeHits || again.NameHits < swept.NameHits+2 {
		t.Errorf("hits do not count: %+v, then %+v", swept, again)
	}
	if again.Limit != 200 || again.Weight <= 0 {
		t.Errorf("weight %d of %d", again.Weight, again.Limit)
	}
	_, err = tr.RemoveVolume(t.Context(), info.ID)
	must(t, err)
	waitKeysGone(t, dr.store, info.ID)
	gone := tr.CacheStats()
	if gone.InodeMisses < again.InodeMisses || gone.InodeHits < again.InodeHits || gone.NameHits < again.NameHits || gone.NameMisses < again.NameMisses {
		t.Errorf("with the volume went its counts: %+v, then %+v", again, gone)
	}
}
