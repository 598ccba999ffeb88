package crashtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// endsWithin is the promised time between SIGTERM and the end on a failing disk: seconds,
// however long the disk stays away.
const endsWithin = 20 * time.Second

// broken is a daemon on a disk of its own that a test makes fail.
type broken struct {
	*failingDisk
	s    *stack.Stack
	soul string
}

func newBroken(t *testing.T) *broken {
	t.Helper()
	d := newFailingDisk(t)
	if err := command("mount", "-o", "remount,errors=remount-ro", d.dir); err != nil {
		t.Fatal(err)
	}
	b := &broken{failingDisk: d, s: stack.ForTest(t, stack.Options{Store: filepath.Join(d.dir, "store")})}
	b.soul = filepath.Join(b.s.Soul, workspace)
	if err := os.WriteFile(filepath.Join(b.soul, "before"), []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.s.Warren(t, "sync")
	return b
}

// turnReadOnly makes ext4 see an error, after which it accepts no more writes.
func (b *broken) turnReadOnly(t *testing.T) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(b.dir, &st); err != nil {
		t.Fatal(err)
	}
	loop, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", st.Dev>>8&0xfff, st.Dev&0xff))
	if err == nil {
		err = os.WriteFile("/sys/fs/ext4/"+filepath.Base(loop)+"/trigger_fs_error", []byte("1"), 0)
	}
	if err != nil {
		t.Skipf("ext4 cannot be made to see an error here: %v", err)
	}
}

// write writes and syncs a file, until an error or for ever.
func (b *broken) write(name string) error {
	f, err := os.Create(filepath.Join(b.soul, name))
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 100_000))
	return errors.Join(err, f.Sync(), f.Close())
}

// ends stops the daemon and checks that it says why it could not close its store.
func (b *broken) ends(t *testing.T, reason string) {
	t.Helper()
	begun := time.Now()
	if err := b.s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	took, log := time.Since(begun), b.s.Log()
	t.Logf("SIGTERM took %v", took)
	if took > endsWithin {
		t.Errorf("SIGTERM took %v", took)
	}
	if n := strings.Count(log, "was left as it is"); n != 1 || !strings.Contains(log, reason) {
		t.Errorf("%d messages that the store was left, of %q:\n%s", n, reason, log)
	}
}

// back repairs the disk, starts the daemon and looks for what was synced.
func (b *broken) back(t *testing.T) {
	t.Helper()
	if err := b.replaced(t); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Restart(b.soul); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.soul, "before")); err != nil || string(got) != "before" {
		t.Errorf("%q, %v", got, err)
	}
	if err := b.write("after"); err != nil {
		t.Error(err)
	}
	b.s.Fsck(t)
}

// TestDiskTurnsReadOnly: changes fail with EROFS, status and log name it, reading
// goes on, SIGTERM ends the daemon in seconds, and nothing that was synced is lost.
func TestDiskTurnsReadOnly(t *testing.T) {
	for _, idle := range []bool{false, true} {
		t.Run(fmt.Sprintf("idle=%v", idle), func(t *testing.T) {
			b := newBroken(t)
			if idle { // everything is in the database, which has a table to write as it closes
				waits.For(t, "all is committed", func() bool { return strings.Contains(b.s.Warren(t, "status"), "0 updates wait") })
			}
			b.turnReadOnly(t)
			if !idle {
				waits.For(t, "a write fails with EROFS", func() bool { return errors.Is(b.write("x"), syscall.EROFS) })
				waits.For(t, "status names it", func() bool { return strings.Contains(b.s.Warren(t, "status"), "read-only (EROFS)") })
				waits.For(t, "the log names it", func() bool { return strings.Contains(b.s.Log(), "the disk of the store is read-only (EROFS)") })
				if got, err := os.ReadFile(filepath.Join(b.soul, "before")); err != nil || string(got) != "before" {
					t.Errorf("reading: %q, %v", got, err)
				}
			}
			b.ends(t, "read-only (EROFS)")
			b.back(t)
		})
	}
}

// TestDiskFails: every write of the device fails. It is named, and SIGTERM ends the
// daemon in seconds.
func TestDiskFails(t *testing.T) {
	b := newBroken(t)
	b.faults.Store(&faults{writes: 10_000, flushes: 10_000})
	waits.For(t, "a write fails", func() bool {
		err := b.write("x")
		return errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS)
	})
	waits.For(t, "status names it", func() bool {
		st := b.s.Warren(t, "status")
		return strings.Contains(st, "(EIO") || strings.Contains(st, "(EROFS)")
	})
	b.ends(t, "the disk of the store")
	b.faults.Store(&faults{})
	b.back(t)
}
