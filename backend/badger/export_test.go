package badger

// SetReserve changes Options.Reserve of an open store.
func SetReserve(s *Store, n int64) { s.reserve = n }

// EncodeForTest gives the record of a value under a stored key.
func EncodeForTest(stored, value string) []byte { return encode([]byte(stored), []byte(value)) }

// FailCommits makes Badger refuse every commit, as it would after an error of
// the disk.
func FailCommits(s *Store) error { return s.db.Close() }
