package segment_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/segment"
)

// TestLittleWasteIsCompactedAtRest: a segment of which a fifth is waste that could
// not be given back stays as it is at work and for the first seconds of rest; with
// all zeal it is compacted, and what is named of it stays readable.
func TestLittleWasteIsCompactedAtRest(t *testing.T) {
	f, dir := onDisk(t, segment.Options{ReclaimEvery: -1})
	k := &keeper{f: f, refs: map[uint64]backend.Ref{}}
	var gone []backend.Ref
	for i := range uint64(2500) { // too short for holes
		if ref := f.put(i, 4096); i%5 == 0 {
			gone = append(gone, ref)
		} else {
			k.refs[i] = ref
		}
	}
	f.free(gone...)
	f.reclaim()
	if err := f.c.Sync(bg(t)); err != nil {
		t.Fatal(err)
	}
	before, live := used(t, dir), int64(len(k.refs))*segment.RecordSize(4096)
	if before < live*6/5 {
		t.Fatalf("%d bytes are used for %d: holes were made, the test is not about waste", before, live)
	}
	for _, z := range []int64{segment.AtWork, segment.Idle} {
		if moved, err := f.s.CompactAs(bg(t), k, z); err != nil || len(moved) > 0 {
			t.Errorf("with zeal %d %v were compacted, %v", z, moved, err)
		}
	}
	moved, err := f.s.CompactAs(bg(t), k, segment.Thorough)
	if err != nil || len(moved) != 1 {
		t.Errorf("with all zeal %v were compacted, %v; want the one segment", moved, err)
	}
	f.reclaim()
	if err := f.c.Sync(bg(t)); err != nil {
		t.Fatal(err)
	}
	if after := used(t, dir); after > live*11/10 {
		t.Errorf("%d bytes are used for %d, before %d", after, live, before)
	}
	for _, ref := range k.refs {
		f.reads(ref)
	}
}

// TestZealOfCompaction: what is put ends the rest, and all zeal is begun again only
// after a pause, so that bursts of writes do not have the same bytes moved each time.
func TestZealOfCompaction(t *testing.T) {
	at := func(s int, puts uint64, moves bool) segment.Look {
		return segment.Look{At: time.Duration(s) * time.Second, Puts: puts, Moves: moves}
	}
	got := segment.Zeals([]segment.Look{
		at(0, 0, false), at(5, 7, false), at(10, 7, false), at(30, 7, false), // at rest from 5 on
		at(35, 7, true), at(50, 7, true), at(60, 7, false), // goes on as long as it rests
		at(65, 9, false), at(70, 9, false), at(100, 9, false), at(640, 9, false), // the next time
		at(655, 9, true), at(660, 9, false),
	})
	a, i, th := segment.AtWork, segment.Idle, segment.Thorough
	if want := []int64{i, a, i, i, th, th, th, a, i, i, i, th, th}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestIdleCompactionComesInPortions: so that it ends soon when somebody writes.
func TestIdleCompactionComesInPortions(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	k := &keeper{f: f, refs: map[uint64]backend.Ref{}}
	for i := range uint64(10) { // a segment each, mostly waste
		k.refs[i] = f.put(i, 100_000)
		f.free(f.put(100+i, 850_000))
	}
	k.refs[99] = f.put(99, 900_000)
	for _, want := range []int{8, 2} {
		moved, err := f.s.CompactAs(bg(t), k, segment.Idle)
		if err != nil || len(moved) != want {
			t.Errorf("%d segments were compacted, %v; want %d", len(moved), err, want)
		}
		f.reclaim()
	}
	for _, ref := range k.refs {
		f.reads(ref)
	}
}
