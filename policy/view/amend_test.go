package view_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestAmendKeepsTheFile: what is amended stays the same file, so that what others
// append by a handle they hold is behind it; a condition on the etag holds, and
// symlinks are not followed.
func TestAmendKeepsTheFile(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	const path = "/agents/web/workspace/f"
	node := w.write(path, "one two three")
	content := func() string {
		t.Helper()
		b, a, err := v.ReadFile(path, -1)
		if err != nil || a.Node != node {
			t.Fatalf("%v: another file, or none: %v", a.Node, err)
		}
		return string(b)
	}
	etag, err := v.Etag(node)
	w.ok(err, "etag")
	for _, step := range []struct {
		off  uint64
		tail string
		want string
	}{{4, "2", "one 2"}, {view.AtEnd, " 3", "one 2 3"}, {7, strings.Repeat("x", 3<<20), "one 2 3" + strings.Repeat("x", 3<<20)}, {0, "", ""}, {0, "new", "new"}} {
		next, err := v.AmendFile(path, step.off, []byte(step.tail), view.Cond{Match: etag})
		w.ok(err, "amend")
		if got := content(); got != step.want {
			t.Errorf("amended at %d: %d bytes, want %d", step.off, len(got), len(step.want))
		}
		_, err = v.AmendFile(path, 0, []byte("lost"), view.Cond{Match: etag})
		if !errors.Is(err, backend.Conflict) || content() != step.want {
			t.Errorf("with an old etag: %v", err)
		}
		etag = next
	}
	if _, err := v.Append(nil, node, []byte("er")); err != nil || content() != "newer" {
		t.Errorf("appended by the handle: %v", err)
	}
	_, err = v.AmendFile(path+"2", 0, nil, view.Cond{})
	if !errors.Is(err, backend.NotFound) {
		t.Errorf("where there is none: %v", err)
	}
	dir, name, err := v.ResolveParent("/agents/web/workspace/link")
	w.ok(err, "parent")
	_, err = v.Symlink(nil, dir.Node, name, "f")
	w.ok(err, "symlink")
	if _, err = v.AmendFile("/agents/web/workspace/link", 0, []byte("x"), view.Cond{}); !errors.Is(err, backend.Invalid) {
		t.Errorf("a symlink: %v", err)
	}
	for _, there := range []string{"link", "f", "."} {
		if _, err := v.MakeHere("/agents/web/workspace/"+there, strings.NewReader("x"), 0); !errors.Is(err, backend.Exist) {
			t.Errorf("made at %s: %v", there, err)
		}
	}
	if got := content(); got != "newer" {
		t.Errorf("it is %q now", got)
	}
}

// TestRenamesTellWhetherTheyReplace: in the feed.
func TestRenamesTellWhetherTheyReplace(t *testing.T) {
	w, f := newFed(t)
	v := w.open("web")
	w.write("/agents/web/workspace/a", "a")
	w.write("/agents/web/workspace/b", "b")
	after := f.Last()
	dir, _, err := v.ResolveParent("/agents/web/workspace/a")
	w.ok(err, "parent")
	w.ok(v.Rename(nil, dir.Node, "a", dir.Node, "c", 0), "rename")
	w.ok(v.Rename(nil, dir.Node, "c", dir.Node, "b", 0), "rename over")
	list, _, err := w.gaia.Feed(t.Context(), after, 10)
	if err != nil || len(list) != 2 || list[0].Replaced || !list[1].Replaced {
		t.Errorf("%+v, %v", list, err)
	}
}
