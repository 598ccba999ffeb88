package writeback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
)

// shelf is a small Bulk: a key that begins with "at" names the bytes of the same
// key on the shelf.
type shelf struct {
	mu     sync.Mutex
	has    map[string]string
	events []string
	fail   error // of the syncs
	look   error // of Verify
}

var _ writeback.Bulk = (*shelf)(nil)

func newShelf() *shelf { return &shelf{has: map[string]string{}} }

func (s *shelf) note(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, what)
	return s.fail
}

func (s *shelf) setFail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *shelf) SyncLoose(context.Context) error { return s.note("loose") }
func (s *shelf) Sync(context.Context) error      { return s.note("all") }

func (s *shelf) Restore(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[strings.TrimPrefix(string(key), "ride ")] = string(value)
	return nil
}

func (s *shelf) Verify(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look != nil {
		return s.look
	}
	if got, ok := s.has[string(key)]; bytes.HasPrefix(key, []byte("at")) && (!ok || got != string(value)) {
		return fmt.Errorf("%s is not on the shelf", key)
	}
	return nil
}

// put is an Update that puts one value on the shelf, or with ride in the log.
func (s *shelf) put(t *testing.T, st *writeback.Store, key, value string, ride bool) backend.LSN {
	t.Helper()
	lsn, err := st.Update(t.Context(), func(tx backend.Tx) error {
		if ride {
			if err := tx.(interface{ Ride(k, v []byte) error }).Ride([]byte("ride "+key), []byte(value)); err != nil {
				return err
			}
			if _, err := tx.Get([]byte("ride " + key)); backend.KindOf(err) != backend.NotFound {
				t.Errorf("what rides can be read: %v", err)
			}
		}
		return tx.Set([]byte(key), []byte(value))
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.has[key] = value
	s.mu.Unlock()
	return lsn
}

// TestBulkIsSyncedFirst: what is kept elsewhere is made durable before each
// sync of the log and each commit to the driver.
func TestBulkIsSyncedFirst(t *testing.T) {
	d, driver, b := newDisk(), mem.New(mem.Options{}), newShelf()
	o := options(d, driver)
	o.Bulk = b
	s := open(t, o)
	d.SetHook(func(c call, done bool) error {
		if c.Op == "sync" && !done {
			_ = b.note("log")
		}
		return nil
	})
	driver.SetHook(func(p mem.Point, _ uint64) error {
		if p == mem.BeforeUpdate {
			_ = b.note("driver")
		}
		return nil
	})
	expect := func(what string, want ...string) {
		t.Helper()
		b.mu.Lock()
		defer b.mu.Unlock()
		if !slices.Equal(b.events, want) {
			t.Errorf("%s: %v, want %v", what, b.events, want)
		}
		b.events = nil
	}
	expect("Open", "loose")
	lsn := b.put(t, s, "at1", "x", false)
	expect("Update")
	if err := s.WaitDurable(t.Context(), lsn); err != nil {
		t.Fatal(err)
	}
	expect("WaitDurable", "loose", "log")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("Flush", "all", "driver")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	expect("Close", "loose", "log") // of the file that stays
}

// TestBulkThatCannotBeSynced fails a wait and a commit, and is no reason to
// give the log's file up.
func TestBulkThatCannotBeSynced(t *testing.T) {
	d, driver, b := newDisk(), mem.New(mem.Options{}), newShelf()
	o := options(d, driver)
	o.Bulk = b
	s := open(t, o)
	lsn := b.put(t, s, "at1", "x", false)
	creates := 0
	d.SetHook(func(c call, done bool) error {
		if c.Op == "create" || c.Op == "sync" {
			creates++
		}
		return nil
	})
	b.setFail(errors.New("the shelf broke"))
	for range 2 {
		err := s.WaitDurable(t.Context(), lsn)
		if backend.KindOf(err) != backend.IO || !strings.Contains(fmt.Sprint(err), "the shelf broke") {
			t.Errorf("WaitDurable: %v", err)
		}
	}
	if err := s.Flush(t.Context()); err == nil {
		t.Error("Flush committed what is not durable")
	}
	if st := s.Stats(); creates != 0 || st.Durable != 0 || st.Committed != 0 || st.LogError != nil {
		t.Errorf("%d calls into the log, %+v", creates, st)
	}
	b.setFail(nil)
	if err := errors.Join(s.WaitDurable(t.Context(), lsn), s.Flush(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

// TestBytesThatAreNotThereEndTheLog: recovery takes the Updates up to the first
// whose bytes are missing, but keeps those that had been durable.
func TestBytesThatAreNotThereEndTheLog(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable %v", durable), func(t *testing.T) {
			d, driver, b := newDisk(), mem.New(mem.Options{}), newShelf()
			o := options(d, driver)
			o.Bulk = b
			s := open(t, o)
			b.put(t, s, "at1", "x", false)
			lsn := b.put(t, s, "at2", "y", false)
			if durable {
				if err := s.WaitDurable(t.Context(), lsn); err != nil {
					t.Fatal(err)
				}
			}
			b.put(t, s, "at3", "z", false)
			delete(b.has, "at2")
			var text bytes.Buffer
			after := options(d.Killed(call{}, 0), driver.Reopen())
			after.Bulk, after.Log = b, slog.New(slog.NewTextHandler(&text, nil))
			again := open(t, after)
			got, err := readAll(t.Context(), again)
			want := state{"at1": "x"}
			if durable {
				want["at2"], want["at3"] = "y", "z"
			}
			if err != nil || len(got) != len(want) || got["at2"] != want["at2"] {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
			if told := strings.Contains(text.String(), "level=ERROR") && strings.Contains(text.String(), "at2 is not"); told != durable {
				t.Errorf("the log says %s", &text)
			}
			if err := errors.Join(again.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBytesThatCannotBeReadEndNothing: a disk that gives no answer at recovery is no
// reason to drop Updates that were acknowledged. Open fails, and when it answers all
// of them are there; accepting loss ends the log.
func TestBytesThatCannotBeReadEndNothing(t *testing.T) {
	for _, accept := range []bool{false, true} {
		d, driver, b := newDisk(), mem.New(mem.Options{}), newShelf()
		o := options(d, driver)
		o.Bulk = b
		s := open(t, o)
		defer s.Kill()
		b.put(t, s, "at1", "x", false)
		b.put(t, s, "at2", "y", false)
		after := options(d.Killed(call{}, 0), driver.Reopen())
		after.Bulk, after.AcceptLoss = b, accept
		b.look = &backend.Error{Op: "verify", Kind: backend.Unavailable, Err: syscall.EIO}
		again, err := writeback.Open(t.Context(), after)
		want := 0
		if !accept {
			if backend.KindOf(err) != backend.IO || !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "AcceptLoss") {
				t.Fatalf("Open: %v; want IO, the cause and the way out", err)
			}
			b.look, want = nil, 2
			again, err = writeback.Open(t.Context(), after)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.look = nil
		if got, err := readAll(t.Context(), again); err != nil || len(got) != want {
			t.Errorf("accept loss %v: %v, %v; want %d", accept, got, err, want)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatRides comes back from the log, also from one that was written anew,
// and gets nowhere else.
func TestWhatRides(t *testing.T) {
	d, driver, b := newDisk(), mem.New(mem.Options{}), newShelf()
	o := options(d, driver)
	o.Bulk = b
	s := open(t, o)
	value := strings.Repeat("v", 5000)
	lsn := b.put(t, s, "at1", value, true)
	if err := s.WaitDurable(t.Context(), lsn); err != nil {
		t.Fatal(err)
	}
	for _, life := range []string{"first", "second"} {
		d, driver = d.PowerCut(nil, 0), driver.CrashClone(0)
		after := options(d, driver)
		lost := newShelf()
		after.Bulk = lost
		again := open(t, after)
		if got, err := readAll(t.Context(), again); err != nil || len(got) != 1 || lost.has["at1"] != value {
			t.Errorf("%s life: %d keys, %v; on the shelf %d bytes", life, len(got), err, len(lost.has["at1"]))
		}
		again.Kill()
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.View(t.Context(), func(tx backend.Tx) error {
		return tx.Scan([]byte("ride"), nil, func(k, _ []byte) error { t.Errorf("%q is in the store", k); return nil })
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Error(err)
	}
}

// TestWaitCommitted returns when the driver has the Update, and at the end.
func TestWaitCommitted(t *testing.T) {
	s := open(t, options(newDisk(), mem.New(mem.Options{})))
	lsn, err := s.Update(t.Context(), func(tx backend.Tx) error { return tx.Set([]byte("k"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.WaitCommitted(short, lsn); backend.KindOf(err) != backend.Interrupted {
		t.Errorf("before the commit: %v", err)
	}
	done := make(chan error, 2)
	go func() { done <- s.WaitCommitted(t.Context(), lsn) }()
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("after the commit: %v", err)
	}
	go func() { done <- s.WaitCommitted(context.Background(), lsn+1) }()
	time.Sleep(10 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; backend.KindOf(err) != backend.Unavailable {
		t.Errorf("at the end: %v", err)
	}
}

// slowShelf is a shelf whose next SyncLoose, once it is armed, lasts until it is let go.
type slowShelf struct {
	*shelf
	armed   atomic.Bool
	in, out chan struct{}
}

func (s *slowShelf) SyncLoose(ctx context.Context) error {
	if s.armed.CompareAndSwap(true, false) {
		close(s.in)
		<-s.out
	}
	return s.shelf.SyncLoose(ctx)
}

// TestASyncOfAFileThatIsGone: while a sync waits for what is kept elsewhere, the
// driver gets all that is in the log, which goes on in another file; the first is
// closed. That is no failure of the log's.
func TestASyncOfAFileThatIsGone(t *testing.T) {
	b := &slowShelf{shelf: newShelf(), in: make(chan struct{}), out: make(chan struct{})}
	s := open(t, writeback.Options{Driver: mem.New(mem.Options{}), Dir: t.TempDir(), Bulk: b,
		SyncAge: time.Hour, CommitAge: time.Hour, LogFileSize: 64 << 10})
	lsn := b.put(t, s, "at1", "x", false)
	b.armed.Store(true)
	done := make(chan error, 1)
	go func() { done <- s.WaitDurable(t.Context(), lsn) }()
	<-b.in
	flush := func() {
		t.Helper()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	b.put(t, s, "at2", strings.Repeat("y", 62<<10), false)
	flush()
	waitFor(t, func() bool { st := s.Stats(); return st.LogBytes > 62<<10 && st.LogBytes < 70<<10 }) // of the new file alone
	close(b.out)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.SyncFailures != 0 || st.LogError != nil {
		t.Errorf("%d failures of syncs, %v", st.SyncFailures, st.LogError)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
