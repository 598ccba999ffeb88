package fusefs

import (
	"os"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// TestRemovedIsLetGo: a file that one mount's kernel knows is removed, or replaced, through
// another mount while requests of the first change names. Nobody asks the first
// for the name again, and still its kernel lets go of the file.
func TestRemovedIsLetGo(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	a, b := s.mounted("a", Config{}), s.mount("b", Config{})
	if !a.fs.kern.epochs {
		t.Skip("the kernel is older than 6.16")
	}
	for what, remove := range map[string]func() error{
		"remove":  func() error { return os.Remove(b + "/f") },
		"replace": func() error { return os.Rename(b+"/g", b+"/f") },
	} {
		for _, name := range []string{"/f", "/g"} {
			must(t, os.WriteFile(b+name, []byte("x"), 0o644))
		}
		fi, err := os.Stat(a.Dir() + "/f")
		must(t, err)
		node := nodeID(inode(fi))
		epochs := a.Stats().Notices["INC_EPOCH"]
		done := a.fs.naming() // as a request does that is slow
		must(t, remove())
		done()
		if n := a.Stats().Notices["INC_EPOCH"]; n == epochs {
			t.Fatalf("%s: told without INC_EPOCH", what)
		}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for t.Context().Err() == nil && a.fs.kern.Holds(node) {
				time.Sleep(10 * time.Millisecond)
			}
		}()
		if !waits.Received(time.Minute, gone) {
			t.Errorf("%s: the kernel holds the file", what)
		}
	}
}
