package tree

import "context"

// ThinNow makes a pass over frayed files at once, however little they lost.
func (t *Tree) ThinNow(ctx context.Context) {
	p := &thinning{nodes: t.todo.frays.take(), open: map[uint64]named{}}
	for ctx.Err() == nil && t.todo.thinStep(ctx, p) {
	}
}
