package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

// record returns all operations of a round with what became of each.
func (w *writer) record() string {
	var b strings.Builder
	for i, o := range w.ops {
		result := "acknowledged"
		if i >= w.done {
			result = fmt.Sprintf("not acknowledged: %v", w.err)
		}
		fmt.Fprintf(&b, "%s %d: %s: %s\n", filepath.Base(w.root), i, o.what, result)
	}
	return b.String()
}

// TestKillOfThreeWriters: three models over two mounts under kill -9. After each
// round both mounts show what the models say. Where they do not, every operation of
// the round and its result are in the log of the test.
func TestKillOfThreeWriters(t *testing.T) {
	s, r := stack.ForTest(t, stack.Options{}), seed(t)
	soul, gaia := filepath.Join(s.Soul, workspace), filepath.Join(s.Gaia, workspace)
	other := map[string]string{filepath.Join(soul, "x"): gaia, filepath.Join(gaia, "y"): soul, filepath.Join(soul, "z"): gaia}
	var ws []*writer
	for root := range other {
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, newWriter(root, r.Uint64()))
	}
	records := ""
	defer func() {
		if t.Failed() {
			t.Logf("all operations of the last round:\n%s", records)
		}
	}()
	done := 0
	for round := range crashes(8) {
		work(t, ws, time.Duration(r.IntN(600))*time.Millisecond, func() error { return s.Signal(syscall.SIGKILL) })
		records = fmt.Sprintf("round %d\n", round)
		for _, w := range ws {
			records += w.record()
			done += w.done
		}
		if err := s.Restart(soul, gaia); err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			w.check(t, w.done)
			found, err := walk(filepath.Join(other[w.root], filepath.Base(w.root)))
			if err != nil || !w.base.is(found) {
				t.Errorf("%s in the other mount: %v%s", w.root, err, difference(w.base, found))
			}
		}
		s.Fsck(t)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d operations acknowledged and found", done)
}
