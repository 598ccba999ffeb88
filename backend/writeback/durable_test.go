package writeback_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
)

func set(t testing.TB, s *writeback.Store, key, value string) backend.LSN {
	t.Helper()
	lsn, err := apply1(t.Context(), s, []edit{{key: key, value: value}})
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	return lsn
}

// TestWaitersShareASync has many that wait at once.
func TestWaitersShareASync(t *testing.T) {
	d := newDisk()
	s := open(t, options(d, mem.New(mem.Options{})))
	defer s.Close()
	var running sync.Map // by file
	var overlaps atomic.Int32
	d.SetHook(func(c call, done bool) error {
		if c.Op == "sync" && !done {
			if _, other := running.LoadOrStore(c.File, true); other {
				overlaps.Add(1)
			}
			time.Sleep(2 * time.Millisecond)
			running.Delete(c.File)
		}
		return nil
	})
	before := s.Stats().Syncs
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for range 20 {
				lsn, err := apply1(t.Context(), s, []edit{{key: fmt.Sprint(w), value: "v"}})
				if err = errors.Join(err, s.WaitDurable(t.Context(), lsn)); err != nil {
					t.Error(err)
				}
				if st := s.Stats(); st.Durable < lsn {
					t.Errorf("Durable is %d after WaitDurable(%d)", st.Durable, lsn)
				}
			}
		})
	}
	wg.Wait()
	if n := s.Stats().Syncs - before; n > 16*20/4 {
		t.Errorf("%d syncs for %d that waited", n, 16*20)
	}
	if n := overlaps.Load(); n > 0 {
		t.Errorf("%d times two syncs of one file at once: only one would be told of an error", n)
	}
	before = s.Stats().Syncs
	if err := s.Sync(t.Context()); err != nil || s.Stats().Syncs != before {
		t.Errorf("Sync of what is durable: %v, %d syncs", err, s.Stats().Syncs-before)
	}
}

// TestFailedSyncIsNeverTrusted: the disk loses what a failed sync was to write,
// and says that the next one went well.
func TestFailedSyncIsNeverTrusted(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("new files fail too: %v", both), func(t *testing.T) {
			d, driver := newDisk(), mem.New(mem.Options{})
			s := open(t, options(d, driver))
			defer s.Close()
			set(t, s, "a", "1")
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			lsn := set(t, s, "b", "2")
			failed := false
			d.SetHook(func(c call, done bool) error {
				if c.Op == "sync" && !done && !failed || both && c.Op == "create" {
					failed = true
					return syscall.EIO
				}
				return nil
			})
			err := s.WaitDurable(t.Context(), lsn)
			if both {
				if err == nil || backend.KindOf(err) != backend.IO {
					t.Fatalf("WaitDurable: %v, want kind IO", err)
				}
				if st := s.Stats(); st.Durable >= lsn || st.LogError == nil || st.SyncFailures == 0 {
					t.Errorf("after a failed sync: %+v", st)
				}
				if err := s.WaitDurable(t.Context(), lsn); err == nil {
					t.Error("a second WaitDurable on the same file said yes")
				}
				if err := s.WaitDurable(t.Context(), lsn-1); err != nil {
					t.Errorf("WaitDurable of what was durable before: %v", err)
				}
				lsn = set(t, s, "c", "3") // Updates go on
				d.SetHook(nil)
				err = s.WaitDurable(t.Context(), lsn)
			}
			if err != nil {
				t.Fatalf("WaitDurable: %v", err)
			}
			want, err := readAll(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			after := open(t, options(d.PowerCut(rand.New(rand.NewPCG(1, 1)), 0), driver.CrashClone(0)))
			defer after.Close()
			if got, err := readAll(t.Context(), after); err != nil || !maps.Equal(got, want) {
				t.Errorf("after a power cut: %q, %v; want %q", got, err, want)
			}
		})
	}
}

