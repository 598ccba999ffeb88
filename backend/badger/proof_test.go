package badger_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// diskNode passes all on to a directory, but for writes to tables while there is a
// file "fail" beside that directory: to the number that it holds, and later ones, they
// are EIO.
type diskNode struct {
	*fs.LoopbackNode
	fail string
}

var (
	_ fs.NodeWrapChilder = (*diskNode)(nil)
	_ fs.NodeWriter      = (*diskNode)(nil)
	_ fs.NodeWritever    = (*diskNode)(nil)
)

func (n *diskNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &diskNode{child.(*fs.LoopbackNode), n.fail}
}

func (n *diskNode) Write(ctx context.Context, f fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	name := n.Path(n.Root())
	if first, err := os.ReadFile(n.fail); err == nil && strings.HasSuffix(name, ".sst") && filepath.Base(name) >= string(first) {
		return 0, syscall.EIO
	}
	return f.(fs.FileWriter).Write(ctx, data, off)
}

func (n *diskNode) Writev(ctx context.Context, f fs.FileHandle, data [][]byte, off int64) (uint32, syscall.Errno) {
	return n.Write(ctx, f, slices.Concat(data...), off)
}

// TestInDisk is no test of its own: it serves such a directory, in a process of its
// own, since a process must not map files that it serves itself.
func TestInDisk(t *testing.T) {
	dir := os.Getenv("DISK_DIR")
	if dir == "" {
		t.Skip("for TestFailedCompaction")
	}
	root := &fs.LoopbackRoot{Path: filepath.Join(dir, "blocks")}
	root.RootNode = &diskNode{&fs.LoopbackNode{RootData: root}, filepath.Join(dir, "fail")}
	server, err := fs.Mount(filepath.Join(dir, "disk"), root.RootNode, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, DisableSplice: true, FsName: "disk", Name: "disk",
			MaxStackDepth: -1}}) // no passthrough: writes are to come here
	if err != nil {
		fmt.Println("DISK", err)
		return
	}
	fmt.Println("DISK mounted")
	server.Wait()
}

// badDisk gives a directory on such a disk, where writes to the tables from a first on
// fail until works is called.
func badDisk(t *testing.T, first string) (disk string, works func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts a filesystem of its own: needs root")
	}
	dir := t.TempDir()
	disk = filepath.Join(dir, "disk")
	for _, d := range []string{disk, filepath.Join(dir, "blocks")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInDisk$")
	cmd.Env = append(os.Environ(), "DISK_DIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(disk, unix.MNT_DETACH)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said, ok := strings.CutPrefix(lines.Text(), "DISK "); ok {
			if said != "mounted" {
				t.Skip(said)
			}
			break
		}
	}
	fail := filepath.Join(dir, "fail")
	if err := os.WriteFile(fail, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	return disk, func() {
		if err := os.Remove(fail); err != nil {
			t.Error(err)
		}
	}
}

// rows are keys with values that do not compress.
func rows(r *rand.Rand, from, n int) map[string][]byte {
	out := map[string][]byte{}
	for i := range n {
		value := make([]byte, 32<<10)
		for at := 0; at < len(value); at += 8 {
			copy(value[at:], fmt.Appendf(nil, "%016x", r.Uint64()))
		}
		out[fmt.Sprintf("key%06d", (from+i)*7919%1_000_003)] = value
	}
	return out
}

// fills writes rows until an Update is refused, two hundred megabytes at most, and calls
// then after each Update. It gives what was acknowledged.
func fills(s *badger.Store, r *rand.Rand, then func()) (want map[string][]byte, refused error) {
	want = map[string][]byte{}
	for n := 0; n < 100 && refused == nil; n++ {
		batch := rows(r, n*60, 60)
		_, refused = s.Update(ctx, func(tx backend.Tx) error {
			for k, v := range batch {
				if err := tx.Set([]byte(k), v); err != nil {
					return err
				}
			}
			return nil
		})
		if refused == nil {
			maps.Copy(want, batch)
		}
		then()
	}
	return want, refused
}

// TestFailedCompaction: the disk fails while tables are merged, of which Badger
// itself takes no notice. Nothing that was acknowledged is lost by that: what is not
// merged stays, and the store asks to be opened anew.
func TestFailedCompaction(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a hundred megabytes")
	}
	const first = "000005.sst" // four memtables are written; merging them is the first that fails
	disk, works := badDisk(t, first)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	dir := filepath.Join(disk, "store")
	s := openFull(t, dir)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		for end := waits.In(time.Minute); !end.Passed(); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, first)); err == nil {
				break
			}
		}
		time.Sleep(2 * time.Second)
		works()
	}()
	want, refused := fills(s, r, func() {})
	<-failed
	if refused != nil && backend.KindOf(refused) != backend.IO && backend.KindOf(refused) != backend.NoSpace {
		t.Errorf("an Update says %v", refused)
	}
	t.Logf("%d keys; Updates: %v", len(want), refused)
	holds(t, "while it is open", s, want)
	_ = s.Close()
	again := reopened(t, dir)
	holds(t, "opened again", again, want)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// reopened opens a copy of a store: of one that was left as it is the directory
// stays locked.
func reopened(t *testing.T, dir string) *badger.Store {
	t.Helper()
	s, err := badger.Open(ctx, badger.Options{Dir: cloneDir(t, dir), Ballast: testBallast})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// holds fails the test where a store does not have what it should.
func holds(t *testing.T, when string, s *badger.Store, want map[string][]byte) {
	t.Helper()
	missing := 0
	err := s.View(ctx, func(tx backend.Tx) error {
		for k, v := range want {
			if got, err := tx.Get([]byte(k)); err != nil || string(got) != string(v) {
				missing++
			}
		}
		return nil
	})
	if err != nil || missing > 0 {
		t.Errorf("%s: %d of %d keys are missing, %v", when, missing, len(want), err)
	}
}
