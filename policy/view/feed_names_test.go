package view_test

import (
	"slices"
	"strings"
	"testing"
)

// TestNoNameIsKeptFromTheFeed: a file whose name is one that an import gives for a
// moment is told of as any other, so that nobody works unseen under such names.
func TestNoNameIsKeptFromTheFeed(t *testing.T) {
	w, f := newFed(t)
	start := f.Last()
	v := w.open("web")
	const ws, name = "/agents/web/workspace", "/agents/web/workspace/.warren-x"
	_, err := v.Put(name, strings.NewReader("unseen?"), 0)
	w.ok(err, "make")
	f.Last()
	_, err = v.Put(name, strings.NewReader("again"), 0)
	w.ok(err, "replace")
	_, err = v.Symlink(nil, w.node(ws), ".warren-y", "x")
	w.ok(err, "symlink")
	w.ok(v.Rename(nil, w.node(ws), ".warren-y", w.node(ws), "f", 0), "rename")
	want := []string{"web create " + name, "web write " + name, "web symlink " + ws + "/.warren-y", "web rename " + ws + "/.warren-y " + ws + "/f"}
	if got := w.log(w.gaia, start); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
