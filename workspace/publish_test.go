package workspace_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// TestPublishOfAChangingFile: what is published is what the file was at one moment,
// however big it is, or nothing.
func TestPublishOfAChangingFile(t *testing.T) {
	h := newHouse(t)
	v := h.as("web")
	const path, size = "/agents/web/workspace/big", 12 << 20
	a, err := v.WriteFile(path, make([]byte, size), 0o644)
	h.ok(err)
	// A number at the end is written before the same number at the start.
	change := func(n uint64) error {
		b := binary.BigEndian.AppendUint64(nil, n)
		for _, off := range []uint64{size - 8, 0} {
			if err := v.WriteFull(a.Node, b, off); err != nil {
				return err
			}
		}
		return nil
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := uint64(1); ; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := change(n); err != nil {
				stopped <- err
				return
			}
		}
	}()
	publish := func() error {
		_, err := h.layer.Publish(v, workspace.Publication{Path: path, Target: "hall"})
		return err
	}
	whole := func() {
		t.Helper()
		var ends [2]uint64
		node, err := h.as("hall").Resolve("/agents/hall/workspace/big")
		h.ok(err)
		_, err = h.as("hall").Open(nil, node.Node, view.OpenFlags{Read: true})
		h.ok(err)
		for i, off := range []uint64{0, size - 8} {
			b := make([]byte, 8)
			_, err := h.as("hall").Read(nil, node.Node, b, off)
			h.ok(err)
			ends[i] = binary.BigEndian.Uint64(b)
		}
		if ends[1] < ends[0] || ends[1] > ends[0]+1 || node.Size != size {
			t.Errorf("%d bytes, from the time of %d to that of %d", node.Size, ends[0], ends[1])
		}
	}
	for range 5 {
		switch err := publish(); {
		case err == nil:
			whole()
		case !errors.Is(err, backend.Conflict):
			t.Errorf("while it is changed: %v", err)
		}
	}
	close(stop)
	h.ok(<-stopped)
	h.ok(publish())
	whole()
}
