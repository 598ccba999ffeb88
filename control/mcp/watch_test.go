package mcp_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestContextChangesAreTold: a host that subscribed to the context is told when it
// is another one, and reads the new one then.
func TestContextChangesAreTold(t *testing.T) {
	s := running(t)
	told := make(chan string, 100)
	h := connectAs(t, s, &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) {
		told <- r.Params.URI
	}}, "--agent", soul)
	if err := h.s.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "warren://context"}); err != nil {
		t.Fatal(err)
	}
	// Subscribe may return before the server has heard of it: so it changes until told.
	late := time.After(time.Minute)
	for {
		h.call("workspace_init", object{"name": "watched-" + strings.ToLower(rand.Text()[:8])}) // another one is active
		select {
		case uri := <-told:
			if uri != "warren://context" {
				t.Errorf("told of %s", uri)
			}
			return
		case <-time.After(5 * time.Second):
		case <-late:
			t.Fatal("nobody told of the context's change")
		}
	}
}
