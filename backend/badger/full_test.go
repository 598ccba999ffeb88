package badger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

const testBallast = 24 << 20

// openFull opens a store that has a ballast.
func openFull(t testing.TB, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(ctx, badger.Options{Dir: dir, Ballast: testBallast})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallDisk mounts a tmpfs, or skips the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	return disk
}

// fillUp takes all of a disk, to the last block.
func fillUp(t *testing.T, disk string) (free func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	takeAll(f)
	return func() {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

// takeAll writes to f until there is no room for a byte.
func takeAll(f *os.File) {
	for size := 1 << 20; size > 0; size /= 16 {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}

func diskFree(t *testing.T, disk string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

func putBig(s *badger.Store, key string) error {
	r := rand.New(rand.NewPCG(uint64(len(key)), 1))
	value := make([]byte, 60<<10)
	for i := range value {
		value[i] = byte(r.Uint32())
	}
	_, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte(key), value) })
	return err
}

// TestFullDisk: on a disk that others have filled to the last block Updates are
// taken until a table would have to be written, then refused with NoSpace;
// everything stays readable; and they go on when there is room again.
func TestFullDisk(t *testing.T) {
	disk := smallDisk(t, "300m")
	dir := filepath.Join(disk, "store")
	s := openFull(t, dir)
	if err := putBig(s, "before"); err != nil {
		t.Fatal(err)
	}
	free := fillUp(t, disk)
	if n := diskFree(t, disk); n != 0 {
		t.Fatalf("%d bytes are free", n)
	}
	n := 0
	var err error
	for ; n < 2000; n++ {
		if err = putBig(s, fmt.Sprint("full", n)); err != nil {
			break
		}
	}
	if backend.KindOf(orTest(err)) != backend.NoSpace || !strings.Contains(err.Error(), "make some more") {
		t.Fatalf("after %d Updates of 60 KiB: %v, want NoSpace", n, err)
	}
	if n < 200 {
		t.Errorf("only %d Updates were taken on a full disk: deletions could not be made", n)
	}
	for i := range n {
		if v, err := get(t, s, fmt.Sprint("full", i)); len(v) != 60<<10 || err != nil {
			t.Fatalf("key %d has %d bytes, %v", i, len(v), err)
		}
	}
	free()
	for end := waits.In(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if err = putBig(s, "after"); err == nil {
			break
		}
		if end.Passed() {
			t.Fatalf("with room again: %v", err)
		}
	}
	for end := waits.In(time.Minute); s.Space().Ballast < testBallast*3/4; time.Sleep(50 * time.Millisecond) {
		if end.Passed() {
			t.Fatalf("the ballast is not made again: %+v", s.Space())
		}
	}
	closeStore(t, s)
}

// TestOpenOnAFullDisk opens, reads and writes where there is not a free block.
func TestOpenOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "300m")
	dir := filepath.Join(disk, "store")
	s := openFull(t, dir)
	for i := range 300 {
		if err := putBig(s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	fillUp(t, disk)
	for range 3 {
		if n := diskFree(t, disk); n != 0 {
			t.Fatalf("%d bytes are free", n)
		}
		s = openFull(t, dir)
		for i := range 300 {
			if v, err := get(t, s, fmt.Sprint(i)); len(v) != 60<<10 || err != nil {
				t.Fatalf("key %d has %d bytes, %v", i, len(v), err)
			}
		}
		if _, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Delete([]byte("299")) }); err != nil {
			t.Errorf("a deletion: %v", err)
		}
		set(t, s, "299", strings.Repeat("v", 60<<10))
		closeStore(t, s)
		fillUp(t, disk)
	}
}

// TestOpenWithoutABlock has a full disk, no ballast and none of the files that
// Badger makes anew: a clear error, and nothing is lost.
func TestOpenWithoutABlock(t *testing.T) {
	disk := smallDisk(t, "200m")
	dir := filepath.Join(disk, "store")
	s := open(t, dir)
	set(t, s, "a", "1")
	closeStore(t, s)
	for _, name := range []string{"DISCARD", "000001.vlog"} { // they would give some
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	free := fillUp(t, disk)
	opens(t, badger.Options{Dir: dir}, backend.NoSpace, dir)
	free()
	s = open(t, dir)
	defer closeStore(t, s)
	if v, err := get(t, s, "a"); v != "1" || err != nil {
		t.Errorf("a = %q, %v", v, err)
	}
}

// TestCloseOnAFullDisk does not wait for room: what is in memory is in the log.
func TestCloseOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "200m")
	dir := filepath.Join(disk, "store")
	s := open(t, dir)
	for i := range 100 {
		if err := putBig(s, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	fillUp(t, disk)
	if err := s.Close(); backend.KindOf(orTest(err)) != backend.NoSpace {
		t.Fatalf("Close on a full disk: %v, want NoSpace", err)
	}
	clone := t.TempDir()
	copyDir(t, dir, clone)
	s = open(t, clone)
	defer closeStore(t, s)
	if v, err := get(t, s, "99"); len(v) != 60<<10 || err != nil || s.LastLSN() != 100 {
		t.Errorf("after a restart 99 has %d bytes, %v, LastLSN %d", len(v), err, s.LastLSN())
	}
}

// TestMappingsHaveBlocks: no file of a store is mapped for writing by anyone
// without room for it; this is what keeps SIGBUS away.
func TestMappingsHaveBlocks(t *testing.T) {
	disk := smallDisk(t, "100m")
	s := open(t, filepath.Join(disk, "store"))
	defer closeStore(t, s)
	free := fillUp(t, disk)
	defer free()
	mapNew := func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "new.mem"))
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		if err := f.Truncate(8 << 20); err != nil {
			t.Fatal(err)
		}
		data, err := unix.Mmap(int(f.Fd()), 0, 8<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		return unix.Munmap(data)
	}
	if err := mapNew(filepath.Join(disk, "store")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a file of the store was mapped without room for it: %v", err)
	}
	if err := mapNew(disk); err != nil {
		t.Errorf("a file of others: %v", err)
	}
}

