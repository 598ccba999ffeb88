package writeback_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

// narrow gives a store with room for about 1 MiB, and its driver.
func narrow(t *testing.T) (*writeback.Store, *mem.Store, writeback.Options) {
	t.Helper()
	driver := mem.New(mem.Options{})
	o := options(newDisk(), driver)
	o.MaxPending = 1 << 20
	return open(t, o), driver, o
}

var big = string(make([]byte, 60<<10))

// put60K is an Update of 60 KiB.
func put60K(ctx context.Context, s *writeback.Store, key string) error {
	_, err := apply1(ctx, s, []edit{{key: key, value: big}})
	return err
}

// TestPendingIsBounded holds the driver up while many write: they wait, memory
// stays bounded, and they go on when the driver does.
func TestPendingIsBounded(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, driver, o := narrow(t)
	defer s.Close()
	release := make(chan struct{})
	driver.SetHook(func(p mem.Point, n uint64) error {
		if p == mem.BeforeCommit {
			<-release
		}
		return nil
	})
	var done atomic.Int32
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 10 {
				if err := put60K(ctx, s, fmt.Sprint(w, i)); err != nil {
					t.Error(err)
				}
				done.Add(1)
			}
		})
	}
	waitFor(t, func() bool { return s.Stats().PendingBytes > o.MaxPending })
	time.Sleep(50 * time.Millisecond)
	if n, st := done.Load(), s.Stats(); n > 19 || st.PendingBytes > o.MaxPending+64<<10 {
		t.Errorf("%d Updates of 60 KiB returned, %d bytes pending, the bound is %d", n, st.PendingBytes, o.MaxPending)
	}
	if err := s.View(ctx, func(tx backend.Tx) error { _, err := tx.Get([]byte("no such key")); return err }); !errors.Is(err, backend.NotFound) {
		t.Errorf("View while Updates wait: %v", err)
	}
	if err := s.Sync(ctx); err != nil {
		t.Errorf("Sync while Updates wait: %v", err)
	}
	short, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	if err := put60K(short, s, "late"); err == nil || backend.KindOf(err) != backend.Interrupted {
		t.Errorf("Update whose context ends: %v, want Interrupted", err)
	}
	close(release)
	wg.Wait()
	if err := s.Flush(ctx); err != nil {
		t.Error(err)
	}
	if got, err := readAll(ctx, s); err != nil || len(got) != 80 {
		t.Errorf("%d keys, %v; want 80", len(got), err)
	}
}

// fillUp writes until it is refused.
func fillUp(ctx context.Context, s *writeback.Store) error {
	for i := range 100 {
		if err := put60K(ctx, s, fmt.Sprint("fill", i)); err != nil {
			return err
		}
	}
	return nil
}

// TestFullDriver: Updates are taken while there is room in memory and log, then
// refused with NoSpace; when there is room again they go on, and nothing is lost.
func TestFullDriver(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, driver, _ := narrow(t)
	defer s.Close()
	var fullNow atomic.Bool
	fullNow.Store(true)
	driver.SetHook(func(p mem.Point, n uint64) error {
		if p == mem.BeforeCommit && fullNow.Load() {
			return &backend.Error{Op: "update", Kind: backend.NoSpace, Err: errors.New("told to be full")}
		}
		return nil
	})
	if err := fillUp(ctx, s); err == nil || backend.KindOf(err) != backend.NoSpace {
		t.Fatalf("Update with a full driver: %v, want NoSpace", err)
	}
	st := s.Stats()
	if st.CommitError == nil || st.CommitFails == 0 || st.Pending < 10 {
		t.Errorf("%+v", st)
	}
	if err := s.Sync(ctx); err != nil {
		t.Errorf("Sync with a full driver: %v", err)
	}
	if err := s.Flush(ctx); err == nil || backend.KindOf(err) != backend.NoSpace {
		t.Errorf("Flush with a full driver: %v", err)
	}
	fullNow.Store(false)
	waitFor(t, func() bool { return s.Stats().CommitError == nil })
	if err := errors.Join(put60K(ctx, s, "more"), s.Flush(ctx)); err != nil {
		t.Error(err)
	}
	if got, err := readAll(ctx, s); err != nil || len(got) != st.Pending+1 {
		t.Errorf("%d keys, %v; want %d", len(got), err, st.Pending+1)
	}
}

