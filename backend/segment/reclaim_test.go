package segment_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// onDisk is a fixture over a directory of the operating system.
func onDisk(t testing.TB, o segment.Options) (*fixture, string) {
	dir := t.TempDir()
	fs, err := dirfs.Open(filepath.Join(dir, "segments"))
	if err != nil {
		t.Fatal(err)
	}
	o.FS, o.Reserve = fs, -1
	f := &fixture{t: t, below: mem.New(mem.Options{}), opts: o}
	c, err := segment.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	f.c = c
	if f.s, err = c.Bind(bg(t), f.below); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.s.Close() })
	return f, filepath.Join(dir, "segments")
}

// used is the bytes that dir's files take on the disk.
func used(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, e.Name()), &st); err == nil {
			n += st.Blocks * 512
		}
	}
	return n
}

// TestSpaceComesBack: without being asked, the reclaimer gives back the space
// of freed records, inside a segment and with one.
func TestSpaceComesBack(t *testing.T) {
	f, dir := onDisk(t, segment.Options{SegmentSize: 8 << 20, ReclaimEvery: time.Millisecond})
	var odd, even []backend.Ref
	for i := range uint64(40) {
		ref := f.put(i+1, 400_000)
		if i%2 == 0 {
			even = append(even, ref)
		} else {
			odd = append(odd, ref)
		}
	}
	if err := f.c.Sync(bg(t)); err != nil {
		t.Fatal(err)
	}
	full := used(t, dir)
	until := func(what string, most int64) {
		t.Helper()
		for end := waits.In(time.Minute); used(t, dir) > most; time.Sleep(5 * time.Millisecond) {
			if end.Passed() {
				t.Fatalf("%s: %d of %d bytes are still used", what, used(t, dir), full)
			}
		}
	}
	f.free(odd...)
	until("half is freed", full*11/20)
	f.reads(even...)
	f.free(even...)
	until("all is freed", full/100)
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("%d segments are left, want the current one", len(entries))
	}
}

