package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warrenfs/warren/fusefs/mountinfo"
	"golang.org/x/sys/unix"
)

// A daemon that is killed while it tells a mount's kernel of a change may not be able
// to end. The kernel's lock that its thread waits for is held by a request that nobody
// answers any more, and neither can be interrupted; as long as the thread is there the
// connection counts as served, and the store as open. What helps is to end the
// connections of that process.

const (
	// endingTime is how long a process that was killed takes to end, if it can.
	endingTime = time.Second
	// stuckTime bounds the wait for its end.
	stuckTime = 10 * time.Second
)

// lockFree locks f, the lock of a store, and waits for no living process. A holder
// that was killed is waited for, and helped if it cannot end. EWOULDBLOCK comes with
// who holds it.
func lockFree(f *os.File) (holder string, err error) {
	try := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	if err = try(); err != unix.EWOULDBLOCK {
		return "", err
	}
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	holder = "pid " + string(bytes.TrimSpace(text))
	pid, perr := strconv.Atoi(string(bytes.TrimSpace(text)))
	if perr != nil || !dying(pid) {
		return holder, err
	}
	for start := time.Now(); err == unix.EWOULDBLOCK && time.Since(start) < stuckTime; time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > endingTime {
			for _, conn := range connectionsOf(pid) {
				endConnection(conn)
			}
		}
		err = try()
	}
	if err == unix.EWOULDBLOCK {
		holder += ", which was killed and cannot end: `umount -f` each of its mounts, and end the programs in them"
	}
	return holder, err
}

// dying tells whether process pid was killed: no thread of it will run any more. One
// that SIGKILL waits for says it for all, which may be further on their way.
func dying(pid int) bool {
	first := fmt.Sprintf("/proc/%d/task/%d/status", pid, pid)
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has gone
		}
		for line := range strings.Lines(string(text)) {
			field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch value = strings.TrimSpace(value); field {
			case "State":
				if strings.HasPrefix(value, "Z") && name == first {
					return true
				}
			case "SigPnd":
				if pending, _ := strconv.ParseUint(value, 16, 64); pending&(1<<(unix.SIGKILL-1)) != 0 {
					return true
				}
			}
		}
	}
	return false
}

// connectionsOf lists the FUSE connections that process pid has open, where the
// kernel tells (Linux 6.18).
func connectionsOf(pid int) (all []uint32) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/fdinfo/*", pid))
	seen := map[uint32]bool{}
	for _, name := range names {
		text, _ := os.ReadFile(name)
		for line := range strings.Lines(string(text)) {
			value, ok := strings.CutPrefix(line, "fuse_connection:")
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if ok && err == nil && !seen[uint32(n)] {
				seen[uint32(n)] = true
				all = append(all, uint32(n))
			}
		}
	}
	return all
}

// endConnection ends FUSE connection conn: by fusectl where that is mounted, else
// by the mount, which may stay in the tree or not. Errors are of no use: whoever
// waits sees whether it helped.
func endConnection(conn uint32) {
	if os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", conn), []byte("1"), 0) == nil {
		return
	}
	all, _ := mountinfo.Read()
	for _, m := range all {
		if m.Minor != conn || m.Type != viewFS {
			continue
		}
		if at, ok := mountinfo.At(all, m.Dir); ok && at.ID == m.ID {
			_ = unix.Unmount(m.Dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
			return
		}
	}
}
