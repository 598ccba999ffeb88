package tree_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

// file is one regular file under test.
type file struct {
	t   *testing.T
	tr  *tree.Tree
	vol backend.VolumeID
	ino backend.Ino
}

func newFile(t *testing.T) *file {
	tr, vol := openMemTree(t)
	f := &file{t: t, tr: tr, vol: vol}
	f.do(func(tx *tree.Txn) error {
		a, err := tx.Create(backend.RootIno, "f", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644})
		f.ino = a.Node.Ino()
		return err
	})
	return f
}

func (f *file) do(fn func(*tree.Txn) error) {
	f.t.Helper()
	if err := f.tr.With(f.vol, fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *file) write(p []byte, off uint64) {
	f.t.Helper()
	f.do(func(tx *tree.Txn) error { _, err := tx.Write(f.ino, p, off); return err })
}

func (f *file) truncate(size uint64) {
	f.t.Helper()
	f.do(func(tx *tree.Txn) error { _, err := tx.Setattr(f.ino, backend.SetAttr{Size: &size}); return err })
}

func (f *file) attr() (a backend.Attr) {
	f.do(func(tx *tree.Txn) (err error) { a, err = tx.Attr(f.ino); return err })
	return a
}

func (f *file) expect(off uint64, want []byte) {
	f.t.Helper()
	got := make([]byte, len(want))
	f.do(func(tx *tree.Txn) error {
		n, err := tx.Read(f.ino, got, off)
		if n != len(want) {
			f.t.Errorf("read at %d gives %d bytes, want %d", off, n, len(want))
		}
		return err
	})
	if !bytes.Equal(got, want) {
		f.t.Errorf("wrong bytes at %d", off)
	}
}

func page(x byte) []byte { return bytes.Repeat([]byte{x}, 4096) }

// pages writes n pages with a hole after each, so that none coalesces.
func (f *file) pages(n int) {
	for i := range n {
		f.write(page(byte(i)|1), uint64(i)*8192)
	}
}

// TestTruncateByBarrier truncates a file of many extents at once, and uses the
// voided range while it is being reclaimed.
func TestTruncateByBarrier(t *testing.T) {
	for _, keep := range []uint64{0, 8192*3 + 100} {
		f := newFile(t)
		f.pages(3000)
		f.truncate(keep)
		f.truncate(8192 * 3000)
		f.expect(8192*10, make([]byte, 4096))
		f.expect(8192*2999, make([]byte, 4096))
		f.write(page(7), 8192*1500)
		f.expect(8192*1500, page(7))
		f.truncate(8192 * 1400)
		f.truncate(8192 * 3000)
		f.expect(8192*1500, make([]byte, 4096))
		if keep > 0 {
			f.expect(8192*3, page(3)[:100])
			f.expect(8192*3+100, make([]byte, 3996))
		}
		f.waitBlocks((keep + 8191) / 8192 * 8)
	}
}

// waitBlocks waits until the reclaimer has given the space back: at most want
// 512-byte units are left.
func (f *file) waitBlocks(want uint64) {
	f.t.Helper()
	for end := waits.In(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var used uint64
		f.do(func(tx *tree.Txn) error { used = tx.Stat().UsedBytes; return nil })
		if f.attr().Blocks <= want && used <= want*512 {
			return
		}
		if end.Passed() {
			f.t.Fatalf("%d blocks and %d bytes are still used, want %d blocks", f.attr().Blocks, used, want)
		}
	}
}

func TestPunchByBarrier(t *testing.T) {
	f := newFile(t)
	f.pages(2000)
	for i := range 20 { // more than barriers fit
		off := uint64(8192*100*i) + 50
		f.do(func(tx *tree.Txn) error {
			return tx.Fallocate(f.ino, off, 8192*900, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		})
	}
	f.expect(0, page(1)[:50])
	f.expect(8192, make([]byte, 4096))
	f.expect(8192*1999, make([]byte, 4096))
}

func TestSparseFarOffsets(t *testing.T) {
	f := newFile(t)
	far := uint64(3) << 40
	f.write([]byte("end"), far)
	f.expect(far, []byte("end"))
	f.expect(far-5000, make([]byte, 5000))
	if a := f.attr(); a.Size != far+3 || a.Blocks > 8 {
		t.Errorf("size %d, blocks %d", a.Size, a.Blocks)
	}
	f.do(func(tx *tree.Txn) error {
		at, err := tx.Seek(f.ino, 0, false)
		if at < far-4096 || at > far {
			t.Errorf("SEEK_DATA finds %d, want about %d", at, far)
		}
		if hole, err := tx.Seek(f.ino, 0, true); hole != 0 || err != nil {
			t.Errorf("SEEK_HOLE finds %d, %v", hole, err)
		}
		return err
	})
	err := f.tr.With(f.vol, func(tx *tree.Txn) error { _, err := tx.Write(f.ino, []byte("x"), math.MaxUint64-3); return err })
	if !errors.Is(err, backend.TooBig) {
		t.Errorf("write past the largest size: %v", err)
	}
}

// TestAppendByLines: a file written line by line does not fall into lines.
func TestAppendByLines(t *testing.T) {
	f := newFile(t)
	var want []byte
	for i := range 2000 {
		line := fmt.Appendf(nil, "line %d of the file\n", i)
		want = append(want, line...)
		f.do(func(tx *tree.Txn) error { _, err := tx.Append(f.ino, line); return err })
	}
	f.expect(0, want)
	n := 0
	err := f.tr.Store().View(t.Context(), func(kv backend.Tx) error {
		return kv.ScanKeys([]byte{'e'}, []byte{'f'}, func([]byte) error { n++; return nil })
	})
	if limit := len(want)/4096 + 2; err != nil || n > limit {
		t.Errorf("%d extents for %d bytes, want at most %d (%v)", n, len(want), limit, err)
	}
}

// TestConcurrentTxns: four goroutines change one volume at once.
func TestConcurrentTxns(t *testing.T) {
	f := newFile(t)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			name := fmt.Sprint("d", g)
			for i := range 300 {
				err := f.tr.With(f.vol, func(tx *tree.Txn) error {
					if _, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular}); err != nil {
						return err
					}
					_, err := tx.Append(f.ino, []byte("x"))
					return err
				})
				if err == nil {
					err = f.tr.With(f.vol, func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, name) })
				}
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if a := f.attr(); a.Size != 1200 {
		t.Errorf("size %d after 1200 appends of one byte", a.Size)
	}
}

// TestChownClearsSetID: of everything but directories, as Linux does.
func TestChownClearsSetID(t *testing.T) {
	tr, vol := openMemTree(t)
	uid := uint32(7)
	for typ, want := range map[backend.FileType]uint32{
		backend.TypeRegular: 0o555, backend.TypeFIFO: 0o555, backend.TypeSocket: 0o555, backend.TypeChar: 0o555, backend.TypeDir: 0o6555,
	} {
		err := tr.With(vol, func(tx *tree.Txn) error {
			a, err := tx.Create(backend.RootIno, fmt.Sprint(typ), tree.CreateSpec{Type: typ, Mode: 0o6555})
			if err == nil {
				a, err = tx.Setattr(a.Node.Ino(), backend.SetAttr{UID: &uid})
			}
			if a.Mode != want {
				t.Errorf("type %d: mode %o after chown, want %o", typ, a.Mode, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
