package segment

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Stats tell how it goes, since Open.
type Stats struct {
	Segments     int    // files
	Broken       int    // missing or damaged segments
	Open         int    // open files
	Unsynced     int64  // bytes of records that are not known to be on disk
	Ballast      bool   // it is there
	Puts         uint64 // records
	PutBytes     uint64 // of content
	Rides        uint64 // records whose bytes are in the log, too
	Syncs        uint64 // of segments
	SyncFailures uint64
	Unlinked     uint64 // empty segments
	Punched      uint64 // bytes
	NoHoles      bool   // the file system cannot punch holes
}

// Stats gives the present ones.
func (c *Content) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.Segments, st.Open, st.Ballast = len(c.segs), c.open, c.ballast
	for _, s := range c.segs {
		if s.broken != nil {
			st.Broken++
		}
		for _, spans := range [][]span{s.pending, s.inflight} {
			for _, sp := range spans {
				st.Unsynced += sp.to - sp.from
			}
		}
	}
	return st
}

func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}