// TestReadersKeepWhatTheySee: a View that began before a Free reads the bytes
// until it ends, and the reclaimer waits for it.
func TestReadersKeepWhatTheySee(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	first := f.put(1, 800_000)
	small := f.put(2, 100_000)
	last := f.put(3, 800_000) // seals the first segment
	done := make(chan error, 1)
	var ended atomic.Bool
	err := f.s.View(bg(t), func(tx backend.Tx) error {
		f.free(first, small)
		go func() {
			_, err := f.s.Reclaim(bg(t))
			if !ended.Load() {
				err = errors.New("the reclaimer did not wait for a View")
			}
			done <- err
		}()
		for range 20 {
			time.Sleep(time.Millisecond)
			p := make([]byte, first.Length)
			if err := f.c.Get(tx, first, 0, p); err != nil {
				return err
			}
		}
		f.isIO("a freed ref, in a later View", first)
		ended.Store(true)
		return nil
	})
	if err != nil {
		t.Errorf("Get in a View that began before the Free: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := f.c.Stats().Segments; n != 1 {
		t.Errorf("%d segments, want 1", n)
	}
	f.isIO("a ref of a removed segment", first)
	f.reads(last)
}

// TestNothingGoesBeforeItIsSettled: the reclaimer asks whether recovery may
// still need the bytes.
func TestNothingGoesBeforeItIsSettled(t *testing.T) {
	notYet := errors.New("not yet")
	settled := notYet
	var asked backend.LSN
	f := newFixture(t, segment.Options{SegmentSize: 1, Settled: func(_ context.Context, lsn backend.LSN) error {
		asked = lsn
		return settled
	}})
	a, _, _ := f.put(1, 100_000), f.put(2, 900_000), f.put(3, 900_000)
	f.free(a)
	freed := f.below.LastLSN()
	if _, err := f.s.Reclaim(bg(t)); !errors.Is(err, notYet) {
		t.Errorf("Reclaim: %v, want what Settled said", err)
	}
	if asked < freed {
		t.Errorf("Settled was asked for LSN %d, and %d freed", asked, freed)
	}
	if st := f.c.Stats(); st.Punched != 0 || st.Unlinked != 0 {
		t.Errorf("space was given back: %+v", st)
	}
	settled = nil
	if did := f.reclaim(); did.Records != 1 || did.Punched == 0 {
		t.Errorf("Reclaim: %+v, want one record", did)
	}
	if did := f.reclaim(); did != (segment.Reclaimed{}) {
		t.Errorf("a second Reclaim: %+v, want nothing", did)
	}
}

// TestAPutHoldsItsSegment: a segment is not removed while an Update that put
// into it has not ended, even if its counts say that it is empty.
func TestAPutHoldsItsSegment(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	gone := f.put(1, 300_000)
	f.free(gone)
	var ref, next backend.Ref
	done := make(chan error, 1)
	_, err := f.s.Update(bg(t), func(tx backend.Tx) (err error) {
		if ref, err = f.c.Put(tx, 2, bytesOf(2, 5000)); err != nil {
			return err
		}
		if next, err = f.c.Put(tx, 3, bytesOf(3, 1<<20)); err != nil {
			return err
		}
		if next.Segment == ref.Segment {
			t.Error("the segment was not full")
		}
		go func() { _, err := f.s.Reclaim(bg(t)); done <- err }()
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	f.reads(ref, next)
	f.reopen()
	f.reads(ref, next)
}

// TestReclaimMeetsTheLatest: what begins between the reclaimer's first wait and
// its look at the store is safe too: a View, and a new current segment.
func TestReclaimMeetsTheLatest(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	old := f.put(1, 900_000)
	f.free(f.put(2, 900_000)) // something to do, in the second segment
	began, freed, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		<-began
		done <- f.s.View(bg(t), func(tx backend.Tx) error {
			began <- struct{}{}
			<-freed
			time.Sleep(20 * time.Millisecond)
			p := make([]byte, old.Length)
			return f.c.Get(tx, old, 0, p)
		})
	}()
	first := true
	f.below.SetHook(func(p mem.Point, _ uint64) error {
		if p != mem.BeforeView || !first {
			return nil
		}
		first = false
		began <- struct{}{}
		<-began
		f.free(old, f.put(3, 900_000))
		close(freed)
		return nil
	})
	did := f.reclaim()
	if err := <-done; err != nil {
		t.Errorf("a View that began before the Free: %v", err)
	}
	if did.Segments != 1 || did.Records != 2 {
		t.Errorf("Reclaim: %+v, want the sealed segment gone and two records", did)
	}
	ref := f.put(4, 5000)
	f.reads(ref)
	f.reopen()
	f.reads(ref)
}

// TestCurrentSegmentStays: it is emptied, not removed, while records go to it.
func TestCurrentSegmentStays(t *testing.T) {
	f := newFixture(t, segment.Options{})
	f.free(f.put(1, 50_000))
	if did := f.reclaim(); did.Segments != 0 || did.Records != 1 {
		t.Errorf("Reclaim: %+v", did)
	}
	f.reads(f.put(2, 5000))
}

// TestCompact: what is left of sparse segments is moved, and they go.
func TestCompact(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	k := &keeper{f: f, refs: map[uint64]backend.Ref{}}
	for i := range uint64(12) {
		k.refs[i] = f.put(i, 300_000) // three to a segment
	}
	for i := range uint64(9) {
		if i%3 != 1 {
			f.free(k.refs[i])
			delete(k.refs, i)
		}
	}
	f.reclaim()
	moved, err := f.s.Compact(bg(t), k)
	if err != nil || len(moved) != 3 {
		t.Fatalf("Compact: %v, %v, want 3 segments", moved, err)
	}
	for _, ref := range k.refs {
		f.reads(ref)
	}
	if did := f.reclaim(); did.Segments != 3 {
		t.Errorf("Reclaim: %+v, want the 3 segments gone", did)
	}
	f.reopen()
	for _, ref := range k.refs {
		f.reads(ref)
	}
}

// keeper is what a tree is to Compact.
type keeper struct {
	f    *fixture
	refs map[uint64]backend.Ref
}

var _ segment.Relocator = (*keeper)(nil)

func (k *keeper) Relocate(ctx context.Context, segments []uint64, move segment.Move) error {
	in := map[uint64]bool{}
	for _, s := range segments {
		in[s] = true
	}
	for id, old := range k.refs {
		if !in[old.Segment] {
			continue
		}
		_, err := k.f.s.Update(ctx, func(tx backend.Tx) (err error) {
			k.refs[id], err = move(tx, old)
			return err
		})
		if err != nil {
			return err
		}
		if n := k.refs[id]; n.ID != old.ID || n.CRC != old.CRC || n.Segment == old.Segment {
			k.f.t.Errorf("%+v was moved to %+v", old, n)
		}
	}
	return nil
}

// TestMarksOutliveAFileThatDoesNotOpen: where there is no descriptor for a segment,
// its freed records are given back later, and stay marked until then.
func TestMarksOutliveAFileThatDoesNotOpen(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1, MaxOpen: -1})
	gone, kept := f.put(1, 300_000), f.put(2, 300_000)
	f.put(3, 900_000) // seals the first segment
	f.free(gone)
	if err := f.c.Sync(bg(t)); err != nil {
		t.Fatal(err)
	}
	f.reads(kept) // and closes it
	f.d.Reads = true
	f.d.SetHook(func(c crashdir.Call, done bool) error {
		if c.Op == "open" && !done {
			return unix.EMFILE
		}
		return nil
	})
	if did, err := f.s.Reclaim(bg(t)); !errors.Is(err, unix.EMFILE) || did.Records != 0 {
		t.Errorf("Reclaim: %+v, %v; want none, and why", did, err)
	}
	f.d.SetHook(nil)
	if did := f.reclaim(); did.Records != 1 || did.Punched == 0 {
		t.Errorf("Reclaim: %+v, want the record", did)
	}
	f.reads(kept)
	f.isIO("the freed record", gone)
}
