package writeback_test

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
)

// TestStatsTellOfWork: what waits, and what went to the driver and to the disk,
// with its size and time.
func TestStatsTellOfWork(t *testing.T) {
	d := newDisk()
	s := open(t, options(d, mem.New(mem.Options{})))
	defer s.Close()
	before := s.Stats().Work
	var lsn backend.LSN
	for _, key := range []string{"a", "b", "a"} {
		var err error
		if lsn, err = apply1(t.Context(), s, []edit{{key: key, value: strings.Repeat("v", 1000)}}); err != nil {
			t.Fatal(err)
		}
	}
	st := s.Stats()
	if st.Pending != 3 || st.PendingBytes < 2000 || st.OldestAge <= 0 || st.LogBytes < 3000 || st.Last != lsn || st.Durable >= lsn {
		t.Errorf("three updates wait: %+v", st)
	}
	if err := s.WaitDurable(t.Context(), lsn); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	st = s.Stats()
	if st.Pending != 0 || st.OldestAge != 0 || st.Durable < lsn || st.Committed < lsn {
		t.Errorf("all is committed: %+v", st)
	}
	w := st.Work
	if n := w.CommitTime.Count() - before.CommitTime.Count(); n != 1 || w.CommitTime.Sum <= before.CommitTime.Sum {
		t.Errorf("%d commits in %v, want one", n, w.CommitTime.Sum-before.CommitTime.Sum)
	}
	if n := w.CommitBytes - before.CommitBytes; n < 2000 || n > 2100 {
		t.Errorf("%d bytes committed, of two keys with 1,000 each", n)
	}
	if n := w.SyncTime.Count() - before.SyncTime.Count(); n != 1 {
		t.Errorf("%d syncs of the log, want one", n)
	}
}
