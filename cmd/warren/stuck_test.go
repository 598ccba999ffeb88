package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuckEnv makes the test program a daemon that gets stuck: "STORE:MOUNTPOINT".
const stuckEnv = "WARREN_TEST_STUCK"

// runStuck takes the lock of a store, mounts, reads until somebody looks a name up in
// the root, which it does not answer, and tells the kernel that this name has
// changed. That waits for the lock that the look-up holds.
func runStuck(args string) error {
	dir, at, _ := strings.Cut(args, ":")
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

// TestKilledWhileItTellsAKernel: a daemon that was killed, and cannot end for what its
// kernel waits for, does not keep the next from its store.
func TestKilledWhileItTellsAKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, at := t.TempDir(), filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(selfExe())
	cmd.Env = append(os.Environ(), stuckEnv+"="+dir+":"+at)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("mounted\n"))); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	pid := cmd.Process.Pid
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
	for end := time.Now().Add(time.Minute); !waiting(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not get stuck: %s", &said)
		}
	}
	if dying(pid) || dying(os.Getpid()) {
		t.Error("said to be dying, but lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := &store{dir: dir}
	if err := next.take(); err != nil {
		t.Fatal(err)
	}
	_ = next.lock.Close()
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
