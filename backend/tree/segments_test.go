package tree_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

// bulk is a tree with one file, over segments on a disk.
type bulk struct {
	*file
	dir    string
	driver *mem.Store
	store  *segment.Store
	rest   time.Duration // Options.RestAfter
	told   lockedBuffer
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newBulk(t *testing.T) *bulk {
	b := &bulk{file: &file{t: t}, dir: t.TempDir(), driver: mem.New(mem.Options{})}
	b.open()
	t.Cleanup(func() { b.tr.Close(); b.store.Close() })
	info, _, err := b.tr.CreateVolume(t.Context(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: b.tr.Root(), Name: "v", Mode: 0o755})
	must(t, err)
	b.vol = info.ID
	b.ino = b.create("f")
	return b
}

func (b *bulk) create(name string) (ino backend.Ino) {
	b.do(func(tx *tree.Txn) error {
		a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644})
		ino = a.Node.Ino()
		return err
	})
	return ino
}

func (b *bulk) open() {
	log := slog.New(slog.NewTextHandler(&b.told, nil))
	c, err := segment.Open(segment.Options{Dir: filepath.Join(b.dir, "segments"), Logged: true, Reserve: -1, SegmentSize: 4 << 20,
		ReclaimEvery: 10 * time.Millisecond, Log: log})
	must(b.t, err)
	wb, err := writeback.Open(b.t.Context(), writeback.Options{Driver: b.driver, Dir: filepath.Join(b.dir, "log"), Bulk: c, CommitAge: 20 * time.Millisecond})
	must(b.t, err)
	b.store, err = c.Bind(b.t.Context(), wb)
	must(b.t, err)
	b.tr, err = tree.Open(b.t.Context(), tree.Options{Store: b.store, Content: c, Log: log, RestAfter: b.rest})
	must(b.t, err)
}

func (b *bulk) reopen() {
	must(b.t, b.close())
	b.open()
}

func (b *bulk) close() error {
	err := errors.Join(b.tr.Close(), b.store.Close())
	b.driver = b.driver.Reopen()
	return err
}

// used is what the segments take of the disk, in bytes.
func (b *bulk) used() (n int64) {
	b.t.Helper()
	names, err := filepath.Glob(filepath.Join(b.dir, "segments", "*.seg"))
	must(b.t, err)
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err == nil { // else it was removed just now
			n += st.Blocks * 512
		}
	}
	return n
}

// settles waits until the segments take at most limit bytes.
func (b *bulk) settles(what string, limit int64) {
	b.t.Helper()
	for end := waits.In(time.Minute); b.used() > limit; time.Sleep(20 * time.Millisecond) {
		if end.Passed() {
			b.t.Fatalf("%s: %d bytes are used, want at most %d", what, b.used(), limit)
		}
		_, err := b.store.Compact(b.t.Context(), b.tr)
		must(b.t, err)
	}
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// TestOverwritesGiveSpaceBack overwrites pages of a big file at random, part of
// which another file shares, while it is read: the cost is what is written, and
// segments are compacted, with all extents that name a content.
func TestOverwritesGiveSpaceBack(t *testing.T) {
	b := newBulk(t)
	r := rand.New(rand.NewPCG(1, 1))
	const size = 8 << 20
	want := noise(r, size)
	for at := 0; at < size; at += 1 << 20 {
		b.write(want[at:at+1<<20], uint64(at))
	}
	copied := b.create("copy")
	b.do(func(tx *tree.Txn) error {
		for at := uint64(0); at < size/2; {
			n, err := tx.CopyRange(b.ino, at, copied, at, size/2-at)
			if err != nil {
				return err
			}
			at += n
		}
		return nil
	})
	shared := bytes.Clone(want[:size/2])
	before := b.used()
	if before > size+size/4 {
		t.Errorf("%d bytes are used for %d", before, size)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // no reader ever sees a segment vanish
		defer close(done)
		p := make([]byte, size/2)
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := b.tr.With(b.vol, func(tx *tree.Txn) error { _, err := tx.Read(copied, p, 0); return err })
			if err != nil || !bytes.Equal(p, shared) {
				t.Errorf("a reader got %v", err)
				return
			}
		}
	}()
	for i := range 10_000 {
		at, page := r.IntN(size/4096)*4096, noise(r, 4096)
		copy(want[at:], page)
		b.write(page, uint64(at))
		if i == 0 && b.used()-before > 64<<10 {
			t.Errorf("one page took %d bytes", b.used()-before)
		}
		if i%500 == 499 {
			_, err := b.store.Compact(t.Context(), b.tr)
			must(t, err)
		}
	}
	b.settles("after the overwrites", 2*(size+size/2)+4<<20)
	close(stop)
	<-done
	check := func() {
		t.Helper()
		b.expect(0, want)
		checkTree(t, b.tr)
	}
	check()
	b.reopen()
	check()
	b.do(func(tx *tree.Txn) error {
		return errors.Join(tx.Unlink(backend.RootIno, "f"), tx.Unlink(backend.RootIno, "copy"))
	})
	b.settles("after the files are gone", 4<<20)
	checkTree(t, b.tr)
	if text := b.told.String(); strings.Contains(text, "level=ERROR") {
		t.Error(text)
	}
}

