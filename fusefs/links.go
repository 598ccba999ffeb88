package fusefs

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/mountinfo"
	"github.com/warrenfs/warren/policy/view"
)

// The kernel asks for a link's text in the same way for readlink(2) and when it
// follows the link. Where that makes a difference (view.Symlink.Guarded) the text
// goes only to a thread that is in readlink(2). A thread that follows the link gets the
// text of view.Follow. So an orchestrator's mounts do not cache texts.

func (f *fileSystem) Readlink(_ <-chan struct{}, in *fuse.InHeader) ([]byte, fuse.Status) {
	f.count.add(opReadlink)
	node := f.node(in.NodeId)
	if isControl(node) {
		return nil, fuse.EINVAL
	}
	r := f.request(in)
	s, err := f.view.ReadSymlink(&r, node)
	if err != nil {
		return nil, f.status("readlink", err)
	}
	if !s.Guarded {
		return []byte(s.Target), fuse.OK
	}
	call, known := f.systemCall(in.Pid)
	switch {
	case !known:
		return nil, f.status("readlink", backend.Denied)
	case readsLinks(call):
		return []byte(s.Target), fuse.OK
	}
	text, err := f.view.Follow(s, f.shownTo(in.Pid))
	if err != nil {
		return nil, f.status("readlink", err)
	}
	return []byte(text), fuse.OK
}

// readsLinks reports whether a system call's number is that of readlink(2) or
// readlinkat(2), as a 64-bit program numbers them.
func readsLinks(call int64) bool {
	old := map[string]int64{"amd64": 89, "ppc64le": 85, "s390x": 85}[runtime.GOARCH]
	return call == unix.SYS_READLINKAT || old != 0 && call == old
}

// blockedTime bounds the wait for a thread to have gone to sleep after it has sent
// a request.
const blockedTime = 10 * time.Second

// systemCall returns the number of the system call that the thread pid is in while it
// waits for an answer, or -1 if it is in none. known is false for a thread of another
// pid namespace (the kernel reports only 0), of a mount that was handed over, or that
// the daemon is not allowed to inspect (ptrace(2)), and for a thread that the kernel
// reports to number system calls differently.
func (f *fileSystem) systemCall(pid uint32) (call int64, known bool) {
	if f.handed != nil || pid == 0 || strconv.IntSize != 64 {
		return 0, false
	}
	name := fmt.Sprintf("/proc/%d/syscall", pid)
	for start, pause := time.Now(), 20*time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, false
		}
		number, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		if number != "running" { // sent, and not asleep yet
			call, err = strconv.ParseInt(number, 10, 64)
			return call, err == nil
		}
		if time.Since(start) > blockedTime {
			return 0, false
		}
		f.kern.dev.standby()
		time.Sleep(pause)
	}
}

// shownTo lists where the mount is, to the thread pid.
func (f *fileSystem) shownTo(pid uint32) (out []view.Shown) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil
	}
	defer file.Close()
	table, _ := mountinfo.Parse(file)
	root := f.view.RootPath()
	for _, e := range table {
		if e.Type != fsType || e.Minor != f.minor {
			continue
		}
		if at, ok := mountinfo.At(table, e.Dir); ok && at.ID == e.ID {
			out = append(out, view.Shown{Dir: e.Dir, Root: path.Join(root, e.Root)})
		}
	}
	return out
}