// TestWaitersOfAFailedSync: each of them gets an error, or is durable.
func TestWaitersOfAFailedSync(t *testing.T) {
	d, driver := newDisk(), mem.New(mem.Options{})
	s := open(t, options(d, driver))
	defer s.Close()
	var bad atomic.Bool
	d.SetHook(func(c call, done bool) error {
		if !done && bad.Load() && (c.Op == "sync" || c.Op == "create") {
			time.Sleep(time.Millisecond)
			return syscall.EIO
		}
		return nil
	})
	var wg sync.WaitGroup
	var yes, no atomic.Int32
	var acked atomic.Uint64
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				if w == 0 {
					bad.Store(i%8 < 4)
				}
				lsn, err := apply1(t.Context(), s, []edit{{key: fmt.Sprint(w), value: fmt.Sprint(i)}})
				if err != nil {
					t.Error(err)
				}
				switch err := s.WaitDurable(t.Context(), lsn); {
				case err == nil:
					yes.Add(1)
					for {
						old := acked.Load()
						if uint64(lsn) <= old || acked.CompareAndSwap(old, uint64(lsn)) {
							break
						}
					}
				case backend.KindOf(err) == backend.IO:
					no.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d durable, %d refused", yes.Load(), no.Load())
	if yes.Load() == 0 || no.Load() == 0 {
		t.Error("want some of both")
	}
	promised := acked.Load()
	after := open(t, options(d.PowerCut(rand.New(rand.NewPCG(1, 1)), 0), driver.CrashClone(0)))
	defer after.Close()
	if got := after.LastLSN(); uint64(got) < promised {
		t.Errorf("after a power cut: LSN %d, %d was promised", got, promised)
	}
}

// TestSyncAge: what nobody waits for is synced by age, and not committed yet.
func TestSyncAge(t *testing.T) {
	d, driver := newDisk(), mem.New(mem.Options{})
	o := options(d, driver)
	o.SyncAge = 30 * time.Millisecond
	s := open(t, o)
	defer s.Close()
	for i := range 3 {
		before := s.Stats().Syncs
		start := time.Now()
		set(t, s, "a", fmt.Sprint(i))
		lsn := set(t, s, "b", fmt.Sprint(i))
		waitFor(t, func() bool { return s.Stats().Durable >= lsn })
		if age := time.Since(start); age < 20*time.Millisecond {
			t.Errorf("synced after %v already", age)
		}
		if n := s.Stats().Syncs - before; n != 1 {
			t.Errorf("%d syncs", n)
		}
	}
	if st := s.Stats(); st.Committed != 0 || st.Pending != 6 {
		t.Errorf("committed by the age of the sync: %+v", st)
	}
}

// TestSyncAgeAfterAFailure: it is tried again.
func TestSyncAgeAfterAFailure(t *testing.T) {
	d := newDisk()
	o := options(d, mem.New(mem.Options{}))
	o.SyncAge = 5 * time.Millisecond
	s := open(t, o)
	defer s.Close()
	var failures atomic.Int32
	d.SetHook(func(c call, done bool) error {
		if !done && (c.Op == "sync" || c.Op == "create") && failures.Add(1) <= 4 {
			return syscall.EIO
		}
		return nil
	})
	lsn := set(t, s, "a", "1")
	waitFor(t, func() bool { return s.Stats().Durable >= lsn })
	if st := s.Stats(); st.SyncFailures < 3 || st.LogError != nil {
		t.Errorf("%+v", st)
	}
}

// TestCommitAge: Updates reach the driver by age, young ones not with old ones.
func TestCommitAge(t *testing.T) {
	driver := mem.New(mem.Options{})
	o := options(newDisk(), driver)
	o.CommitAge = 100 * time.Millisecond
	s := open(t, o)
	defer s.Close()
	old := set(t, s, "a", "1")
	time.Sleep(70 * time.Millisecond)
	young := set(t, s, "b", "1")
	waitFor(t, func() bool { return s.Stats().Committed >= old })
	if st := s.Stats(); st.Committed >= young {
		t.Logf("the young one went along: %+v", st) // the machine was slow
	}
	waitFor(t, func() bool { return s.Stats().Committed >= young })
	waitFor(t, func() bool { return s.Stats().Pending == 0 && s.Stats().OldestAge == 0 })
}

// TestCommitBytes: a lot that is pending is committed at once, in order, whole
// Updates only, each key once in a transaction.
func TestCommitBytes(t *testing.T) {
	driver := mem.New(mem.Options{})
	o := options(newDisk(), driver)
	o.CommitBytes = 256 << 10
	s := open(t, o)
	defer s.Close()
	value := string(make([]byte, 1000))
	var lsn backend.LSN
	for i := range 600 {
		lsn, _ = apply1(t.Context(), s, []edit{{key: "left", value: fmt.Sprint(i)}, {key: fmt.Sprint(i), value: value}, {key: "right", value: fmt.Sprint(i)}})
	}
	waitFor(t, func() bool { st := s.Stats(); return st.PendingBytes < o.CommitBytes })
	st := s.Stats()
	if st.Committed < lsn/2 || st.MeanBatch() < 5 {
		t.Errorf("%+v", st)
	}
	for range 50 { // any state of the driver holds whole Updates
		got, err := readAll(context.Background(), driver.CrashRand(rand.New(rand.NewPCG(1, 1))))
		if err != nil || got["left"] != got["right"] {
			t.Errorf("the driver holds %q and %q, %v", got["left"], got["right"], err)
		}
	}
}

// TestShortLivedKeys: keys made and removed again cost the driver little.
func TestShortLivedKeys(t *testing.T) {
	driver := mem.New(mem.Options{})
	s := open(t, options(newDisk(), driver))
	defer s.Close()
	for i := range 400 {
		set(t, s, fmt.Sprint("tmp", i%10), "x")
		if _, err := apply1(t.Context(), s, []edit{{key: fmt.Sprint("tmp", i%10), deleted: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Commits != 1 || st.Updates != 800 {
		t.Errorf("%d commits of %d updates, want 1 of 800", st.Commits, st.Updates)
	}
	if got, err := readAll(t.Context(), s); err != nil || len(got) != 0 {
		t.Errorf("left: %q, %v", got, err)
	}
}
