package segment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/writeback"
)

// logSize is what no log in these tests is half full of: nothing happens in the
// background, so that a crash is one moment of all disks.
const logSize = 1 << 20

// machine is all that serve puts together below the tree, on disks that crash:
// segments over a log over a driver. Its store names content under keys of its own.
type machine struct {
	t      *testing.T
	seg    *disk
	log    *disk
	driver *mem.Store
	told   bytes.Buffer // what was logged

	c  *segment.Content
	wb *writeback.Store
	s  *segment.Store

	states map[backend.LSN]named // what is named after each Update
	now    named
	last   backend.LSN // the newest Update
	acked  backend.LSN // the newest that WaitDurable acknowledged
	failed int

	compacted int // segments
}

// named is the refs that a store names, by their id.
type named map[uint64]backend.Ref

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, seg: newDisk(), log: newDisk(), driver: mem.New(mem.Options{}), states: map[backend.LSN]named{}, now: named{}}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	m.last = m.wb.LastLSN()
	m.acked = m.last
	m.states[m.last] = named{}
	return m
}

func (m *machine) open() error {
	log := slog.New(slog.NewTextHandler(&m.told, nil))
	var err error
	if m.c, err = segment.Open(segment.Options{FS: m.seg, SegmentSize: 1, ReclaimEvery: -1, PunchRate: -1, Logged: true, Log: log,
		Settled: func(ctx context.Context, lsn backend.LSN) error {
			if err := m.wb.Flush(ctx); err != nil { // by age it would take too long
				return err
			}
			return m.wb.WaitCommitted(ctx, lsn)
		}}); err != nil {
		return err
	}
	if m.wb, err = writeback.Open(bg(m.t), writeback.Options{Driver: m.driver, FS: m.log, Bulk: m.c, Log: log,
		SyncAge: time.Hour, CommitAge: time.Hour, LogFileSize: logSize}); err != nil {
		return err
	}
	m.s, err = m.c.Bind(bg(m.t), m.wb)
	return err
}

func (m *machine) close(what string) {
	m.t.Helper()
	if err := m.s.Close(); err != nil {
		m.t.Errorf("%s: Close: %v", what, err)
	}
}

// ok takes an error of a disk, and nothing else.
func (m *machine) ok(what string, err error) bool {
	if err == nil {
		return true
	}
	m.failed++
	if k := backend.KindOf(err); k != backend.IO && k != backend.NoSpace {
		m.t.Errorf("%s: %v (kind %v)", what, err, k)
	}
	return false
}

func nameKey(id uint64) []byte { return fmt.Appendf(nil, "x%03d", id) }

// update frees some ids and puts others, by their lengths, in one Update.
func (m *machine) update(free []uint64, put map[uint64]int) {
	m.t.Helper()
	var next named
	lsn, err := m.s.Update(bg(m.t), func(tx backend.Tx) error {
		next = maps.Clone(m.now)
		for _, id := range free {
			if err := errors.Join(m.c.Free(tx, m.now[id]), tx.Delete(nameKey(id))); err != nil {
				return err
			}
			delete(next, id)
		}
		for id := uint64(0); id < 100; id++ {
			if put[id] == 0 {
				continue
			}
			ref, err := m.c.Put(tx, id, bytesOf(id, put[id]))
			if err != nil {
				return err
			}
			next[id] = ref
			b, err := json.Marshal(ref)
			if err := errors.Join(err, tx.Set(nameKey(id), b)); err != nil {
				return err
			}
		}
		m.states[m.last+1] = next // from here on a crash may leave it
		return nil
	})
	if !m.ok("Update", err) {
		delete(m.states, m.last+1)
		return
	}
	if lsn != m.last+1 {
		m.t.Fatalf("LSN %d after %d", lsn, m.last)
	}
	m.now, m.last = next, lsn
}

func (m *machine) sync() {
	m.t.Helper()
	if lsn := m.last; m.ok("WaitDurable", m.s.WaitDurable(bg(m.t), lsn)) {
		m.acked = lsn
	}
}

