package server

import (
	"fmt"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestWhoMayTrust: an agent decides for itself, an orchestrator for those it sees, and nobody
// learns of a project that is not in its view.
func TestWhoMayTrust(t *testing.T) {
	g := newGuestHouse(t)
	if _, err := g.client.SetMember(t.Context(), "vault", control.Member{Agent: "a", Right: "write"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who, slug, agent string
		status           int
	}{
		{"a", "site", "a", 200},
		{"a", "site", "", 403},
		{"a", "site", "gaia", 403},
		{"a", "site", "under", 403},
		{"b", "site", "b", 404},
		{"b", "none", "b", 404},
		{"hall", "site", "hall", 404},
		{"gaia", "site", "gaia", 200},
		{"gaia", "site", "a", 200},
		{"gaia", "site", "b", 400}, // no member
		{"gaia", "vault", "", 200},
		{"keeper", "vault", "a", 200},
		{"keeper", "vault", "", 404}, // it does not see b
		{"keeper", "vault", "b", 404},
	} {
		body := fmt.Sprintf(`{"agent":%q,"on":true}`, c.agent)
		status, answer, _ := g.ask(g.tokens[c.who], "PUT", "/v1/projects/"+c.slug+"/trust", body)
		if status != c.status {
			t.Errorf("%s has %q trust in %s: %d %s, want %d", c.who, c.agent, c.slug, status, answer, c.status)
		}
	}
}