// TestDamageOfOneSegment: a flipped bit, and a segment that is lost, are IO for
// the bytes concerned; the log and fsck name them, and all else goes on.
func TestDamageOfOneSegment(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, file string)
	}{
		{"a flipped bit", func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			must(t, err)
			data[5000] ^= 4
			must(t, os.WriteFile(file, data, 0o600))
		}},
		{"a lost segment", func(t *testing.T, file string) { must(t, os.Remove(file)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBulk(t)
			r := rand.New(rand.NewPCG(1, 1))
			want := noise(r, 9<<20) // three segments
			for at := 0; at < len(want); at += 1 << 20 {
				b.write(want[at:at+1<<20], uint64(at))
			}
			small := b.create("small")
			b.do(func(tx *tree.Txn) error { _, err := tx.Write(small, want[:100], 0); return err })
			must(t, b.close())
			files, err := filepath.Glob(filepath.Join(b.dir, "segments", "*.seg"))
			must(t, err)
			if len(files) != 3 {
				t.Fatalf("%d segments", len(files))
			}
			slices.Sort(files)
			c.damage(t, files[0])
			b.open()
			p := make([]byte, 1<<20)
			err = b.tr.With(b.vol, func(tx *tree.Txn) error { _, err := tx.Read(b.ino, p, 0); return err })
			if !errors.Is(err, backend.IO) {
				t.Errorf("the damaged bytes: %v, want IO", err)
			}
			b.expect(8<<20, want[8<<20:])
			name := strings.TrimSuffix(filepath.Base(files[0]), ".seg")
			if text := b.told.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, name) {
				t.Errorf("the log says %q", text)
			}
			var problems []string
			must(t, b.tr.Check(t.Context(), tree.CheckOptions{Content: true}, func(p tree.Problem) { problems = append(problems, p.String()) }))
			if all := strings.Join(problems, "\n"); len(problems) == 0 || !strings.Contains(all, name) || !strings.Contains(all, "extent [0, 1048576)") {
				t.Errorf("fsck says %q", problems)
			}
			if c.name == "a flipped bit" && len(problems) != 1 {
				t.Errorf("fsck says more than that: %q", problems)
			}
			b.write(want[:1<<20], 0) // what is written anew is whole
			b.expect(0, want[:1<<20])
			b.do(func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "small") })
			must(t, b.tr.Sync(t.Context()))
		})
	}
}

