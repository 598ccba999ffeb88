package fusefs

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/policy/view"
)

// Bits of a thread's capabilities.
const (
	capDACOverride = 1
	capFowner      = 3
	capSysAdmin    = 21
)

// caller is a thread that waits for an answer, as /proc shows it: a request has neither
// its groups nor its capabilities, and where ids may be mapped its user only if it makes
// files.
type caller struct {
	uid    uint32 // for the file system
	groups []string
	caps   uint64 // effective ones, in its own user namespace
	alien  bool   // that is not the daemon's
}

// readCaller reads the ids and capabilities of the thread pid. It cannot find the caller behind a
// mount of another pid namespace.
func readCaller(pid uint32) (c caller, ok bool) {
	proc := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(proc + "status")
	if err != nil {
		return c, false
	}
	uid := uint64(0)
	for line := range strings.Lines(string(text)) {
		field, value, _ := strings.Cut(line, ":")
		switch words := strings.Fields(value); {
		case field == "Uid" && len(words) == 4:
			uid, err = strconv.ParseUint(words[3], 10, 32)
			ok = err == nil
		case field == "Groups":
			c.groups = words
		case field == "CapEff" && len(words) == 1:
			c.caps, _ = strconv.ParseUint(words[0], 16, 64)
		}
	}
	c.uid = uint32(uid)
	theirs, err := os.Readlink(proc + "ns/user")
	ours, oerr := os.Readlink("/proc/self/ns/user")
	c.alien = err != nil || oerr != nil || theirs != ours
	return c, ok
}

// callerOf runs readCaller for a mount that the daemon made, and drops the capabilities of
// another user namespace.
func (f *fileSystem) callerOf(pid uint32) (c caller, ok bool) {
	if f.handed != nil {
		return c, false
	}
	c, ok = readCaller(pid)
	if c.alien {
		c.caps = 0
	}
	return c, ok
}

// may tells whether the thread pid has a capability.
func (f *fileSystem) may(pid uint32, capability int) bool {
	c, ok := f.callerOf(pid)
	return ok && c.caps&(1<<capability) != 0
}

// callers implements view.Privileges for mounts that the daemon made.
type callers struct{}

var _ view.Privileges = callers{}

// Capable implements view.Privileges: as in the kernel, a capability in another user
// namespace counts for files whose owner and group that has.
func (callers) Capable(pid uint32, capability int, uid, gid uint32) bool {
	c, ok := readCaller(pid)
	if !ok || c.caps&(1<<capability) == 0 {
		return false
	}
	return !c.alien || mapped(pid, "uid_map", uid) && mapped(pid, "gid_map", gid)
}

// InGroup implements view.Privileges.
func (callers) InGroup(pid uint32, gid uint32) bool {
	c, ok := readCaller(pid)
	if !ok {
		return false
	}
	for _, g := range c.groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil && uint32(n) == gid {
			return true
		}
	}
	return false
}

// mapped reports whether one of the daemon's ids is mapped into the user namespace of pid.
func mapped(pid uint32, table string, id uint32) bool {
	file, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, table))
	if err != nil {
		return false
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var inside, outside, n uint64
		if _, err := fmt.Sscan(s.Text(), &inside, &outside, &n); err == nil && uint64(id) >= outside && uint64(id)-outside < n {
			return true
		}
	}
	return false
}
