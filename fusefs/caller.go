package fusefs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Bits of a thread's capabilities.
const (
	capFowner   = 3
	capSysAdmin = 21
)

// caller is who has sent a request that the kernel sends without its user: where ids may
// be mapped it tells that only of what makes new files.
type caller struct {
	uid  uint32 // for the file system
	caps uint64 // effective ones, in the daemon's user namespace
}

// callerOf looks at the thread pid, which waits for an answer. It cannot tell who is
// behind a mount of another pid namespace.
func (f *fileSystem) callerOf(pid uint32) (c caller, ok bool) {
	if f.handed != nil {
		return c, false
	}
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
		case field == "CapEff" && len(words) == 1:
			c.caps, _ = strconv.ParseUint(words[0], 16, 64)
		}
	}
	c.uid = uint32(uid)
	theirs, err := os.Readlink(proc + "ns/user")
	ours, oerr := os.Readlink("/proc/self/ns/user")
	if err != nil || oerr != nil || theirs != ours {
		c.caps = 0
	}
	return c, ok
}

// may tells whether the thread pid has a capability.
func (f *fileSystem) may(pid uint32, capability int) bool {
	c, ok := f.callerOf(pid)
	return ok && c.caps&(1<<capability) != 0
}
