package crashtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/stack"
)

// disk is an ext4 in an image, mounted.
type disk struct {
	image string
	dir   string // mountpoint
}

func command(argv ...string) error {
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", argv, err, out)
	}
	return nil
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts a filesystem of its own: needs root")
	}
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "disk")}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(2 << 30); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", d.image); err != nil {
		t.Fatal(err)
	}
	if err := d.mount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) mount() error   { return command("mount", "-o", "loop", d.image, d.dir) }
func (d *disk) unmount() error { return command("umount", d.dir) }

// cut puts in the disk's place what its image holds at this moment: what the
// kernel has not written yet is lost. The daemon must be stopped, and is ended.
func (d *disk) cut(s *stack.Stack) error {
	if err := copySparse(d.image, d.image+".cut"); err != nil {
		return err
	}
	if err := s.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := d.unmount(); err != nil {
		return err
	}
	if err := os.Rename(d.image+".cut", d.image); err != nil {
		return err
	}
	return d.mount()
}

// copySparse copies the data of a file that has holes. It starts no program: a
// child inherits descriptors on the mount, which close at its exec, and the
// close waits for a daemon that is stopped.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	for end := int64(0); ; {
		start, err := unix.Seek(int(in.Fd()), end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return out.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
		if end, err = unix.Seek(int(in.Fd()), start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(in, start, end-start)); err != nil {
			return err
		}
	}
}

// churn writes and removes large files and attributes, so that memtables rotate,
// log files go and segments are reclaimed, until the mount fails or stop is closed.
func churn(dir string, stop <-chan struct{}) {
	block := make([]byte, 1<<20)
	value := make([]byte, 60<<10)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		block[i%len(block)]++
		f, err := os.Create(filepath.Join(dir, fmt.Sprint("big", i%5)))
		if err != nil {
			return
		}
		for range 1 + i%4 {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
		for n := range 8 { // these are in the log and in the database, whole
			value[i%len(value)]++
			name := fmt.Sprint("user.churn", (8*i+n)%120) // one key more than once in a commit counts once
			if err := unix.Fsetxattr(int(f.Fd()), name, value, 0); err != nil {
				break
			}
		}
		f.Close()
		time.Sleep(5 * time.Millisecond)
	}
}

func TestPowerCut(t *testing.T) {
	d, r := newDisk(t), seed(t)
	store := filepath.Join(d.dir, "store")
	s := stack.ForTest(t, stack.Options{Store: store})
	soul := filepath.Join(s.Soul, workspace)
	var ws []*writer
	for _, name := range []string{"one", "two", "churn"} {
		if err := os.Mkdir(filepath.Join(soul, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "churn" {
			ws = append(ws, newWriter(filepath.Join(soul, name), r.Uint64()))
		}
	}
	s.Warren(t, "sync")
	went, rounds := &turnover{}, crashes(6)
	for range rounds {
		unwatch := went.watch(store)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			churn(filepath.Join(soul, "churn"), stop)
			close(ended)
		}()
		work(t, ws, time.Duration(200+r.IntN(2500))*time.Millisecond, func() error {
			unwatch()
			if err := s.Pause(); err != nil {
				return err
			}
			return d.cut(s)
		})
		close(stop)
		<-ended
		if err := s.Restart(soul); err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			w.check(t, w.durable())
		}
		s.Fsck(t)
		if t.Failed() {
			return
		}
	}
	went.happened(t, rounds)
}
