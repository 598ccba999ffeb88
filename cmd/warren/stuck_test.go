package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/scripts/waits"
)

// stuckEnv makes the test program a daemon that gets stuck: "STORE:MOUNTPOINT", and
// ":guard" behind it if it is to have one.
const stuckEnv = "WARREN_TEST_STUCK"

// runStuck takes the lock of a store, mounts, reads until somebody looks a name up in
// the root, which it does not answer, and tells the kernel that this name has
// changed. That waits for the lock that the look-up holds.
func runStuck(args string) error {
	dir, at, _ := strings.Cut(args, ":")
	at, guarded := strings.CutSuffix(at, ":guard")
	if guarded {
		if err := startGuard(slog.New(slog.DiscardHandler)); err != nil {
			return err
		}
	}
	s := &store{dir: dir}
	if err := s.take(); err != nil {
		return err
	}
	defer runtime.KeepAlive(s) // a lock file that is collected is closed
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Mount("stuck", at, viewFS, unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		return err
	}
	ne, b := binary.NativeEndian, make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, b)
		if err != nil || n < 40 {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
		switch opcode := ne.Uint32(b[4:]); opcode {
		case 26: // INIT: version 7.31
			out := make([]byte, 16+64)
			ne.PutUint32(out, uint32(len(out)))
			copy(out[8:16], b[8:16])
			ne.PutUint32(out[16:], 7)
			ne.PutUint32(out[20:], 31)
			ne.PutUint32(out[16+20:], 1<<16) // max_write
			if _, err := unix.Write(fd, out); err != nil {
				return err
			}
			fmt.Println("mounted")
		case 1: // LOOKUP
			out := make([]byte, 16+16+2)
			ne.PutUint32(out, uint32(len(out)))
			ne.PutUint32(out[4:], 3) // NOTIFY_INVAL_ENTRY
			ne.PutUint64(out[16:], 1)
			ne.PutUint32(out[24:], 1)
			out[32] = 'x'
			_, err := unix.Write(fd, out)
			return fmt.Errorf("the notice did not wait: %w", err)
		}
	}
}

// stuck is a daemon that is stuck.
type stuck struct {
	*exec.Cmd
	dir  string // of its store
	said bytes.Buffer
}

// newStuck starts one. with is what stands behind its arguments.
func newStuck(t *testing.T, with string) *stuck {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s, at := &stuck{Cmd: exec.Command(selfExe()), dir: t.TempDir()}, filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Env = append(os.Environ(), stuckEnv+"="+s.dir+":"+at+with)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Stderr = &s.said
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH)
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("mounted\n"))); err != nil {
		t.Fatalf("%v: %s", err, &s.said)
	}
	pid := s.Process.Pid
	if len(connectionsOf(pid)) == 0 {
		t.Skip("this kernel does not tell which FUSE connections a process has")
	}
	asker := exec.Command("mkdir", at+"/x")
	if err := asker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH) // what it waits for may not come
		_ = asker.Wait()
	})
	for end := waits.In(time.Minute); !waiting(pid); time.Sleep(5 * time.Millisecond) {
		if end.Passed() {
			t.Fatal("it does not get stuck")
		}
	}
	if dying(pid) || dying(os.Getpid()) {
		t.Error("said to be dying, but lives")
	}
	return s
}

// TestKilledWhileItTellsAKernel: a daemon that was killed, and cannot end for what its
// kernel waits for, does not keep the next from its store.
func TestKilledWhileItTellsAKernel(t *testing.T) {
	s := newStuck(t, "")
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := &store{dir: s.dir}
	if err := next.take(); err != nil {
		t.Fatal(err)
	}
	_ = next.lock.Close()
}

// TestGuard: with a guard such a daemon ends by itself, for all who wait for it; and
// the guard goes with it.
func TestGuard(t *testing.T) {
	s := newStuck(t, ":guard")
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }() // until the guard has let go of stderr, too
	select {
	case <-ended:
	case <-waits.After(t, time.Minute):
		t.Fatal("the daemon or its guard has not ended")
	}
	if !strings.Contains(s.said.String(), "was killed and cannot end") {
		t.Errorf("the guard said %q", &s.said)
	}
}

// waiting tells whether a thread of process pid waits uninterruptibly.
func waiting(pid int) bool {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if bytes.Contains(text, []byte("State:\tD")) {
			return true
		}
	}
	return false
}
