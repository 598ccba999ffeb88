package segment

import (
	"context"

	"github.com/warrenfs/warren/backend"
)

// Live is what of the segments is named.
type Live struct {
	Segments int    // that have records, or had
	Records  uint64 // that are named
	Bytes    int64  // of these records, with their headers
	// Dead are the bytes between that are not named any more, whether or not
	// their room was given back to the disk already.
	Dead int64
}

// Live adds up the counts of all segments: one key each. Errors: IO for a
// damaged one, those of the store.
func (s *Store) Live(ctx context.Context) (Live, error) {
	var l Live
	err := s.below.View(ctx, func(tx backend.Tx) error {
		l = Live{}
		return tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
			number, ok := countsSegment(k)
			if !ok {
				return errValue
			}
			n, err := decodeCounts(number, v)
			if err != nil {
				return err
			}
			l.Segments++
			l.Records += n.refs
			l.Bytes += n.live
			l.Dead += max(n.end-fileHead-n.live, 0)
			return nil
		})
	})
	return l, err
}
