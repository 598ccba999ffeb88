package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// failingDisk is an ext4 on a device that fails at times.
type failingDisk struct {
	*device
	path string // of the device's file
	dir  string // mountpoint
}

func newFailingDisk(t *testing.T) *failingDisk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounts a filesystem of its own: needs root")
	}
	dev, path := newDevice(t, 1<<30)
	d := &failingDisk{device: dev, path: path, dir: filepath.Join(t.TempDir(), "disk")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", path); err != nil {
		t.Fatal(err)
	}
	if err := d.mount(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.faults.Store(&faults{})
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *failingDisk) mount() error { return command("mount", "-o", "loop", d.path, d.dir) }

// unmount returns when the kernel has let go of the disk: a mount namespace that was
// made meanwhile, by whatever else runs on this machine, has the disk mounted as well.
func (d *failingDisk) unmount() error {
	if err := command("umount", d.dir); err != nil {
		return err
	}
	for end := waits.In(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command("losetup", "--associated", d.path).Output()
		switch {
		case err != nil:
			return fmt.Errorf("losetup: %w", err)
		case len(out) == 0:
			return nil
		case end.Passed():
			return fmt.Errorf("still in use, in another mount namespace perhaps: %s", out)
		}
	}
}

// replaced mounts the disk, which works again, anew, as its own check left it: what
// the kernel has of it in memory, and did not get onto it, is gone.
func (d *failingDisk) replaced(t *testing.T) error {
	if err := d.unmount(); err != nil {
		return err
	}
	out, err := exec.Command("e2fsck", "-f", "-y", d.path).CombinedOutput()
	if code := new(exec.ExitError); errors.As(err, &code) {
		t.Logf("e2fsck: %v: %s", err, out)
		if code.ExitCode() > 2 {
			return fmt.Errorf("e2fsck: %w", err)
		}
	}
	return d.mount()
}

// counts are the failures that a daemon says it has noticed.
func counts(t *testing.T, s *stack.Stack) (n int) {
	type counts struct {
		Failures int `json:"failures"`
		Syncs    int `json:"sync_failures"`
	}
	var st struct{ Log, Commits, Segments counts }
	if err := json.Unmarshal([]byte(s.Warren(t, "status", "--json")), &st); err != nil {
		t.Error(err)
	}
	return st.Log.Syncs + st.Log.Failures + st.Commits.Failures + st.Segments.Syncs
}

// TestFailingDisk: reads, writes and flushes of the disk fail at random while a
// daemon works, then it is killed and what was not written is gone. Whoever got an
// error got one that says so; what an fsync had acknowledged is there afterwards, in a
// state that there was.
func TestFailingDisk(t *testing.T) {
	if *rounds == 0 {
		t.Skip("takes minutes: make crash ROUNDS=N runs it")
	}
	r := seed(t)
	noticed := 0
	for _, c := range []struct {
		what string
		faults
	}{
		{"reads", faults{reads: 300}},
		{"flushes", faults{flushes: 2000}},
		{"writes", faults{writes: 100}},
		{"all", faults{reads: 100, writes: 100, flushes: 500}},
	} {
		t.Run(c.what, func(t *testing.T) { noticed += failing(t, r, c.faults, crashes(2)) })
	}
	t.Logf("in %d rounds the daemon noticed", noticed)
}

// rereads has what is read come from the disk, until what it gives is called:
// the kernel's memory of this machine is emptied again and again.
func (d *failingDisk) rereads(t *testing.T, how faults) (stop func()) {
	if how.reads == 0 {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
				t.Error(err)
			}
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// failing gives in how many rounds the daemon noticed something.
func failing(t *testing.T, r *rand.Rand, how faults, rounds int) (noticed int) {
	d := newFailingDisk(t)
	s := stack.ForTest(t, stack.Options{Store: filepath.Join(d.dir, "store")})
	defer func() {
		if t.Failed() {
			t.Log(s.Log())
		}
	}()
	soul := filepath.Join(s.Soul, workspace)
	var ws []*writer
	for _, name := range []string{"one", "two", "three"} {
		if err := os.Mkdir(filepath.Join(soul, name), 0o755); err != nil {
			t.Fatal(err)
		}
		w := newWriter(filepath.Join(soul, name), r.Uint64())
		w.sure = refused
		ws = append(ws, w)
	}
	s.Warren(t, "sync")
	died := 0
	defer func() { t.Logf("the daemon died in %d rounds, of a page that could not be read", died) }()
	for range rounds {
		work(t, ws, time.Duration(300+r.IntN(700))*time.Millisecond, func() error {
			d.faults.Store(&how)
			defer d.rereads(t, how)()
			time.Sleep(time.Duration(500+r.IntN(2000)) * time.Millisecond)
			if r.IntN(2) == 0 { // it works again before the end
				d.faults.Store(&faults{})
				time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
			}
			if s.Alive() && counts(t, s) > 0 {
				noticed++
			}
			d.faults.Store(&faults{})
			if s.Alive() {
				return s.Signal(syscall.SIGKILL)
			}
			// Badger's own goroutines read through mappings (package badger, Damage).
			if log := s.Log(); how.reads == 0 || !strings.Contains(log, "unexpected fault address") {
				t.Errorf("the daemon died: %s", log)
			}
			died++
			return nil
		})
		t.Logf("failed: %d reads, %d writes, %d flushes", d.failed[0].Load(), d.failed[1].Load(), d.failed[2].Load())
		if err := d.replaced(t); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(soul); err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			w.check(t, w.durable())
		}
		s.Fsck(t)
		if t.Failed() {
			return noticed
		}
	}
	return noticed
}

// refused tells whether an error is what a call may get of a daemon whose disk
// fails, or has died.
func refused(err error) bool {
	for _, e := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.ENOTCONN, syscall.ECONNABORTED} {
		if strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}
