package tree

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/warrenfs/warren/backend"
)

const (
	// relocateStep is how many extents are looked at in one View.
	relocateStep = 4096
	// relocateMax is how many contents one Relocate moves at most: it bounds the
	// memory that it takes, about 150 bytes each.
	relocateMax = 200_000
	// relocateKeys bounds the extents that one Update changes.
	relocateKeys = 2000
)

// moving is a content to be moved, and the extents that name it.
type moving struct {
	ref   backend.Ref
	keys  [][]byte
	named uint64 // bytes of it, by all of them
}

// Relocate goes through all extents of all volumes. Each content that is in one
// of the given segments is moved by move, once and in one Update with all the
// extents that name it, which name what move gives from then on. Content that
// cannot be read stays, as does content whose extents change meanwhile and what
// is more than one call can do. It takes at most half of the time, and no lock
// but the store's own. Errors: Interrupted; those of the store.
func (t *Tree) Relocate(ctx context.Context, segments []uint64, move func(kv backend.Tx, old backend.Ref) (backend.Ref, error)) error {
	all, err := t.findContent(ctx, segments)
	if err != nil {
		return err
	}
	t.noteFrayed(all)
	for len(all) > 0 {
		n, bytes, keys := 0, 0, 0
		for n < len(all) && (n == 0 || bytes+int(all[n].ref.Length) <= backend.MaxPutBytes && keys+len(all[n].keys) <= relocateKeys) {
			bytes += int(all[n].ref.Length)
			keys += len(all[n].keys)
			n++
		}
		began := time.Now()
		if err := t.moveBatch(ctx, all[:n], move); err != nil {
			return err
		}
		all = all[n:]
		if err := rest(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// rest waits for d.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return &backend.Error{Op: "relocate", Kind: backend.Interrupted, Err: ctx.Err()}
	}
}

// findContent lists the contents in the given segments, as they lie there.
func (t *Tree) findContent(ctx context.Context, segments []uint64) ([]moving, error) {
	at := map[uint64]int{} // content id -> place in found
	var found []moving
	for from := []byte{famExtent}; from != nil; {
		began := time.Now()
		next := []byte(nil)
		seen := 0
		err := t.store.View(ctx, func(kv backend.Tx) error {
			return kv.Scan(from, []byte{famExtent + 1}, func(key, b []byte) error {
				if seen == relocateStep {
					next = slices.Clone(key)
					return backend.ErrStop
				}
				seen++
				e, err := decodeExtentKey(key, b)
				if err != nil || e.inline != nil || !slices.Contains(segments, e.ref.Segment) {
					return nil // a damaged one is fsck's
				}
				i, known := at[e.ref.ID]
				if !known {
					if len(found) == relocateMax {
						return nil
					}
					i = len(found)
					at[e.ref.ID] = i
					found = append(found, moving{ref: e.ref})
				}
				found[i].keys = append(found[i].keys, slices.Clone(key))
				found[i].named += e.length()
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
		if from = next; from != nil {
			if err := rest(ctx, time.Since(began)); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(found, func(a, b moving) int {
		if a.ref.Segment != b.ref.Segment {
			return int(min(max(int64(a.ref.Segment-b.ref.Segment), -1), 1))
		}
		return int(min(max(int64(a.ref.Offset)-int64(b.ref.Offset), -1), 1))
	})
	return found, nil
}

// decodeExtentKey is decodeExtent of a stored key and value.
func decodeExtentKey(key, b []byte) (extent, error) {
	if len(key) != 21 {
		return extent{}, backend.IO
	}
	return decodeExtent(volumeOf(key), inoOf(key), endOf(key), b)
}

// moveBatch moves contents in one Update, or one by one where that fails.
func (t *Tree) moveBatch(ctx context.Context, batch []moving, move func(backend.Tx, backend.Ref) (backend.Ref, error)) error {
	lsn, err := t.store.Update(ctx, func(kv backend.Tx) error {
		for i := range batch {
			if err := moveOne(kv, &batch[i], move); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil:
		t.advance(lsn)
		t.todo.own.Store(uint64(lsn))
		return nil
	case !errors.Is(err, backend.IO) && !errors.Is(err, backend.TooBig):
		return err
	case len(batch) == 1:
		t.log.Error("content cannot be moved and stays", slog.Any("err", err))
		return nil
	}
	for i := range batch {
		if err := t.moveBatch(ctx, batch[i:i+1], move); err != nil {
			return err
		}
	}
	return nil
}

// moveOne moves one content, unless other extents than the known ones name it now.
func moveOne(kv backend.Tx, m *moving, move func(backend.Tx, backend.Ref) (backend.Ref, error)) error {
	var keys [][]byte
	var naming []extent
	for _, key := range m.keys {
		b, err := kv.Get(key)
		if errors.Is(err, backend.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		e, err := decodeExtentKey(key, b)
		if err != nil {
			return err
		}
		if e.inline == nil && e.ref == m.ref {
			keys, naming = append(keys, key), append(naming, e)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	n, err := sharers(kv, m.ref.ID)
	if err != nil || n != len(keys) {
		return err
	}
	ref, err := move(kv, m.ref)
	if err != nil {
		return err
	}
	for i := range naming {
		naming[i].ref = ref
		if err := kv.Set(keys[i], naming[i].encode(nil)); err != nil {
			return err
		}
	}
	return nil
}

// sharers is how many extents name content id, if any does.
func sharers(kv backend.Tx, id uint64) (int, error) {
	b, err := kv.Get(sharedKey(id))
	if errors.Is(err, backend.NotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	d := decoder{b: b}
	n := int(d.u())
	return n, d.done("content count", 0, 0)
}
