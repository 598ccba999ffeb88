package fusefs

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestRenameWhileAnotherIsPutThere: a mount renames a file while another keeps
// putting other files under its name, by exchange and by replacing it. What the
// first then has under the new name is what is there.
func TestRenameWhileAnotherIsPutThere(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	a, b := s.mount("a", Config{}), s.mount("b", Config{})
	gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(t, err)
	for _, name := range []string{"/x", "/other", "/more"} {
		must(t, os.WriteFile(a+name, []byte(name), 0o644))
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	var put atomic.Int64
	wg.Go(func() {
		for i := 0; !over.Load(); i++ {
			var err error
			if i%2 == 0 {
				err = renameat2(b+"/x", b+"/other", unix.RENAME_EXCHANGE)
			} else if err = os.Link(b+"/more", b+"/new"); err == nil {
				err = os.Rename(b+"/new", b+"/x") // to replace it, or for it to come
				_ = os.Remove(b + "/new")
			}
			if err == nil {
				put.Add(1)
			}
			if i%8 == 0 { // that there are three again
				_ = os.Remove(b + "/more")
				_ = os.WriteFile(b+"/more", []byte("/more"), 0o644)
			}
		}
	})
	end := waits.In(2 * time.Minute)
	done := 0
	for ; (done < rounds || put.Load() < int64(rounds)/10) && !end.Passed(); done++ {
		must(t, os.Rename(a+"/x", a+"/y"))
		fi, err := os.Lstat(a + "/y")
		must(t, err)
		is, err := gaia.Resolve(workDir + "/y")
		must(t, err)
		if inode(fi) != uint64(is.Node) {
			t.Errorf("round %d: y is node %d, to its own mount %d", done, is.Node, inode(fi))
			break
		}
		must(t, os.Rename(a+"/y", a+"/x"))
	}
	over.Store(true)
	wg.Wait()
	t.Logf("%d rounds, %d times something else was put there", done, put.Load())
	if done < rounds && !t.Failed() {
		t.Errorf("%d of %d rounds in two minutes", done, rounds)
	}
}
