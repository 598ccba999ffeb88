package segment_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/scripts/waits"
)

// reborn opens what f would leave when killed, after change.
func (f *fixture) reborn(change func(names map[string]*crashdir.Inode)) (*fixture, error) {
	g := &fixture{t: f.t, d: f.d.Killed(call{}, 0), below: f.below.Reopen(), opts: f.opts}
	change(g.d.Names)
	return g, g.tryOpen()
}

// TestFlippedBits: each flipped bit of a record makes its content IO or does
// not matter, and touches no other content.
func TestFlippedBits(t *testing.T) {
	f := newFixture(t, segment.Options{})
	before, ref, big, after := f.put(1, 3000), f.put(2, 200), f.put(3, 70_000), f.put(4, 3000)
	file := f.d.Names[segment.FileName(ref.Segment)]
	flip := func(r backend.Ref, bit int64) {
		file.Cache[int64(r.Offset)+bit/8] ^= 1 << (bit % 8)
	}
	meaning := segment.DataStart(ref.Length) + int64(ref.Length)
	for bit := range 8 * segment.RecordSize(ref.Length) {
		flip(ref, bit)
		if err := f.get(ref); (err == nil) != (bit >= 8*meaning) {
			t.Errorf("bit %d flipped: %v", bit, err)
		} else if err != nil && !strings.Contains(err.Error(), "content 0000000000000002 in segment 0000000000000001 at") {
			t.Errorf("the error does not name the ref: %v", err)
		}
		flip(ref, bit)
	}
	f.reads(before, ref, big, after)
	// A damaged block of a big record leaves the others readable.
	flip(big, 8*(segment.DataStart(big.Length)+40_000))
	part := func(off uint32, n int) error {
		return f.s.View(bg(t), func(tx backend.Tx) error { return f.c.Get(tx, big, off, make([]byte, n)) })
	}
	if err := part(0, 32<<10); err != nil {
		t.Errorf("the block before: %v", err)
	}
	if err := part(64<<10, 1000); err != nil {
		t.Errorf("the block behind: %v", err)
	}
	if err := part(33<<10, 1); backend.KindOf(err) != backend.IO {
		t.Errorf("the damaged block: %v, want IO", err)
	}
	f.isIO("all of it", big)
}

// TestLostSegment: a segment that is missing, cut or has a damaged header
// gives IO for its refs, which can be freed; others are as before.
func TestLostSegment(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1})
	lost, kept := f.put(1, 900_000), f.put(2, 900_000)
	name := segment.FileName(lost.Segment)
	for what, change := range map[string]func(map[string]*crashdir.Inode){
		"missing":          func(names map[string]*crashdir.Inode) { delete(names, name) },
		"empty":            func(names map[string]*crashdir.Inode) { names[name] = crashdir.Whole(nil) },
		"half a header":    func(names map[string]*crashdir.Inode) { names[name] = crashdir.Whole(names[name].Cache[:2000]) },
		"cut":              func(names map[string]*crashdir.Inode) { names[name] = crashdir.Whole(names[name].Cache[:500_000]) },
		"a damaged header": func(names map[string]*crashdir.Inode) { names[name].Cache[40] ^= 1 },
		"another version":  func(names map[string]*crashdir.Inode) { names[name].Cache[8]++ },
		"another segment":  func(names map[string]*crashdir.Inode) { names[name] = names[segment.FileName(kept.Segment)] },
	} {
		g, err := f.reborn(change)
		if err != nil {
			t.Errorf("%s: open: %v", what, err)
			continue
		}
		g.isIO(what, lost)
		if err := g.get(lost); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("segment %016x", lost.Segment)) {
			t.Errorf("%s: the error does not name the segment: %v", what, err)
		}
		again := g.put(3, 900_000)
		if again.Segment == lost.Segment {
			t.Errorf("%s: its number was given out again", what)
		}
		g.reads(kept, again)
		g.free(lost)
		g.reclaim()
		g.reclaim()
		if n := g.c.Stats(); n.Broken != 0 {
			t.Errorf("%s: what nothing names is still there: %+v", what, n)
		}
		g.reopen()
		g.reads(kept, again)
	}
}

