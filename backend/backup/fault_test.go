package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
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

var errDisk = &backend.Error{Op: "test", Kind: backend.IO, Err: syscall.EIO}

// faulty is a stack on disks in memory of which calls fail when asked to.
type faulty struct {
	stack
	calls atomic.Int64 // since the faults began
	from  atomic.Int64 // the first that fails; 0: none does
	times int64
}

func newFaulty(t *testing.T) *faulty {
	f := &faulty{}
	hook := func(_ crashdir.Call, done bool) error {
		if !done && f.fails() {
			return syscall.EIO
		}
		return nil
	}
	seg, log, driver := crashdir.New(), crashdir.New(), mem.New(mem.Options{})
	seg.Reads, log.Reads = true, true
	seg.SetHook(hook)
	log.SetHook(hook)
	driver.SetHook(func(p mem.Point, _ uint64) error {
		if p != mem.AfterCommit && p != mem.AfterSync && f.fails() {
			return errDisk
		}
		return nil
	})
	c, err := segment.Open(segment.Options{FS: seg, Logged: true, ReclaimEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	wb, err := writeback.Open(t.Context(), writeback.Options{Driver: driver, FS: log, Dir: "log", Bulk: c, SyncAge: time.Hour, CommitAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Bind(t.Context(), wb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.from.Store(0); _ = s.Close() })
	f.stack = stack{"segment", s, c}
	return f
}

func (f *faulty) fails() bool {
	from := f.from.Load()
	if from == 0 {
		return false
	}
	n := f.calls.Add(1)
	return n >= from && n < from+f.times
}

// begin makes calls from number n on fail, times of them.
func (f *faulty) begin(n, times int64) {
	f.times = times
	f.calls.Store(0)
	f.from.Store(n)
}

// end ends the faults, and tells whether there were as many calls.
func (f *faulty) end() bool { return f.calls.Load() >= f.from.Swap(0) }

// original is a store with a little of everything, and a backup of it.
func original(t *testing.T) (*faulty, []byte) {
	s := newFaulty(t)
	tr := open(t, s.stack)
	w := newScribbler(t, tr, 5)
	for range 60 {
		w.step()
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	return s, take(t, s.stack, nil)
}

// TestDiskErrorsWhileBackingUp: the backup fails with IO, or is whole.
func TestDiskErrorsWhileBackingUp(t *testing.T) {
	s, whole := original(t)
	want := records(t, whole)
	failed := 0
	n := int64(1)
	for ; ; n++ {
		var b bytes.Buffer
		s.begin(n, 1)
		_, err := Write(t.Context(), &b, s.source(), nil)
		if !s.end() {
			break
		}
		if err == nil {
			if !slices.Equal(records(t, b.Bytes()), want) {
				t.Errorf("call %d failed, and nobody was told", n)
			}
			continue
		}
		failed++
		if backend.KindOf(err) != backend.IO {
			t.Errorf("call %d failed: %v", n, err)
		}
		if _, err := Verify(bytes.NewReader(b.Bytes())); backend.KindOf(err) != backend.Invalid {
			t.Errorf("call %d failed: what was written by then is taken for a backup: %v", n, err)
		}
	}
	if failed < 20 {
		t.Errorf("%d of %d failed", failed, n)
	}
}

// TestDiskErrorsWhileRestoring: it fails with IO, or the store is whole.
func TestDiskErrorsWhileRestoring(t *testing.T) {
	_, whole := original(t)
	want := records(t, whole)
	p, err := Examine(t.Context(), readers([][]byte{whole}))
	if err != nil {
		t.Fatal(err)
	}
	step := int64(3)
	if testing.Short() {
		step = 11
	}
	failed, n := 0, int64(1)
	for ; ; n += step {
		to := newFaulty(t)
		to.begin(n, 1+n%3)
		err := Restore(t.Context(), readers([][]byte{whole}), p, Target{to.store, to.content}, nil)
		if !to.end() {
			break
		}
		switch {
		case err == nil:
			if !slices.Equal(records(t, take(t, to.stack, nil)), want) {
				t.Errorf("call %d failed, and nobody was told", n)
			}
		case backend.KindOf(err) != backend.IO:
			t.Errorf("call %d failed: %v", n, err)
		default:
			failed++
		}
	}
	if int64(failed) < n/step/2 {
		t.Errorf("%d of %d failed", failed, n/step)
	}
}

// limited fails after n bytes.
type limited struct {
	n    int
	data []byte // to be read
}

func (l *limited) Write(p []byte) (int, error) {
	got := min(l.n, len(p))
	l.n -= got
	if got < len(p) {
		return got, syscall.ENOSPC
	}
	return got, nil
}

func (l *limited) Read(p []byte) (int, error) {
	if l.n == 0 {
		return 0, syscall.EIO
	}
	got := min(l.n, len(p), len(l.data))
	copy(p, l.data[:got])
	l.n, l.data = l.n-got, l.data[got:]
	if got == 0 {
		return 0, io.EOF
	}
	return got, nil
}

// TestErrorsOfBackupFiles: an error of the file that a backup is written to or
// read from, at every byte, is told as what it is.
func TestErrorsOfBackupFiles(t *testing.T) {
	full, inc := small(t)
	c, err := NewChain(readers([][]byte{full}), true)
	if err != nil {
		t.Fatal(err)
	}
	var idx bytes.Buffer
	if err := Index(&idx, c); err != nil {
		t.Fatal(err)
	}
	p, err := Examine(t.Context(), readers([][]byte{full, inc}))
	if err != nil {
		t.Fatal(err)
	}
	s := stacks["mem"](t)
	if err := Restore(t.Context(), readers([][]byte{full}), mustExamine(t, full), Target{s.store, s.content}, nil); err != nil {
		t.Fatal(err)
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 0; n < len(full); n += step {
		if _, err := Write(t.Context(), &limited{n: n}, s.source(), nil); n < len(full)-200 && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("disk full after %d bytes: %v", n, err)
		}
		if _, err := Examine(t.Context(), []io.Reader{&limited{n, full}, bytes.NewReader(inc)}); !errors.Is(err, syscall.EIO) {
			t.Errorf("unreadable from byte %d on: %v", n, err)
		}
		to := stacks["mem"](t)
		if err := Restore(t.Context(), []io.Reader{&limited{n, full}, bytes.NewReader(inc)}, p, Target{to.store, to.content}, nil); !errors.Is(err, syscall.EIO) {
			t.Errorf("restore, unreadable from byte %d on: %v", n, err)
		}
	}
	for n := 0; n < idx.Len(); n += step {
		if _, err := Write(context.Background(), io.Discard, s.source(), &limited{n, idx.Bytes()}); !errors.Is(err, syscall.EIO) {
			t.Errorf("index unreadable from byte %d on: %v", n, err)
		}
		if c, err = NewChain(readers([][]byte{full}), true); err != nil {
			t.Fatal(err)
		}
		if err := Index(&limited{n: n}, c); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("disk full after %d bytes of an index: %v", n, err)
		}
	}
}

func mustExamine(t *testing.T, b []byte) *Plan {
	t.Helper()
	p, err := Examine(t.Context(), readers([][]byte{b}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
