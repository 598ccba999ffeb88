package view_test

import (
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestDroppedTooLate: word that nobody holds a file may come when somebody does
// again, who found it by its name before that went. It keeps its content, and what
// it was.
func TestDroppedTooLate(t *testing.T) {
	w := newWorld(t)
	w.settings(policy.Settings{Rules: []policy.NameRule{{Name: "*.key", Agent: "web"}}})
	web, dir := w.open("web"), w.node("/agents/web/workspace")
	node := w.write("/agents/web/workspace/a.key", "content")
	w.hub.hold(node, true)
	w.ok(w.gaia.Unlink(nil, dir, "a.key"), "unlink")
	w.space.Dropped(node)
	b := make([]byte, 7)
	if n, err := w.gaia.Read(nil, node, b, 0); n != 7 || err != nil || string(b) != "content" {
		t.Errorf("while it is open: %q, %v", b[:n], err)
	}
	_, err := web.Open(nil, node, view.OpenFlags{Read: true})
	w.kind(err, backend.Denied, "what its last name was denied to")
	w.hub.hold(node, false)
	w.space.Dropped(node)
	w.gone(node)
}

// gone waits until there is no such node any more.
func (w *world) gone(node backend.NodeID) {
	w.t.Helper()
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := w.gaia.Getattr(nil, node); err != nil {
			return
		}
		if end.Passed() {
			w.t.Fatal("it stays")
		}
	}
}