// TestBrokenDriver: Updates over the bound wait while commits fail, and end
// with IO when their context does; closing leaves everything in the log.
func TestBrokenDriver(t *testing.T) {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, driver, o := narrow(t)
	driver.SetHook(mem.FailAt(mem.BeforeCommit, 0, 1<<30, &backend.Error{Op: "update", Kind: backend.IO, Err: errors.New("told to fail")}))
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	if err := fillUp(short, s); err == nil || backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "told to fail") {
		t.Fatalf("Update with a broken driver: %v, want IO", err)
	}
	want, err := readAll(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Close()
	if err == nil || backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "stay in the log") {
		t.Fatalf("Close with a broken driver: %v", err)
	}
	o.FS = o.FS.(*disk).PowerCut(rand.New(rand.NewPCG(1, 1)), 0)
	o.Driver = driver.Reopen()
	s = open(t, o)
	if got, err := readAll(ctx, s); err != nil || len(got) != len(want) {
		t.Errorf("%d keys, %v; want %d", len(got), err, len(want))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFailingCommitsRefuseUpdatesInTheEnd: without a context that ends, too.
func TestFailingCommitsRefuseUpdatesInTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for some seconds")
	}
	s, driver, _ := narrow(t)
	driver.SetHook(mem.FailAt(mem.BeforeCommit, 0, 1<<30, &backend.Error{Op: "update", Kind: backend.IO, Err: errors.New("told to fail")}))
	start := time.Now()
	err := fillUp(context.Background(), s)
	if err == nil || backend.KindOf(err) != backend.IO || time.Since(start) > 30*time.Second {
		t.Errorf("after %v: %v, want IO after some seconds", time.Since(start), err)
	}
	if err := s.Close(); err == nil {
		t.Error("Close: no error")
	}
}

// TestCloseEndsTheWait: Updates that wait for room are told that the store closes.
func TestCloseEndsTheWait(t *testing.T) {
	s, driver, _ := narrow(t)
	release := make(chan struct{})
	driver.SetHook(func(p mem.Point, n uint64) error {
		if p == mem.BeforeCommit {
			<-release
		}
		return nil
	})
	refused := make(chan error, 1)
	go func() { refused <- fillUp(context.Background(), s) }()
	waitFor(t, func() bool { return s.Stats().PendingBytes > 1<<20 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if err := <-refused; backend.KindOf(err) != backend.Unavailable {
		t.Errorf("Update while the store closes: %v, want Unavailable", err)
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if err := s.Flush(context.Background()); backend.KindOf(err) != backend.Unavailable {
		t.Errorf("Flush of a closed store: %v", err)
	}
}

// TestCloseLeavesASmallLog: one file, no bigger than its header, and the mark.
func TestCloseLeavesASmallLog(t *testing.T) {
	s, _, o := narrow(t)
	for i := range 30 {
		if err := put60K(t.Context(), s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d := o.FS.(*disk)
	for name, f := range d.Names {
		if len(d.Names) != 2 || d.Names["synced"] == nil || len(f.Cache) != 4096 {
			t.Errorf("%d files, %s has %d bytes", len(d.Names), name, len(f.Cache))
		}
	}
}

// TestFullLogDisk: where the disk has no room for another log file, one is
// enough as long as the driver takes what is in it. Where it does not, Updates
// are refused with NoSpace, and go on when it does again.
func TestFullLogDisk(t *testing.T) {
	d, driver := newDisk(), mem.New(mem.Options{})
	d.Room = 18 << 10 // one file and half a header
	s := open(t, options(d, driver))
	defer s.Close()
	value := string(make([]byte, 300))
	for i := range 400 {
		set(t, s, fmt.Sprint(i%50), value)
	}
	var fullNow atomic.Bool
	fullNow.Store(true)
	driver.SetHook(func(p mem.Point, n uint64) error {
		if p == mem.BeforeCommit && fullNow.Load() {
			return &backend.Error{Op: "update", Kind: backend.NoSpace, Err: errors.New("told to be full")}
		}
		return nil
	})
	last := s.LastLSN()
	var err error
	for i := 0; i < 200 && err == nil; i++ {
		if _, err = apply1(t.Context(), s, []edit{{key: "x", value: value}}); err == nil {
			last++
		}
	}
	if backend.KindOf(err) != backend.NoSpace {
		t.Fatalf("Update with a full log: %v, want NoSpace", err)
	}
	if got := s.LastLSN(); got != last {
		t.Errorf("LSN %d, want %d", got, last)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	fullNow.Store(false)
	if lsn := set(t, s, "y", value); lsn != last+1 {
		t.Errorf("LSN %d, want %d", lsn, last+1)
	}
	if st := s.Stats(); st.LogError != nil {
		t.Errorf("%+v", st)
	}
}