func (m *machine) flush() {
	if lsn := m.wb.LastLSN(); m.ok("Flush", m.wb.Flush(bg(m.t))) {
		m.acked = max(m.acked, min(lsn, m.last))
	}
}

func (m *machine) reclaim() {
	_, err := m.s.Reclaim(bg(m.t))
	m.ok("Reclaim", err)
	m.last = m.wb.LastLSN() // its own Updates name nothing new
}

// live runs a small life: content that rides and that does not, overwritten,
// freed, given back, over three segments.
func (m *machine) live() {
	m.update(nil, map[uint64]int{1: 3000})
	m.update(nil, map[uint64]int{2: 70_000})
	m.sync()
	m.update(nil, map[uint64]int{3: 4096, 4: 4096})
	m.update(nil, map[uint64]int{5: 16 << 10, 6: 16 << 10, 7: 12_000}) // the last is one too many
	m.sync()
	m.update([]uint64{3}, map[uint64]int{8: 4096}) // a page is written again
	m.flush()
	m.update([]uint64{8}, map[uint64]int{9: 4096})
	m.giveUp()
	m.sync()
	m.update([]uint64{2, 5}, nil)
	m.reclaim()
	m.update(nil, map[uint64]int{10: 900_000})
	m.update(nil, map[uint64]int{11: 200_000}) // the next segment
	m.update(nil, map[uint64]int{12: 5000})
	m.sync()
	m.update([]uint64{1, 4, 6, 7, 9, 10}, nil) // all of the first segment
	m.update(nil, map[uint64]int{13: 2500})
	m.reclaim()
	m.update([]uint64{12}, map[uint64]int{14: 5000})
	m.sync()
	m.update(nil, map[uint64]int{15: 40_000})
	m.update([]uint64{11}, map[uint64]int{16: 700_000, 17: 100_000})
	m.update([]uint64{16}, map[uint64]int{18: 900_000}) // the next segment
	m.compact()
	m.sync()
	m.reclaim()
	m.update(nil, map[uint64]int{19: 4096})
}

// compact has the sparse segments compacted.
func (m *machine) compact() {
	done, err := m.s.Compact(bg(m.t), m)
	if m.ok("Compact", err) {
		m.compacted += len(done)
	}
}

var _ segment.Relocator = (*machine)(nil)

// Relocate moves what is named, each in an Update of its own.
func (m *machine) Relocate(ctx context.Context, segments []uint64, move segment.Move) error {
	for id, old := range maps.Clone(m.now) {
		if !slices.Contains(segments, old.Segment) {
			continue
		}
		var next named
		lsn, err := m.s.Update(ctx, func(tx backend.Tx) error {
			ref, err := move(tx, old)
			if err != nil {
				return err
			}
			next = maps.Clone(m.now)
			next[id] = ref
			m.states[m.last+1] = next
			b, err := json.Marshal(ref)
			return errors.Join(err, tx.Set(nameKey(id), b))
		})
		if err != nil {
			delete(m.states, m.last+1)
			return err
		}
		m.now, m.last = next, lsn
	}
	return nil
}

func (m *machine) giveUp() {
	_, err := m.s.Update(bg(m.t), func(tx backend.Tx) error {
		if _, err := m.c.Put(tx, 99, bytesOf(99, 5000)); err != nil {
			return err
		}
		return errGaveUp
	})
	if !errors.Is(err, errGaveUp) {
		m.ok("Put", err)
	}
}

