package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// ThinNow makes a pass over frayed files at once, however little they lost.
func (t *Tree) ThinNow(ctx context.Context) {
	p := &thinning{nodes: t.todo.frays.take(), open: map[uint64]named{}}
	for ctx.Err() == nil && t.todo.thinStep(ctx, p) {
	}
}

// CheckEnds compares the ends that are kept of files with those in the store, and
// tells how many files that was.
func (t *Tree) CheckEnds() (files int, err error) {
	for id, v := range t.snapshotVolumes() {
		v.mu.Lock()
		for _, n := range v.inodes {
			if !n.ends.known {
				continue
			}
			files++
			kept := n.ends.list
			err = errors.Join(err, t.store.View(bg, func(kv backend.Tx) error {
				other := inode{ino: n.ino}
				v.learnEnds(kv, &other)
				if other.ends.known && !slices.Equal(kept, other.ends.list) {
					return fmt.Errorf("%v: ends %v, kept %v", backend.Node(id, n.ino), other.ends.list, kept)
				}
				return nil
			}))
		}
		v.mu.Unlock()
	}
	return files, err
}
