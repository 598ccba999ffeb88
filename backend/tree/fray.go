package tree

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
)

const (
	// maxFrayed bounds the files that wait to be looked at; more are forgotten.
	maxFrayed = 1 << 14
	// frayedMin is how many bytes must have been taken of contents, of which a part
	// is left, before files are looked at, and frayedShare which share of all bytes.
	frayedMin, frayedShare = 4 << 20, 32
	// frayedStep is how many extents are looked at in one View.
	frayedStep = 1024
)

// frayed is the files that name parts of contents, and not the rest.
type frayed struct {
	lost atomic.Uint64 // bytes of the rest, at most, since the last pass
	turn atomic.Uint32 // one more with each pass

	mu    sync.Mutex
	nodes map[backend.NodeID]struct{} // guarded by mu
}

// fray notes that n names lost bytes less of contents of which it names a part.
func (tx *Txn) fray(n *inode, lost uint64) {
	f := &tx.t.todo.frays
	if turn := f.turn.Load(); n.frayed != turn {
		n.frayed = turn
		f.add(tx.node(n.ino))
	}
	tx.t.todo.lose(lost)
}

func (f *frayed) add(n backend.NodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[backend.NodeID]struct{}{}
	}
	if len(f.nodes) < maxFrayed {
		f.nodes[n] = struct{}{}
	}
}

// take gives the files of a pass, and ends the turn.
func (f *frayed) take() []backend.NodeID {
	f.turn.Add(1) // first: who is noted in the old turn after this was in nodes before
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes := slices.Sorted(maps.Keys(f.nodes))
	f.nodes = nil
	f.lost.Store(0)
	return nodes
}

// lose counts lost bytes, and wakes the reclaimer where a pass may be due.
func (r *reclaimer) lose(lost uint64) {
	if sum := r.frays.lost.Add(lost); sum/frayedMin != (sum-lost)/frayedMin {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// noteFrayed notes the files of contents of which little enough is named. An
// earlier life may have left them.
func (t *Tree) noteFrayed(all []moving) {
	for i := range all {
		m := &all[i]
		if length := uint64(m.ref.Length); 24*m.named <= thinAtRest*length {
			t.todo.frays.add(backend.Node(volumeOf(m.keys[0]), inoOf(m.keys[0])))
			t.todo.lose(length - m.named)
		}
	}
}

// thinning is a pass over frayed files, or the wait for one. Only the reclaimer
// uses it.
type thinning struct {
	seen   uint64    // LSN of the last change, when it was looked at last
	next   time.Time // when it goes on, if nothing changes until then; zero: nothing to do
	looked uint64    // lost/frayedMin when that was found to be too little

	under bool             // there is a pass
	nodes []backend.NodeID // that are not through
	at    uint64           // how far the first of them is
	open  map[uint64]named // contents by number, of which more may follow
	thin  []nodeRun        // contents to be written anew
}

// named is how much of a content was found to be named so far.
type named struct {
	span
	bytes uint64
}

// wait is how long the reclaimer may sleep at most; nil: for ever.
func (p *thinning) wait() <-chan time.Time {
	if p.next.IsZero() {
		return nil
	}
	return time.After(time.Until(p.next))
}

// rested tells whether nothing was changed for a while but by the tree itself.
func (p *thinning) rested(r *reclaimer) bool {
	now, last := time.Now(), r.t.last.Load()
	if p.next.IsZero() || last != p.seen && last != r.own.Load() {
		p.next = now.Add(r.rest)
	}
	p.seen = last
	return !now.Before(p.next)
}

// thinNext does the next step of a pass, if one is due. It is false when there is
// nothing to do for now.
func (r *reclaimer) thinNext(ctx context.Context) bool {
	p := &r.thins
	lost := r.frays.lost.Load()
	if !p.under && lost/frayedMin == p.looked {
		p.next = time.Time{}
		return false
	}
	if !p.rested(r) {
		return false
	}
	if !p.under {
		if p.looked = lost / frayedMin; lost < r.t.bytes()/frayedShare {
			p.next = time.Time{}
			return false
		}
		*p = thinning{seen: p.seen, next: p.next, under: true, nodes: r.frays.take(), open: map[uint64]named{}}
	}
	if !r.thinStep(ctx, p) {
		*p = thinning{}
	}
	return true
}

// thinStep writes a content anew, or looks for more, and rests as long as that
// took. It is false when p is through.
func (r *reclaimer) thinStep(ctx context.Context, p *thinning) bool {
	switch {
	case len(p.thin) > 0:
		left := p.thin[0]
		p.thin = p.thin[1:]
		r.rewrite(ctx, left.node, func(tx *Txn) error { return tx.thin(left.node.Ino(), left.remains, thinAtRest) })
	case len(p.nodes) > 0:
		began := time.Now()
		r.t.lookFrayed(p)
		_ = rest(ctx, time.Since(began)) // the caller looks at ctx
	default:
		return false
	}
	return true
}

// bytes is how many bytes of content all volumes have.
func (t *Tree) bytes() (n uint64) {
	for _, v := range t.snapshotVolumes() {
		v.mu.Lock()
		n += v.use.bytes
		v.mu.Unlock()
	}
	return n
}

// lookFrayed looks at some extents of the pass's first file, from where it is, and
// leaves in thin what is to be written anew. What it finds may change meanwhile:
// thin looks again.
func (t *Tree) lookFrayed(p *thinning) {
	node, seen, more := p.nodes[0], 0, false
	err := t.store.View(bg, func(kv backend.Tx) error {
		return scanExtents(kv, node.Volume(), node.Ino(), p.at, math.MaxUint64, func(e *extent) error {
			if more = seen == frayedStep; more {
				return backend.ErrStop
			}
			seen++
			p.at = e.end
			if e.inline == nil && e.length() < uint64(e.ref.Length) && uint64(e.off) <= e.start {
				from := e.start - uint64(e.off)
				p.open[e.ref.ID] = named{span{from, from + uint64(e.ref.Length)}, p.open[e.ref.ID].bytes + e.length()}
			}
			return nil
		})
	})
	more = more && err == nil // what is damaged is fsck's
	for id, c := range p.open {
		if more && c.to > p.at {
			continue
		}
		delete(p.open, id)
		if 24*c.bytes <= thinAtRest*(c.to-c.from) {
			p.thin = append(p.thin, nodeRun{node, remains{span: c.span, id: id}})
		}
	}
	slices.SortFunc(p.thin, func(a, b nodeRun) int { return cmp.Compare(a.from, b.from) })
	if !more {
		p.nodes, p.at = p.nodes[1:], 0
	}
}