// is checks that the store holds just what was named after Update lsn, all of it readable.
func (m *machine) is(what string, want named) {
	m.t.Helper()
	got := named{}
	err := m.s.View(bg(m.t), func(tx backend.Tx) error {
		return tx.Scan([]byte("x"), []byte("y"), func(_, b []byte) error {
			var ref backend.Ref
			if err := json.Unmarshal(b, &ref); err != nil {
				return err
			}
			got[ref.ID] = ref
			p := make([]byte, ref.Length)
			if err := m.c.Get(tx, ref, 0, p); err != nil {
				m.t.Errorf("%s: %v", what, err)
			} else if !bytes.Equal(p, bytesOf(ref.ID, len(p))) {
				m.t.Errorf("%s: wrong bytes of %d", what, ref.ID)
			}
			return nil
		})
	})
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
	err = m.s.View(bg(m.t), func(tx backend.Tx) error {
		return m.c.Audit(tx, func(fn func(backend.Ref) error) error {
			for _, ref := range got {
				if err := fn(ref); err != nil {
					return err
				}
			}
			return nil
		}, func(text string) { m.t.Errorf("%s: fsck: %s", what, text) })
	})
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
	if !maps.Equal(got, want) {
		m.t.Errorf("%s: %d are named, %d should be:\n%v\n%v", what, len(got), len(want), got, want)
	}
}

// after opens what a crash left: the state after one Update, not before atLeast.
// It goes on from there, and loses the power again.
func (m *machine) after(what string, seg, log *disk, driver *mem.Store, atLeast backend.LSN) {
	m.t.Helper()
	a := &machine{t: m.t, seg: seg, log: log, driver: driver, states: map[backend.LSN]named{}}
	if err := a.open(); err != nil {
		m.t.Fatalf("%s: open: %v\n%s", what, err, &a.told)
	}
	defer a.close(what)
	lsn := a.wb.LastLSN()
	if most := m.wb.LastLSN() + 1; lsn < atLeast || lsn > most {
		m.t.Errorf("%s: Update %d is the last; at least %d, at most %d", what, lsn, atLeast, most)
	}
	want := m.at(lsn)
	if strings.Contains(a.told.String(), "level=ERROR") {
		m.t.Errorf("%s: %s", what, &a.told)
	}
	a.is(what, want)
	a.now, a.last = maps.Clone(want), lsn
	a.update(nil, map[uint64]int{50: 5000, 51: 50_000})
	a.sync()
	if _, err := a.s.Reclaim(bg(m.t)); err != nil {
		m.t.Errorf("%s: Reclaim: %v", what, err)
	}
	a.is(what+", later", a.now)
	r := rand.New(rand.NewPCG(3, 4))
	again := &machine{t: m.t, seg: a.seg.PowerCut(r, 0), log: a.log.PowerCut(r, 0), driver: a.driver.CrashClone(0)}
	if err := again.open(); err != nil {
		m.t.Fatalf("%s: open again: %v\n%s", what, err, &again.told)
	}
	again.is(what+", after a second power cut", a.now)
	again.close(what)
}

// at is what is named after Update lsn, which may be one of the reclaimer's.
func (m *machine) at(lsn backend.LSN) named {
	for lsn > 0 && m.states[lsn] == nil {
		lsn--
	}
	return m.states[lsn]
}

// TestPowerCutAtEveryBoundary cuts the power, and kills the process, before and
// after every call into the log and into the segments, and at every step of the
// driver: the state is that after one Update, and includes all that was durable.
func TestPowerCutAtEveryBoundary(t *testing.T) {
	m := newMachine(t)
	r := rand.New(rand.NewPCG(1, 2))
	points := 0
	crash := func(c string) {
		if points++; testing.Short() && points%8 != 0 || t.Failed() {
			return
		}
		for _, chance := range []float64{0, 0.5, 1} {
			what := fmt.Sprintf("%s: power cut, %v of the writes", c, chance)
			m.after(what, m.seg.PowerCut(r, chance), m.log.PowerCut(r, r.Float64()), m.driver.CrashRand(r), m.acked)
			m.after(what+", all of the log", m.seg.PowerCut(r, chance), m.log.PowerCut(r, 1), m.driver.CrashClone(0), m.acked)
		}
		m.after(c+": killed", m.seg.Killed(call{}, 0), m.log.Killed(call{}, 0), m.driver.Reopen(), m.done())
	}
	hook := func(where string) crashdir.Hook {
		return func(c call, done bool) error {
			if c.Op != "read" && c.Op != "open" && c.Op != "free" {
				crash(fmt.Sprintf("%s %v, done %v", where, c, done))
			}
			return nil
		}
	}
	m.seg.SetHook(hook("segments"))
	m.log.SetHook(hook("log"))
	m.driver.SetHook(func(p mem.Point, n uint64) error {
		if p != mem.BeforeView {
			crash(fmt.Sprintf("driver point %d, time %d", p, n))
		}
		return nil
	})
	m.live()
	m.seg.SetHook(nil)
	m.log.SetHook(nil)
	m.driver.SetHook(nil)
	if st := m.c.Stats(); points < 100 || m.failed > 0 || st.Rides < 8 || st.Puts <= st.Rides || st.Unlinked < 2 || m.compacted == 0 || st.Punched == 0 {
		t.Errorf("%d points, %d failures, %+v: the script is not what it was", points, m.failed, st)
	}
	t.Logf("%d points", points)
	m.is("at the end", m.now)
	m.close("at the end")
}

