package writeback_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

const accounts, total = 40, 40 * 100

func account(i int) []byte { return fmt.Appendf(nil, "account%02d", i) }

func balance(tx backend.Tx, i int) (int, error) {
	v, err := tx.Get(account(i))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// transfer moves money between two accounts; an empty one is deleted and made again.
func transfer(tx backend.Tx, r *rand.Rand) error {
	from, to := r.IntN(accounts), r.IntN(accounts)
	if from == to {
		return nil
	}
	a, err := balance(tx, from)
	if err != nil && backend.KindOf(err) != backend.NotFound {
		return err
	}
	b, err := balance(tx, to)
	if err != nil && backend.KindOf(err) != backend.NotFound {
		return err
	}
	n := r.IntN(a + 1)
	put := func(i, n int) error {
		if n == 0 {
			return tx.Delete(account(i))
		}
		return tx.Set(account(i), strconv.AppendInt(nil, int64(n), 10))
	}
	if err := put(from, a-n); err != nil {
		return err
	}
	return put(to, b+n)
}

// audit adds all accounts up, in one of several ways, with pauses.
func audit(tx backend.Tx, r *rand.Rand) error {
	sum := 0
	pause := func() {
		if r.IntN(20) == 0 {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
		}
	}
	pause()
	byGet := func(i int) error {
		n, err := balance(tx, i)
		if err != nil && backend.KindOf(err) == backend.NotFound {
			return nil
		}
		sum += n
		pause()
		return err
	}
	byScan := func(start, end []byte) error {
		return tx.Scan(start, end, func(_, v []byte) error {
			n, err := strconv.Atoi(string(v))
			sum += n
			pause()
			return err
		})
	}
	half := r.IntN(accounts + 1)
	for i := range half {
		if err := byGet(i); err != nil {
			return err
		}
	}
	if err := byScan(account(half), backend.PrefixEnd([]byte("account"))); err != nil {
		return err
	}
	if sum != total {
		return fmt.Errorf("the accounts hold %d, want %d", sum, total)
	}
	return nil
}

// TestInvariantAcrossKeys has many that update and many that look, while
// Updates are committed and trimmed all the time.
func TestInvariantAcrossKeys(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	driver := mem.New(mem.Options{})
	o := busy(driver, t.TempDir())
	s := open(t, o)
	if _, err := s.Update(ctx, func(tx backend.Tx) error {
		var errs []error
		for i := range accounts {
			errs = append(errs, tx.Set(account(i), []byte("100")))
		}
		return errors.Join(errs...)
	}); err != nil {
		t.Fatal(err)
	}
	var updates, views atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	work := func(n int, each func(r *rand.Rand) error) {
		for i := range n {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(i)))
				for !stop.Load() {
					if err := each(r); err != nil {
						t.Error(err)
						stop.Store(true)
					}
				}
			})
		}
	}
	work(4, func(r *rand.Rand) error {
		lsn, err := s.Update(ctx, func(tx backend.Tx) error {
			if r.IntN(100) == 0 {
				if err := audit(tx, r); err != nil {
					return err
				}
			}
			return transfer(tx, r)
		})
		updates.Add(1)
		if err == nil && r.IntN(50) == 0 {
			err = s.WaitDurable(ctx, lsn)
		}
		return err
	})
	work(6, func(r *rand.Rand) error {
		views.Add(1)
		return s.View(ctx, func(tx backend.Tx) error { return audit(tx, r) })
	})
	work(1, func(r *rand.Rand) error {
		time.Sleep(5 * time.Millisecond)
		return s.Flush(ctx)
	})
	time.Sleep(1500 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	st := s.Stats()
	t.Logf("%d updates, %d views, %d commits of %.1f", updates.Load(), views.Load(), st.Commits, st.MeanBatch())
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	o.Driver = driver.Reopen()
	s = open(t, o)
	defer s.Close()
	if err := s.View(ctx, func(tx backend.Tx) error { return audit(tx, rand.New(rand.NewPCG(1, 1))) }); err != nil {
		t.Error(err)
	}
}