// TestCheckOfSegments: fsck compares the counts of segments with what is named.
func TestCheckOfSegments(t *testing.T) {
	b := newBulk(t)
	b.write(page(1), 0)
	b.write(page(2), 4096)
	found := func() (out string) {
		t.Helper()
		must(t, b.tr.Check(t.Context(), tree.CheckOptions{}, func(p tree.Problem) { out += p.String() + "\n" }))
		return out
	}
	if text := found(); text != "" {
		t.Fatal(text)
	}
	var key, value []byte
	must(t, b.store.View(t.Context(), func(kv backend.Tx) error {
		return kv.Scan([]byte("s\x01"), []byte("s\x02"), func(k, v []byte) error {
			key, value = bytes.Clone(k), bytes.Clone(v)
			return nil
		})
	}))
	change := func(fn func(kv backend.Tx) error) {
		t.Helper()
		_, err := b.store.Update(context.Background(), fn)
		must(t, err)
	}
	wrong := bytes.Clone(value)
	wrong[1] ^= 1 // of the live bytes
	change(func(kv backend.Tx) error { return kv.Set(key, wrong) })
	if text := found(); !strings.Contains(text, "segment 0000000000000001: counts say 2 records") {
		t.Errorf("a wrong count: %q", text)
	}
	change(func(kv backend.Tx) error { return kv.Delete(key) })
	if text := found(); !strings.Contains(text, "counts say 0 records of 0 bytes up to 0; 2 of 8320 bytes") {
		t.Errorf("no count: %q", text)
	}
	change(func(kv backend.Tx) error { return kv.Set(key, value) })
	change(func(kv backend.Tx) error { // the extent of a page is gone
		var ext []byte
		err := kv.ScanKeys([]byte("e"), []byte("f"), func(k []byte) error { ext = bytes.Clone(k); return nil })
		return errors.Join(err, kv.Delete(ext))
	})
	if text := found(); !strings.Contains(text, fmt.Sprintf("1 records of %d bytes that nothing names", 4096+64)) {
		t.Errorf("an orphan: %q", text)
	}
}

// extents counts those of the store.
func (b *bulk) extents() (n int) {
	b.t.Helper()
	must(b.t, b.store.View(b.t.Context(), func(kv backend.Tx) error {
		n = 0
		return kv.ScanKeys([]byte("e"), []byte("f"), func([]byte) error { n++; return nil })
	}))
	return n
}

// TestSmallWritesAreCoalesced: what is written in small steps, one after the
// other, ends in few extents; what another file shares stays shared, and what is
// written elsewhere meanwhile is not lost.
func TestSmallWritesAreCoalesced(t *testing.T) {
	b := newBulk(t)
	r := rand.New(rand.NewPCG(1, 1))
	want := noise(r, 4<<20)
	at := 0
	for step := 0; at < len(want); step++ {
		n := min([]int{4096, 8192, 100, 5000}[step/200%4], len(want)-at)
		b.write(want[at:at+n], uint64(at))
		at += n
		if step%100 == 99 {
			over := noise(r, 300)
			hit := r.IntN(at - len(over))
			copy(want[hit:], over)
			b.write(over, uint64(hit))
		}
	}
	for end := waits.In(time.Minute); b.extents() > 300; time.Sleep(10 * time.Millisecond) {
		if end.Passed() {
			t.Fatalf("%d extents", b.extents())
		}
	}
	b.expect(0, want)
	before := b.attr()
	if before.Blocks != uint64(len(want)+511)/512 {
		t.Errorf("%d blocks for %d bytes", before.Blocks, len(want))
	}
	checkTree(t, b.tr)
	b.reopen()
	b.expect(0, want)

	b.do(func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "f") })
	b.ino = b.create("parts")
	for at := 0; at < 1<<20-4096; at += 4096 {
		b.write(want[at:at+4096], uint64(at))
	}
	copied := b.create("copy")
	b.do(func(tx *tree.Txn) error { _, err := tx.CopyRange(b.ino, 1<<19, copied, 0, 1<<19-4096); return err })
	b.write(want[1<<20-4096:1<<20], 1<<20-4096) // the run is complete
	time.Sleep(100 * time.Millisecond)
	b.expect(0, want[:1<<20])
	checkTree(t, b.tr)
	b.do(func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "parts") })
	b.ino = copied
	b.expect(0, want[1<<19:1<<20-4096])
	checkTree(t, b.tr)
}
