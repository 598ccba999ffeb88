package fusefs

import (
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestDropper: every dropped node is told of once, in order, soon, and before
// stop returns.
func TestDropper(t *testing.T) {
	var mu sync.Mutex
	var told []backend.NodeID
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(told)
	}
	var d dropper
	d.start(func(n backend.NodeID) {
		mu.Lock()
		told = append(told, n)
		mu.Unlock()
	})
	const nodes = 1000
	for n := range backend.NodeID(nodes) {
		d.add(n)
		if n == 0 {
			for end := waits.In(time.Minute); count() == 0; time.Sleep(time.Millisecond) {
				if end.Passed() {
					t.Fatal("a single node is not told of")
				}
			}
		}
	}
	d.stop()
	if len(told) != nodes {
		t.Fatalf("%d nodes told of, of %d", len(told), nodes)
	}
	for i, n := range told {
		if n != backend.NodeID(i) {
			t.Fatalf("node %d is told of in place %d", n, i)
		}
	}
}
