package server

import (
	"sync"
	"testing"
	"time"
)

// TestRevokedWhileHandedOver: however a token's end meets the mounts that are being
// handed over with it, none is served when it is over.
func TestRevokedWhileHandedOver(t *testing.T) {
	g := newGuestHouse(t)
	for round := range 20 {
		token := g.token("a", "")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = g.handing(token, "") })
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond) // somewhere in it
		if err := g.client.RevokeToken(t.Context(), idOf(token)); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		g.until(func() bool { return !g.busy(token) }, "the session ends")
		if ms, err := g.client.Mounts(t.Context()); err != nil || len(ms) != 0 {
			t.Fatalf("round %d: %v %v", round, ms, err)
		}
	}
}