// done is the newest Update that returned. One that runs is not: its record may
// not be in the log yet.
func (m *machine) done() backend.LSN { return m.wb.LastLSN() }

// TestPowerCutAfterKill: what a killed process left in the page cache is durable
// once the next one has opened it.
func TestPowerCutAfterKill(t *testing.T) {
	m := newMachine(t)
	m.update(nil, map[uint64]int{1: 4096})
	m.update(nil, map[uint64]int{2: 100_000})
	next := &machine{t: t, seg: m.seg, log: m.log, driver: m.driver.Reopen()} // m just stops
	if err := next.open(); err != nil {
		t.Fatal(err)
	}
	if got := next.wb.Stats().Durable; got != m.last {
		t.Errorf("%d is durable, %d is the last", got, m.last)
	}
	r := rand.New(rand.NewPCG(1, 1))
	a := &machine{t: t, seg: next.seg.PowerCut(r, 0), log: next.log.PowerCut(r, 0), driver: next.driver.CrashClone(0)}
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	a.is("after the power cut", m.now)
	a.close("after the power cut")
	next.close("after the kill")
}

// TestOneSyncForASmallCommit: content that rides needs no sync but the log's;
// the segments' comes with the commit to the driver.
func TestOneSyncForASmallCommit(t *testing.T) {
	m := newMachine(t)
	m.update(nil, map[uint64]int{1: 4096}) // makes the segment
	syncs := map[string]int{}
	count := func(where string) crashdir.Hook {
		return func(c call, done bool) error {
			if c.Op == "sync" && !done {
				syncs[where]++
			}
			return nil
		}
	}
	m.seg.SetHook(count("segments"))
	m.log.SetHook(count("log"))
	for n := range uint64(8) { // as many pages as a database commits
		m.update(nil, map[uint64]int{2 + n: 4096})
	}
	m.sync()
	if syncs["log"] != 1 || syncs["segments"] != 0 {
		t.Errorf("small content: %v syncs", syncs)
	}
	m.update(nil, map[uint64]int{20: 100_000})
	m.sync()
	if syncs["log"] != 2 || syncs["segments"] != 1 {
		t.Errorf("big content: %v syncs", syncs)
	}
	m.update(nil, map[uint64]int{21: 4096})
	m.flush()
	if syncs["log"] != 2 || syncs["segments"] != 2 {
		t.Errorf("a commit: %v syncs", syncs)
	}
	m.close("end")
}

// TestDiskErrorsUnderTheLog lets each call into the segments and the log fail:
// the caller is told, and what WaitDurable then acknowledges outlives a power cut.
func TestDiskErrorsUnderTheLog(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	for name, err := range map[string]error{"io": syscall.EIO, "no space": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			n := 1
			for ; failUnderLog(t, n, 2, err) && !t.Failed(); n += step {
			}
			if n < 50 {
				t.Errorf("only %d calls", n)
			}
		})
	}
}

