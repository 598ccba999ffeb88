package segment_test

import (
	"testing"

	"github.com/warrenfs/warren/backend/segment"
)

// TestLive: what is named is live, what was freed is dead, until its segment
// is gone.
func TestLive(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1 << 20})
	live := func() segment.Live {
		t.Helper()
		l, err := f.s.Live(bg(t))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := live(); l != (segment.Live{}) {
		t.Errorf("of nothing: %+v", l)
	}
	a, b := f.put(1, 100_000), f.put(2, 50_000)
	both := live()
	if both.Segments != 1 || both.Records != 2 || both.Bytes < 150_000 || both.Bytes > 160_000 || both.Dead != 0 {
		t.Errorf("two records: %+v", both)
	}
	f.free(a)
	if l := live(); l.Records != 1 || l.Bytes > 55_000 || l.Dead < 100_000 || l.Bytes+l.Dead != both.Bytes {
		t.Errorf("one of two freed: %+v after %+v", l, both)
	}
	f.free(b)
	if l := live(); l.Records != 0 || l.Bytes != 0 || l.Dead != both.Bytes {
		t.Errorf("both freed: %+v", l)
	}
}