// TestUnfinishedSegment: a segment that nothing names, and whose header a failing
// disk lost, goes at the next start; not in a store that knows of none.
func TestUnfinishedSegment(t *testing.T) {
	f := newFixture(t, segment.Options{})
	name := segment.FileName(99)
	add := func(names map[string]*crashdir.Inode) { names[name] = crashdir.Whole(make([]byte, 3000)) }
	fresh, err := f.reborn(add)
	if err != nil || fresh.d.Names[name] == nil {
		t.Errorf("a store without segments removed one, or %v", err)
	}
	kept := f.put(1, 5000)
	g, err := f.reborn(add)
	if err != nil {
		t.Fatal(err)
	}
	if g.d.Names[name] != nil || g.c.Stats().Broken != 0 {
		t.Errorf("it is still there: %+v", g.c.Stats())
	}
	g.reads(kept)
}

// TestAnotherStore: segments of another store are refused, both ways, and
// nothing is removed.
func TestAnotherStore(t *testing.T) {
	f := newFixture(t, segment.Options{})
	f.put(1, 5000)
	other := newFixture(t, segment.Options{})
	other.put(1, 5000)
	for what, below := range map[string]*mem.Store{"another": other.below.Reopen(), "a new": mem.New(mem.Options{})} {
		g := &fixture{t: t, d: f.d.Killed(call{}, 0), below: below, opts: f.opts}
		if err := g.tryOpen(); err == nil || backend.KindOf(err) != backend.IO {
			t.Errorf("%s store: %v, want IO", what, err)
		}
		if len(g.d.Names) != 1 {
			t.Errorf("%s store: files were removed", what)
		}
	}
}

