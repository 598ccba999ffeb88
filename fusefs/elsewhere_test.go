package fusefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// elsewhere returns the mounts that namespaces other than ours hold and that
// match, as the number and directory of each with its namespace. A process that makes a
// namespace (unshare, bwrap) copies every mount there is: a connection then ends
// with that namespace, whatever happens to the mount here.
func elsewhere(match func(minor, dir string) bool) map[string]string {
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	held, seen := map[string]string{}, map[string]bool{ours: true, "": true}
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		ns, _ := os.Readlink(p + "/ns/mnt")
		if seen[ns] {
			continue
		}
		table, err := os.ReadFile(p + "/mountinfo")
		if err != nil {
			continue // it has ended; another process may show the same namespace
		}
		seen[ns] = true
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) > 4 && match(strings.TrimPrefix(f[2], "0:"), f[4]) {
				held[f[2]+" "+f[4]] = ns
			}
		}
	}
	return held
}

// TestElsewhere: a mount that a foreign namespace has copied is found while that
// namespace is there.
func TestElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	m := s.mounted("m", Config{})
	minor := fmt.Sprint(m.minor)
	mine := func(at, _ string) bool { return at == minor }
	if held := elsewhere(mine); len(held) > 0 {
		t.Logf("held before: %v", held) // by other tests' namespaces
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", "echo ready; read end")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 8))
	must(t, err)
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid))
	must(t, err)
	if held := elsewhere(mine); len(held) == 0 {
		t.Errorf("the copy in %s is not found", ns)
	}
	if err := m.Unmount(t.Context(), false); err != nil && !errors.Is(err, ErrElsewhere) {
		t.Error(err)
	}
	s.over(m) // does not fail, although the connection lives
	must(t, in.Close())
	_ = cmd.Wait() // sh's read fails
	waits.For(t, "the connection ends with the namespace", func() bool {
		select {
		case <-m.ended:
			return true
		default:
			return len(elsewhere(mine)) > 0 // a third one's
		}
	})
}

// over waits until m's connection has ended, or until all that keeps it is the
// namespace of somebody else.
func (s *stack) over(m *Mount) {
	s.t.Helper()
	minor := fmt.Sprint(m.minor)
	mine := func(at, _ string) bool { return at == minor }
	for limit := waits.In(time.Minute); !waits.Received(time.Second, m.ended); {
		if held := elsewhere(mine); len(held) > 0 {
			s.t.Logf("the connection of %s lives on in %v", m.Dir(), held)
			return
		}
		if limit.Passed() {
			s.t.Errorf("the connection of %s lives on without users", m.Dir())
			return
		}
	}
}

// closed waits until this process has no descriptor of /dev/fuse, except for
// connections that namespaces of others hold.
func (s *stack) closed() {
	s.t.Helper()
	below := func(_, dir string) bool { return strings.Contains(dir+"/", s.dir+"/") }
	for limit := waits.In(time.Minute); !waits.Until(time.Second, func() bool { return fuseDescriptors() == 0 }); {
		left, held := fuseDescriptors(), elsewhere(below)
		if left > 0 && left <= len(held) {
			s.t.Logf("%d descriptors of /dev/fuse are held by %v", left, held)
			return
		}
		if limit.Passed() {
			s.t.Errorf("%d descriptors of /dev/fuse left", left)
			return
		}
	}
}
