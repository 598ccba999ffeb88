package view_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy/view"
)

// contentOf reads a whole file of a tree.
func contentOf(t *testing.T, tr *tree.Tree, node backend.NodeID) string {
	t.Helper()
	var b []byte
	err := tr.With(node.Volume(), func(tx *tree.Txn) error {
		a, err := tx.Attr(node.Ino())
		if err != nil {
			return err
		}
		b = make([]byte, a.Size)
		n, err := tx.Read(node.Ino(), b, 0)
		b = b[:n]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestCrashLeavesAWholeFile: a file that is changed in place has what it had or what
// it was to have, wherever the daemon is killed, whether that is longer or shorter;
// and what it had, where the quota has no room for the new.
func TestCrashLeavesAWholeFile(t *testing.T) {
	s := mem.New(mem.Options{History: 10_000})
	w := worldOn(t, tree.Options{Store: s, Content: mem.Content{}})
	v := w.open("web")
	const home, work = "/agents/web/session.md", "/agents/web/workspace/f"
	amend := func(off uint64, tail string) func() error {
		return func() error {
			_, err := v.AmendFile(work, off, []byte(tail), view.Cond{})
			return err
		}
	}
	put := func(text string) func() error {
		return func() error {
			_, _, err := v.PutIf(home, strings.NewReader(text), 0, view.Cond{})
			return err
		}
	}
	long := strings.Repeat("0123456789", 30_000)
	huge := strings.Repeat("0123456789abcdef", 160_000) // more than one update holds
	for _, step := range []struct {
		what, path, old, next string
		do                    func() error
	}{
		{"shortened", work, long, "012x", amend(3, "x")},
		{"cut", work, long, "0123", amend(4, "")},
		{"its end made longer", work, "one", "o" + long, amend(1, long)},
		{"in the middle of a block", work, long, long[:250_001] + "x", amend(250_001, "x")},
		{"replaced by less", home, long, "new", put("new")},
		{"replaced by more", home, "old", long, put(long)},
		{"emptied", home, "old", "", put("")},
		{"replaced by what takes several steps to read", home, long, huge, put(huge)},
		{"its end made longer by as much", work, "one", "o" + huge, amend(1, huge)},
		{"its end replaced by as much", work, long, long[:250_001] + huge, amend(250_001, huge)},
	} {
		node := w.write(step.path, step.old)
		for i := range 700 { // more extents than one step removes
			if len(step.old) > 700*400 {
				_, err := v.Write(nil, node, []byte(step.old[i*400:i*400+400]), uint64(i*400))
				w.ok(err, "write")
			}
		}
		var clones []*mem.Store
		s.SetHook(func(p mem.Point, _ uint64) error {
			if p == mem.AfterCommit {
				clones = append(clones, s.Reopen())
			}
			return nil
		})
		err := step.do()
		s.SetHook(nil)
		w.ok(err, step.what)
		if got := contentOf(t, w.tree, node); got != step.next {
			t.Errorf("%s: %d bytes, want %d", step.what, len(got), len(step.next))
		}
		if len(clones) == 0 {
			t.Errorf("%s: nothing was committed", step.what)
		}
		for i, c := range clones {
			tr, err := tree.Open(t.Context(), tree.Options{Store: c, Content: mem.Content{}})
			if err != nil {
				t.Fatal(err)
			}
			if got := contentOf(t, tr, node); got != step.old && got != step.next {
				t.Errorf("%s, killed after %d of %d commits: %d bytes, neither the old %d nor the new %d", step.what, i+1, len(clones), len(got), len(step.old), len(step.next))
			}
			w.ok(tr.Close(), "close")
		}
	}
	node := w.write(home, "kept")
	w.ok(w.tree.With(node.Volume(), func(tx *tree.Txn) error { return tx.SetLimits(tree.Limits{Bytes: 1000}) }), "limit")
	if err := put(long)(); !errors.Is(err, backend.Quota) {
		t.Errorf("past the quota: %v", err)
	}
	if got, _, err := v.ReadFile(home, -1); err != nil || !bytes.Equal(got, []byte("kept")) {
		t.Errorf("after what had no room it has %d bytes, %v", len(got), err)
	}
}
