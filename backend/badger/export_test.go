package badger

import "os"

// SetFree makes the store believe that the disk has n bytes free, or has it look
// again with -1.
func SetFree(s *Store, n int64) {
	s.room.disk = diskSpace
	if n >= 0 {
		s.room.disk = func(string) (space, error) { return space{free: n, inodes: -1}, nil }
	}
}

// EncodeForTest gives the record of a value under a stored key.
func EncodeForTest(stored, value string) []byte { return encode([]byte(stored), []byte(value)) }

// FailCommits makes Badger refuse every commit, as it would after an error of
// the disk.
func FailCommits(s *Store) error { return s.db.Close() }

// FailMappings makes the mapping of a store's files fail with what fn returns,
// until it is called with nil.
func FailMappings(fn func() error) {
	if fn == nil {
		mappings.fail.Store(nil)
		return
	}
	mappings.fail.Store(&fn)
}

// Fill is what gives a new file its blocks where fallocate(2) cannot.
func Fill(f *os.File, n int64) error { return fill(int(f.Fd()), 0, n) }