func failUnderLog(t *testing.T, n, times int, give error) bool {
	m := newMachine(t)
	var calls atomic.Int64 // also from the committer
	hook := func(c call, done bool) error {
		if done {
			return nil
		}
		if got := int(calls.Add(1)); got >= n && got < n+times {
			return give
		}
		return nil
	}
	m.seg.SetHook(hook)
	m.log.SetHook(hook)
	m.live()
	m.seg.SetHook(nil)
	m.log.SetHook(nil)
	what := fmt.Sprintf("call %d failed", n)
	m.is(what, m.now)
	m.update(nil, map[uint64]int{60: 3000, 61: 40_000})
	if err := m.s.WaitDurable(bg(t), m.last); err != nil {
		t.Fatalf("%s: then WaitDurable: %v", what, err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	a := &machine{t: t, seg: m.seg.PowerCut(r, 0), log: m.log.PowerCut(r, 0), driver: m.driver.CrashClone(0)}
	if err := a.open(); err != nil {
		t.Fatalf("%s: open: %v", what, err)
	}
	a.is(what+", after a power cut", m.now)
	a.close(what)
	m.close(what)
	return int(calls.Load()) >= n
}

// TestARecoveryThatCannotReadLosesNothing: a segment that does not open, and a read or
// write that fails, while the log is looked through after kill -9, is no reason to
// drop what was acknowledged: the store does not open, and at the next try all is there.
func TestARecoveryThatCannotReadLosesNothing(t *testing.T) {
	m := newMachine(t)
	m.update(nil, map[uint64]int{1: 5000, 2: 50_000})
	m.update(nil, map[uint64]int{3: 900})
	recoverAnyway(t, m, 5, func() (seg, log *disk) { return m.seg.Killed(crashdir.Call{}, 0), m.log.Killed(crashdir.Call{}, 0) })
	m.close("first life")
}

// TestARecoveryThatCannotWriteLosesNothing: the same after a power cut, of content
// that the log alone has, though all of it was durable.
func TestARecoveryThatCannotWriteLosesNothing(t *testing.T) {
	m := newMachine(t)
	m.update(nil, map[uint64]int{1: 5000, 2: 900})
	m.sync()
	m.update(nil, map[uint64]int{3: 900}) // tells that the one before is durable
	m.sync()
	r := rand.New(rand.NewPCG(1, 1))
	recoverAnyway(t, m, 5, func() (seg, log *disk) { return m.seg.PowerCut(r, 0), m.log.PowerCut(r, 0) })
	m.close("first life")
}

// recoverAnyway opens what crash leaves with one call into the segments failing, each
// in turn, and where that is refused once more: all is there.
func recoverAnyway(t *testing.T, m *machine, least int, crash func() (seg, log *disk)) {
	refused := 0
	for n, more := 1, true; more; n++ {
		what := fmt.Sprintf("call %d failed", n)
		a := &machine{t: t, driver: m.driver.Reopen()}
		a.seg, a.log = crash()
		calls := 0
		a.seg.Reads = true
		a.seg.SetHook(func(_ crashdir.Call, done bool) error {
			if done {
				return nil
			}
			if calls++; calls == n {
				return syscall.EIO
			}
			return nil
		})
		err := a.open()
		a.seg.SetHook(nil)
		more = calls >= n
		if a.ok(what, err) {
			if got := a.wb.LastLSN(); got != m.last {
				t.Errorf("%s: the last update is %d, want %d", what, got, m.last)
			}
			a.close(what)
			continue
		}
		refused++
		if a.wb != nil { // it was Bind
			if err := a.wb.Close(); err != nil {
				t.Errorf("%s: Close: %v", what, err)
			}
			a.driver = a.driver.Reopen()
		}
		if err := a.open(); err != nil {
			t.Fatalf("%s, and it opens no more: %v", what, err)
		}
		a.is(what, m.states[m.last])
		a.close(what)
	}
	if refused < least {
		t.Errorf("%d failed calls mattered", refused)
	}
}
