package writeback_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
)

// badReads is a directory in which some calls that read fail with EIO: those
// numbered from from on, times of them.
type badReads struct {
	dirfs.FS
	calls       atomic.Int64
	from, times int64
}

func (b *badReads) fails() error {
	if n := b.calls.Add(1); n >= b.from && n < b.from+b.times {
		return syscall.EIO
	}
	return nil
}

func (b *badReads) List() ([]string, error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	return b.FS.List()
}

func (b *badReads) Open(name string) (dirfs.File, error) {
	if err := b.fails(); err != nil {
		return nil, err
	}
	f, err := b.FS.Open(name)
	return unreadFile{f, b}, err
}

func (b *badReads) Create(name string) (dirfs.File, error) {
	f, err := b.FS.Create(name)
	return unreadFile{f, b}, err
}

type unreadFile struct {
	dirfs.File
	b *badReads
}

func (f unreadFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.b.fails(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f unreadFile) Size() (int64, int64, error) {
	if err := f.b.fails(); err != nil {
		return 0, 0, err
	}
	return f.File.Size()
}

// TestReadErrorsAnywhere fails every call that reads the log's directory: Open
// fails with IO, or has everything; it never opens with less, and when the disk
// is well again everything is there.
func TestReadErrorsAnywhere(t *testing.T) {
	const updates = 60 // in three files
	refused := 0
	for _, times := range []int64{1, 3, 1000} {
		for from := int64(1); ; from++ {
			d, driver := newDisk(), mem.New(mem.Options{})
			s := open(t, options(d, driver))
			for i := range updates {
				set(t, s, fmt.Sprint(i), string(make([]byte, 600)))
			}
			if err := s.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := d.PowerCut(rand.New(rand.NewPCG(1, 1)), 0)
			driver = driver.Reopen()
			bad := &badReads{FS: left, from: from, times: times}
			got, err := writeback.Open(t.Context(), options(bad, driver))
			switch {
			case err == nil:
				if all, err := readAll(t.Context(), got); err != nil || len(all) != updates {
					t.Fatalf("call %d, %d times: opened with %d of %d keys, %v", from, times, len(all), updates, err)
				}
			case backend.KindOf(err) != backend.IO:
				t.Errorf("call %d, %d times: Open: %v, want IO", from, times, err)
			default:
				refused++
				got = open(t, options(left, driver))
				if all, err := readAll(t.Context(), got); err != nil || len(all) != updates {
					t.Errorf("call %d, %d times: when the disk is well again: %d of %d keys, %v", from, times, len(all), updates, err)
				}
			}
			_ = got.Close() // its disk may fail still
			if bad.calls.Load() < from {
				break
			}
		}
	}
	if refused < 10 {
		t.Errorf("only %d reads were noticed to fail", refused)
	}
}