// TestTailIsCut: what is behind the last known record goes at the next start.
func TestTailIsCut(t *testing.T) {
	f := newFixture(t, segment.Options{})
	ref := f.put(1, 5000)
	var size int
	g, err := f.reborn(func(names map[string]*crashdir.Inode) {
		in := names[segment.FileName(ref.Segment)]
		size = len(in.Cache)
		in.Write(bytesOf(1, 10_000), int64(len(in.Cache))+1000)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(g.d.Names[segment.FileName(ref.Segment)].Cache); n > size+64 {
		t.Errorf("%d bytes are left of %d", n, size)
	}
	next := g.put(2, 5000)
	if next.Segment != ref.Segment {
		t.Errorf("a new segment was begun: %+v after %+v", next, ref)
	}
	g.reads(ref, next)
}

// TestVerify: replay is told which Updates have their bytes, and what it takes
// over is written and synced anew.
func TestVerify(t *testing.T) {
	f := newFixture(t, segment.Options{})
	good, bad := f.put(1, 50_000), f.put(2, 50_000)
	var key, value []byte
	_ = f.s.View(bg(t), func(tx backend.Tx) error {
		return tx.Scan([]byte{'s', 1}, []byte{'s', 2}, func(k, v []byte) error {
			key, value = append([]byte(nil), k...), append([]byte(nil), v...)
			return nil
		})
	})
	open := func(d *disk) *segment.Content {
		o := f.opts
		o.FS = d
		c, err := segment.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d := f.d.Killed(call{}, 0)
	d.Names[segment.FileName(1)].Disk = nil // an earlier process saw a sync fail
	c := open(d)
	if err := c.Verify([]byte("s"), nil); err != nil {
		t.Errorf("Verify of a key of others: %v", err)
	}
	if err := c.Verify(key, value); err != nil {
		t.Errorf("Verify of whole content: %v", err)
	}
	if err := c.Sync(bg(t)); err != nil {
		t.Error(err)
	}
	got := d.PowerCut(rand.New(rand.NewPCG(1, 1)), 0).Names[segment.FileName(1)].Cache
	at := int(bad.Offset) + int(segment.DataStart(bad.Length))
	if string(got[at:at+50_000]) != string(bytesOf(2, 50_000)) {
		t.Error("what Verify took over was not written anew")
	}
	d = f.d.Killed(call{}, 0)
	d.Names[segment.FileName(1)].Cache[at+49_999] ^= 1
	if err := open(d).Verify(key, value); backend.KindOf(err) != backend.IO {
		t.Errorf("Verify of damaged content: %v, want IO", err)
	}
	if err := open(d).Verify(key, value[:len(value)-1]); backend.KindOf(err) != backend.IO {
		t.Errorf("Verify of a damaged value: %v, want IO", err)
	}
	_ = good
}

// TestReserveAndBallast: below the reserve Put is NoSpace and all else works;
// the ballast goes when the disk is full and comes back with room.
func TestReserveAndBallast(t *testing.T) {
	d := newDisk()
	d.Room = 2 << 20
	f := &fixture{t: t, d: d, below: mem.New(mem.Options{}), opts: segment.Options{
		SegmentSize: 1, Reserve: 200_000, Ballast: 300_000, ReclaimEvery: -1, PunchRate: -1}}
	f.open()
	if !f.c.Stats().Ballast {
		t.Fatal("no ballast was made")
	}
	var refs []backend.Ref
	var err error
	for id := uint64(1); err == nil && id < 100; id++ {
		var ref backend.Ref
		if ref, err = f.tryPut(id, 100_000); err == nil {
			refs = append(refs, ref)
		}
	}
	if backend.KindOf(err) != backend.NoSpace || len(refs) < 10 {
		t.Fatalf("after %d puts: %v, want NoSpace", len(refs), err)
	}
	if free, _ := d.Free(); free < 200_000 {
		t.Errorf("%d bytes are free: Put went into the reserve", free)
	}
	f.reads(refs...)
	d.Room -= 250_000 // others fill the disk
	f.reopen()
	if f.c.Stats().Ballast {
		t.Error("the ballast is still there on a full disk")
	}
	f.reads(refs...)
	f.free(refs[:len(refs)-1]...)
	f.reclaim()
	f.reclaim()
	if !f.c.Stats().Ballast {
		t.Error("the ballast did not come back")
	}
	f.reads(refs[len(refs)-1], f.put(500, 50_000))
	d.SetHook(func(c call, done bool) error {
		if c.Op == "write" && !done {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := f.tryPut(501, 5000); backend.KindOf(err) != backend.NoSpace {
		t.Errorf("a write without room: %v, want NoSpace", err)
	}
	d.SetHook(nil)
	f.reads(f.put(502, 5000))
}

// TestWalk finds every record, and goes on behind damage.
func TestWalk(t *testing.T) {
	f := newFixture(t, segment.Options{})
	refs := []backend.Ref{f.put(1, 3000), f.put(2, 100_000), f.put(3, 3000), f.put(4, 50_000)}
	f.free(refs[1])
	f.reclaim()
	f.d.Names[segment.FileName(1)].Cache[refs[2].Offset+8] ^= 1
	var got []segment.Entry
	if err := f.c.Walk(1, func(e segment.Entry) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	at := uint64(4096)
	for i, e := range got {
		if e.Ref.Offset != at {
			t.Errorf("entry %d begins at %d, want %d", i, e.Ref.Offset, at)
		}
		at += uint64(e.Size)
	}
	if len(got) != 4 || got[0].Ref != refs[0] || !got[1].Void || !got[2].Unknown || got[3].Ref != refs[3] {
		t.Errorf("Walk: %+v", got)
	}
}

// TestManyAtOnce puts, reads, frees, syncs and reclaims from many goroutines.
func TestManyAtOnce(t *testing.T) {
	f := newFixture(t, segment.Options{SegmentSize: 1, ReclaimEvery: 1, MaxOpen: 2})
	var wg sync.WaitGroup
	for g := range uint64(6) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 1))
			var live []backend.Ref
			for i := range uint64(60) {
				live = append(live, f.put(g<<32|i, 1+r.IntN(120_000)))
				f.reads(live[r.IntN(len(live))])
				if len(live) > 5 {
					f.free(live[0])
					f.isIO("a freed ref", live[0])
					live = live[1:]
				}
				if i%10 == 0 {
					if err := f.c.Sync(bg(t)); err != nil {
						t.Error(err)
					}
				}
			}
			f.reads(live...)
		})
	}
	wg.Wait()
	if err := f.c.Sync(bg(t)); err != nil {
		t.Error(err)
	}
	st := f.c.Stats()
	for end := waits.In(time.Minute); (st.Open > 4 || st.Unsynced != 0) && !end.Passed(); st = f.c.Stats() {
		time.Sleep(10 * time.Millisecond) // the reclaimer may be at work, with files and records of its own
	}
	if st.Unsynced != 0 || st.Open > 4 {
		t.Errorf("%+v", st)
	}
	if err := f.s.Close(); err != nil {
		t.Error(err)
	}
	if err := f.s.View(bg(t), func(backend.Tx) error { return nil }); backend.KindOf(err) != backend.Unavailable {
		t.Errorf("View after Close: %v", err)
	}
}
