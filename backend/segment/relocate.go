package segment

import (
	"context"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// Relocator is who keeps the Refs: the tree.
type Relocator interface {
	// Relocate goes through all Refs. For each whose Segment is in segments it
	// calls move once inside an Update of the bound store, and in the same
	// Update writes the Ref that move gives in all places that had the old
	// one, which is no longer to be freed. What is moved in one Update keeps
	// within its limits. An Update whose move fails with IO is given up and
	// the rest goes on.
	Relocate(ctx context.Context, segments []uint64, move Move) error
}

// Move copies old's bytes elsewhere and frees old, as part of tx. The new Ref
// has the same ID, Length and CRC. Errors as Get and Put.
type Move func(tx backend.Tx, old backend.Ref) (backend.Ref, error)

// Compact has r move what is left in segments of which less than half is
// named; the reclaimer then removes them. It gives the segments it was about.
func (s *Store) Compact(ctx context.Context, r Relocator) ([]uint64, error) {
	sparse, err := s.sparse(ctx)
	if err != nil || len(sparse) == 0 {
		return nil, err
	}
	return sparse, r.Relocate(ctx, sparse, s.move)
}

// sparse gives the sealed, whole segments of which less than half is named.
func (s *Store) sparse(ctx context.Context) ([]uint64, error) {
	sealed, _, _ := s.c.sealed()
	var sparse []uint64
	err := s.below.View(ctx, func(tx backend.Tx) error {
		sparse = sparse[:0]
		return tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
			number, ok := countsSegment(k)
			if !ok {
				return errValue
			}
			n, err := decodeCounts(number, v)
			if err == nil && sealed[number] && n.refs > 0 && 2*n.live < n.end-fileHead {
				sparse = append(sparse, number)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return slices.DeleteFunc(sparse, func(n uint64) bool { f := s.c.segs[n]; return f == nil || f.broken != nil }), nil
}

func (s *Store) move(tx backend.Tx, old backend.Ref) (backend.Ref, error) {
	buf := scratch(int64(old.Length))
	defer buffers.Put(buf)
	if err := s.c.Get(tx, old, 0, *buf); err != nil {
		return backend.Ref{}, err
	}
	if checksum(*buf) != old.CRC {
		return backend.Ref{}, fail("move", old, backend.IO, errChecksum)
	}
	ref, err := s.c.Put(tx, old.ID, *buf)
	if err != nil {
		return backend.Ref{}, err
	}
	return ref, s.c.Free(tx, old)
}
