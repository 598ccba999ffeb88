package feed

import (
	"context"
	"maps"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// share names what an event is counted for: the changes and the denials of an agent
// have a share each.
type share struct {
	agent  string
	denied bool
}

func (e *Event) share() share { return share{e.Agent, e.Flags&Denied != 0} }

// Trim removes events that are too old, by both clocks, or too many. Of too many events
// an agent with many loses its own oldest first. Each agent has an equal share of
// MaxEvents; what one does not use is divided among the others. A quarter is for denials.
func (f *Feed) Trim(ctx context.Context) error {
	f.trimming.Lock()
	defer f.trimming.Unlock()
	oldest := backend.TimeOf(f.opts.Clock.Before(f.opts.MaxAge))
	counts, err := f.counts(ctx, oldest)
	if err != nil {
		return err
	}
	surplus, left := surplusOf(counts, f.opts.MaxEvents), uint64(0)
	for _, n := range surplus {
		left += n
	}
	return f.remove(ctx, func(e *Event) (gone, over bool) {
		s := e.share()
		switch {
		case e.Time < oldest:
			return true, false
		case surplus[s] > 0:
			surplus[s]--
			left--
			return true, false
		}
		return false, left == 0
	})
}

// counts returns how many events of each share are not too old, or nil if there cannot
// be too many.
func (f *Feed) counts(ctx context.Context, oldest backend.Time) (map[share]uint64, error) {
	if n := f.number.Load(); n >= 0 && uint64(n) <= f.opts.MaxEvents {
		return nil, nil
	}
	out, all := map[share]uint64{}, int64(0)
	before := f.added.Load()
	err := f.store.View(ctx, func(kv backend.Tx) error {
		clear(out)
		all = 0
		return f.each(ctx, kv, key(0), func(_ uint64, b []byte) error {
			if e, err := decode(b); err == nil {
				all++
				if e.Time >= oldest {
					out[e.share()]++
				}
			}
			return nil
		})
	})
	f.number.Store(all + f.added.Load() - before)
	return out, err
}

// surplusOf returns how many events each share must lose so that at most limit are
// left. A long feed loses some more, so that it need not be counted each time.
func surplusOf(counts map[share]uint64, limit uint64) map[share]uint64 {
	out := map[share]uint64{}
	all := uint64(0)
	for _, n := range counts {
		all += n
	}
	if all <= limit {
		return out
	}
	if limit > trimBatch {
		limit -= limit / 16
	}
	denied, changes := map[share]uint64{}, map[share]uint64{}
	var denials, rest uint64
	for s, n := range counts {
		if s.denied {
			denied[s] = n
			denials += n
		} else {
			changes[s] = n
			rest += n
		}
	}
	// What one kind does not use, the other has.
	forDenials := min(denials, max(limit/4, limit-min(limit, rest)))
	fill(out, denied, forDenials)
	fill(out, changes, limit-forDenials)
	return out
}

// fill stores in out how many events each of counts has above an equal share of limit.
func fill(out, counts map[share]uint64, limit uint64) {
	left := uint64(len(counts))
	for _, n := range slices.Sorted(maps.Values(counts)) {
		most := limit / left
		if n > most {
			for s, n := range counts {
				if n > most {
					out[s] = n - most
				}
			}
			return
		}
		limit, left = limit-n, left-1
	}
}

// remove removes the events that gone is true for, from the oldest on, until over is.
func (f *Feed) remove(ctx context.Context, judge func(*Event) (gone, over bool)) error {
	for from, more := key(0), true; more; {
		var steps []step
		var err error
		if steps, from, more, err = f.plan(ctx, from, judge); err != nil {
			return err
		}
		if len(steps) == 0 {
			continue
		}
		removed := 0
		_, err = f.store.Update(ctx, func(kv backend.Tx) error {
			removed = 0
			for _, s := range steps {
				if err := s.do(kv); err != nil {
					return err
				}
				removed += s.events
			}
			return nil
		})
		if err != nil {
			return err
		}
		f.number.Add(-int64(removed))
	}
	return nil
}

// step replaces a run of records by one gap.
type step struct {
	keys   [][]byte
	gap    gap
	events int
}

func (s *step) add(k []byte, chain [chainSize]byte, count uint64) {
	s.keys = append(s.keys, slices.Clone(k))
	s.gap.chain, s.gap.count = chain, s.gap.count+count
}

func (s *step) do(kv backend.Tx) error {
	last := len(s.keys) - 1
	for _, k := range s.keys[:last] {
		if err := kv.Delete(k); err != nil {
			return err
		}
	}
	return kv.Set(s.keys[last], s.gap.encode())
}

// plan returns the steps for at most trimBatch records from a key on, and where the
// next plan begins: with the last gap, which may grow.
func (f *Feed) plan(ctx context.Context, from []byte, judge func(*Event) (gone, over bool)) (steps []step, next []byte, more bool, err error) {
	err = f.store.View(ctx, func(kv backend.Tx) error {
		var run step
		keep := func() {
			if run.events > 0 {
				steps = append(steps, run)
			}
			run = step{}
		}
		seen := 0
		err := f.each(ctx, kv, from, func(seq uint64, b []byte) error {
			k := key(seq)
			if seen++; seen > trimBatch {
				more = true
				next = k
				if len(run.keys) > 0 {
					next = run.keys[len(run.keys)-1]
				}
				return backend.ErrStop
			}
			if g, ok := decodeGap(b); ok {
				run.add(k, g.chain, g.count)
				return nil
			}
			e, err := decode(b)
			gone, over := true, false
			if err == nil {
				gone, over = judge(&e)
			}
			switch {
			case over:
				return backend.ErrStop
			case gone:
				run.add(k, e.chain, 1)
				run.events++
			default:
				keep()
			}
			return nil
		})
		keep()
		return err
	})
	return steps, next, more, err
}
