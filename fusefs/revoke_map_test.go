package fusefs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// mapHolder maps a file shared and writable and does what it is told, a line at
// a time: each is answered by a line.
const mapHolder = `
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(fd, 4096)
os.close(os.open(sys.argv[1], os.O_RDONLY))
for line in sys.stdin:
    word = line.split()
    try:
        if word[0] == "store": m[int(word[1])] = ord(word[2]); out = "ok"
        if word[0] == "flush": m.flush(); out = "ok"
        if word[0] == "load": out = chr(m[int(word[1])])
        if word[0] == "read": out = os.pread(fd, 1, int(word[1])).decode()
    except OSError as e: out = e.strerror
    print(out, flush=True)
`

// holder is a process that maps a file.
type holder struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func (s *stack) holder(file string) *holder {
	t := s.t.(*testing.T)
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	ctx, cancel := waits.Context(context.Background(), 2*time.Minute)
	cmd := exec.CommandContext(ctx, python, "-c", mapHolder, file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		cancel()
	})
	return &holder{t: t, in: in, out: bufio.NewScanner(out)}
}

// do gives the answer to a line; "" if the process has died.
func (h *holder) do(format string, args ...any) string {
	h.t.Helper()
	if _, err := fmt.Fprintf(h.in, format+"\n", args...); err != nil {
		return ""
	}
	if !h.out.Scan() {
		return ""
	}
	return h.out.Text()
}

func readOnlyFacts() policy.Facts {
	f := testFacts()
	a := f.Agents["other"]
	a.Access = policy.ReadOnly
	f.Agents["other"] = a
	return f
}

// TestMapOfWhatIsReadOnlyNow: what an agent stored through a map, and had not
// flushed when it became read-only, is gone: it is neither in the store nor in
// what its own mount shows. What it stores afterwards the kernel takes into a
// page, without asking; it comes nowhere, and the page does not outlive the
// attempt to write it back.
func TestMapOfWhatIsReadOnlyNow(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(t, err)
	const file = "/agents/other/workspace/data"
	_, err = gaia.WriteFile(file, []byte(strings.Repeat(".", 8192)), 0o644)
	must(t, err)
	soul := s.mounted("other", Config{Agent: "other", Root: "/"})
	h := s.holder(soul.Dir() + file)
	stored := func(when string) {
		t.Helper()
		b, _, err := gaia.ReadFile(file, -1)
		if err != nil || string(b) != "F"+strings.Repeat(".", 8191) {
			t.Errorf("%s the store has %q... (%v)", when, b[:8], err)
		}
	}
	want := func(line, answer string) {
		t.Helper()
		if got := h.do("%s", line); got != answer {
			t.Errorf("%s: %q, want %q", line, got, answer)
		}
	}
	want("store 0 F", "ok")
	want("flush", "ok")
	stored("before,")
	want("store 1 X", "ok") // dirty
	want("load 1", "X")
	s.publish(readOnlyFacts())
	stored("right after,")
	want("load 0", "F")
	want("load 1", ".")
	want("read 1", ".")

	want("store 2 Y", "ok")
	if got := h.do("flush"); got == "ok" {
		t.Error("msync of what may not be written succeeds")
	}
	stored("after msync,")
	for end := waits.In(time.Minute); h.do("read 2") != "."; time.Sleep(time.Millisecond) {
		if end.Passed() {
			t.Fatal("the mount goes on showing what was refused")
		}
	}
	want("load 2", ".")
	s.publish(testFacts())
	want("store 2 .", "ok") // and it may write again
	want("flush", "ok")
	stored("given back,")
}