// TestDiskThatOthersFill runs writers in a process of their own while others
// take the disk to the last block and give it back, again and again: the
// process must live. It is killed while the disk is full, opened so, and has
// everything that was acknowledged.
func TestDiskThatOthersFill(t *testing.T) {
	kinds := []string{"ext4", "ext2", "tmpfs"} // ext2 cannot allocate
	if testing.Short() {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			var disk string
			switch kind {
			case "ext4":
				disk = imageDisk(t, "400M")
			case "ext2":
				disk = imageDisk(t, "400M", "-O", "^extent,^64bit,^metadata_csum")
			default:
				disk = smallDisk(t, "400m")
			}
			for range 1 + scale(t)/2 {
				fillBesideWriter(t, disk)
			}
		})
	}
}

func fillBesideWriter(t *testing.T, disk string) {
	dir := filepath.Join(disk, "store")
	w := startWriter(t, dir, "WRITER_BALLAST=1")
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var free func()
	end := time.Now().Add(time.Duration(6*scale(t)) * time.Second)
	for time.Now().Before(end) {
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		var others sync.WaitGroup
		stop := make(chan struct{})
		others.Go(func() { hog(t, disk, stop) })
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		close(stop)
		others.Wait()
		free = func() { os.Remove(filepath.Join(disk, "filler")) }
		if time.Now().Before(end) {
			free()
		}
	}
	if w.ended() {
		t.Fatalf("the process died beside others that fill the disk:\n%s", w.said.String())
	}
	acked := w.kill(t)
	t.Logf("%d Updates", acked)
	fillUp(t, disk)
	if got := openInChild(t, dir, "CHILD_BULK=1", "CHILD_BALLAST=1", "CHILD_READS=1"); !strings.HasPrefix(got, "lsn ") {
		t.Errorf("opened on a full disk: %s", got)
	}
	free()
	checkAfter(t, dir, acked)
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// hog takes what is free of the disk again and again until stop.
func hog(t *testing.T, disk string, stop <-chan struct{}) {
	f, err := os.OpenFile(filepath.Join(disk, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for {
		takeAll(f)
		select {
		case <-stop:
			return
		default:
		}
	}
}

// imageDisk mounts an ext4 of that size, or skips the test.
func imageDisk(t *testing.T, size string, options ...string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	mkfs(t, image, size, options...)
	t.Cleanup(mountImage(t, image))
	return image + ".d"
}

// TestDeletedContentGivesItsRoomBack: on a small disk, soon after a store is
// idle, though Badger alone would keep what few deletions hide.
func TestDeletedContentGivesItsRoomBack(t *testing.T) {
	disk := smallDisk(t, "500m")
	s := openFull(t, filepath.Join(disk, "store"))
	defer closeStore(t, s)
	const refs = 800 // of 60 KiB
	r := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 60<<10)
	for id := range uint64(refs) {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if _, err := s.Update(ctx, func(tx backend.Tx) error {
			_, err := badger.Content{}.Put(tx, id, data)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	full := diskFree(t, disk)
	if _, err := s.Update(ctx, func(tx backend.Tx) error {
		for id := range uint64(refs) {
			if err := (badger.Content{}).Free(tx, backend.Ref{ID: id, Length: 60 << 10}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for end := waits.In(time.Minute); diskFree(t, disk) < full+25<<20; time.Sleep(100 * time.Millisecond) {
		if end.Passed() {
			t.Fatalf("%d MiB were free, and %d are after all was deleted: %+v", full>>20, diskFree(t, disk)>>20, s.Space())
		}
	}
	if err := s.View(ctx, func(tx backend.Tx) error {
		return tx.ScanKeys(nil, nil, func(k []byte) error { return fmt.Errorf("key %q", k) })
	}); err != nil {
		t.Errorf("what is left: %v", err)
	}
}