// TestViewsThatReadLate start before Updates that are committed, and read only
// then: each must see its own state, and none may hold the committer up.
func TestViewsThatReadLate(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s := open(t, options(newDisk(), mem.New(mem.Options{})))
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	want := state{}
	release := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 60 {
		for range 1 + r.IntN(3) {
			started := make(chan struct{})
			mine, reads := want, r.IntN(4)
			wg.Go(func() {
				err := s.View(ctx, func(tx backend.Tx) error {
					close(started)
					<-release
					if reads == 0 {
						return nil
					}
					got := state{}
					if err := tx.Scan(nil, nil, func(k, v []byte) error { got[string(k)] = string(v); return nil }); err != nil {
						return err
					}
					if !maps.Equal(got, mine) {
						return fmt.Errorf("view %d: %q, want %q", i, got, mine)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			<-started
		}
		edits := plan(r, i)
		want = want.with(edits)
		if _, err := apply1(ctx, s, edits); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			if err := s.Flush(ctx); err != nil { // a deadline here means that a View was waited for
				t.Fatal(err)
			}
		}
	}
	close(release)
	wg.Wait()
}

// TestViewMayCallTheStore updates, flushes and syncs from inside a View.
func TestViewMayCallTheStore(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s := open(t, options(newDisk(), mem.New(mem.Options{})))
	defer s.Close()
	err := s.View(ctx, func(tx backend.Tx) error {
		_, err := apply1(ctx, s, []edit{{key: "a", value: "1"}})
		if err = errors.Join(err, s.Sync(ctx), s.Flush(ctx)); err != nil {
			return err
		}
		if _, err := tx.Get([]byte("a")); err == nil || backend.KindOf(err) != backend.NotFound {
			return fmt.Errorf("a View sees an Update that came after it: %v", err)
		}
		return s.View(ctx, func(tx backend.Tx) error { _, err := tx.Get([]byte("a")); return err })
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDriverViewsAreFew counts the driver's Views: reads of pending keys need
// none, others share.
func TestDriverViewsAreFew(t *testing.T) {
	ctx := t.Context()
	driver := mem.New(mem.Options{})
	s := open(t, options(newDisk(), driver))
	defer s.Close()
	if _, err := apply1(ctx, s, []edit{{key: "old", value: "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // the end of trimming
		_, err := apply1(ctx, s, []edit{{key: "new", value: "2"}})
		return err == nil
	})
	read := func(key string) {
		t.Helper()
		for range 1000 {
			if err := s.View(ctx, func(tx backend.Tx) error { _, err := tx.Get([]byte(key)); return err }); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := driver.Count(mem.BeforeView)
	read("new")
	if n := driver.Count(mem.BeforeView) - before; n != 0 {
		t.Errorf("%d views of the driver for reads of a pending key", n)
	}
	read("old")
	if n := driver.Count(mem.BeforeView) - before; n < 2 || n > 20 {
		t.Errorf("%d views of the driver for 1000 reads of a committed key", n)
	}
}

// waitFor waits until ok, for a minute at most.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := waits.In(time.Minute); !end.Passed(); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("waited in vain")
}

// TestScanMergesThreeLayers scans over keys of the driver, the overlay and the
// Update itself, in random mixtures, bounds and stops, against a map.
func TestScanMergesThreeLayers(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s := open(t, options(newDisk(), mem.New(mem.Options{})))
	defer s.Close()
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	want := state{}
	for i := range 400 {
		edits := plan(r, i)
		_, err := s.Update(ctx, func(tx backend.Tx) error {
			for _, e := range edits {
				want = want.with([]edit{e})
				var err error
				if e.deleted {
					err = tx.Delete([]byte(e.key))
				} else {
					err = tx.Set([]byte(e.key), []byte(e.value))
				}
				if err = errors.Join(err, scanPart(tx, r, want)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && r.IntN(10) == 0 {
			err = s.Flush(ctx)
		}
		if err == nil {
			err = s.View(ctx, func(tx backend.Tx) error { return scanPart(tx, r, want) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// scanPart compares a Scan and a ScanKeys of a random range with want.
func scanPart(tx backend.Tx, r *rand.Rand, want state) error {
	start, end := fmt.Sprintf("k%02d", r.IntN(22)), []byte(fmt.Sprintf("k%02d", r.IntN(22)))
	if r.IntN(5) == 0 {
		end = nil
	}
	limit := r.IntN(25)
	var expected []string
	for i := range 20 {
		k := fmt.Sprintf("k%02d", i)
		if v, ok := want[k]; ok && k >= start && (end == nil || k < string(end)) && len(expected) < 2*limit {
			expected = append(expected, k, v)
		}
	}
	var got, keys []string
	err := tx.Scan([]byte(start), end, func(k, v []byte) error {
		if len(got) == 2*limit {
			return backend.ErrStop
		}
		got = append(got, string(k), string(v))
		return nil
	})
	err = errors.Join(err, tx.ScanKeys([]byte(start), end, func(k []byte) error {
		if len(keys) == limit {
			return backend.ErrStop
		}
		keys = append(keys, string(k))
		return nil
	}))
	if err != nil {
		return err
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", expected) || len(keys) != len(expected)/2 {
		return fmt.Errorf("scan [%q, %q) of at most %d: %q, %q; want %q", start, end, limit, got, keys, expected)
	}
	return nil
}

// counter is a number stored under one key.
func counter(tx backend.Tx, key string) (uint64, error) {
	v, err := tx.Get([]byte(key))
	if err != nil && backend.KindOf(err) == backend.NotFound {
		return 0, nil
	}
	if err != nil || len(v) != 8 {
		return 0, fmt.Errorf("%s: % x, %w", key, v, err)
	}
	return binary.BigEndian.Uint64(v), nil
}

// count adds one to it in an Update and gives what it is then.
func count(ctx context.Context, s *writeback.Store, key string) (n uint64, lsn backend.LSN, err error) {
	lsn, err = s.Update(ctx, func(tx backend.Tx) error {
		if n, err = counter(tx, key); err != nil {
			return err
		}
		n++
		return errors.Join(tx.Set([]byte(key), binary.BigEndian.AppendUint64(nil, n)),
			tx.Set(fmt.Appendf(nil, "%s/%d", key, n), []byte("done")))
	})
	return n, lsn, err
}
