package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestWhoMayGrant: who may give what to whom, from agent.sock.
func TestWhoMayGrant(t *testing.T) {
	g := newGuestHouse(t)
	for _, c := range []struct {
		who, to, path, right string
		status               int
	}{
		{"gaia", "b", "/agents/a/workspace/f", "write", 200},
		{"gaia", "hall", "/agents/a/workspace/f", "read", 400},
		{"gaia", "b", "/agents/a/workspace/none", "read", 404},
		{"gaia", "b", "/agents", "read", 400},
		{"keeper", "a", "/agents/a/notes", "read", 200},
		{"keeper", "b", "/agents/a/workspace/f", "read", 404}, // it does not see b
		{"keeper", "a", "/agents/b/workspace/f", "read", 404},
		{"a", "under", "/agents/a/workspace/f", "write", 200},
		{"a", "under", "f", "read", 200}, // in its own workspace
		{"a", "under", "/agents/a/soul.md", "read", 403},
		{"a", "under", "/agents/a", "read", 403},
		{"a", "under", "/projects/site", "read", 403},
		{"a", "under", "/agents/under/workspace", "read", 403},
		{"a", "a", "/agents/a/workspace/f", "read", 403},
		{"a", "b", "/agents/a/workspace/f", "read", 404},
		{"a", "under", "/agents/b/workspace/f", "read", 404},
		{"under", "a", "/agents/under/workspace/f", "read", 404},
	} {
		body := fmt.Sprintf(`{"agent":%q,"path":%q,"right":%q,"ttl":"1h"}`, c.to, c.path, c.right)
		status, answer, _ := g.ask(g.tokens[c.who], "POST", "/v1/grants", body)
		if status != c.status {
			t.Errorf("%s grants %s %s on %s: %d %s, want %d", c.who, c.to, c.right, c.path, status, answer, c.status)
		}
	}
	for _, ttl := range []string{"", "0s", "-1h", "forever", "900000h"} {
		body := fmt.Sprintf(`{"agent":"b","path":"/agents/a","right":"read","ttl":%q}`, ttl)
		if status, answer, _ := g.ask(g.tokens["gaia"], "POST", "/v1/grants", body); status != http.StatusBadRequest {
			t.Errorf("ttl %q: %d %s", ttl, status, answer)
		}
	}
}

// TestWhoMayRevoke: and who knows of a grant at all.
func TestWhoMayRevoke(t *testing.T) {
	g := newGuestHouse(t)
	onA, toA := g.grant("b", "/agents/a/workspace/f"), g.grant("a", "/agents/b/workspace/f")
	none := "0123456789ab"
	_, missing, _ := g.ask(g.tokens["under"], "DELETE", "/v1/grants/"+none, "")
	if status, answer, _ := g.ask(g.tokens["under"], "DELETE", "/v1/grants/"+onA, ""); status != 404 || answer != strings.ReplaceAll(missing, none, onA) {
		t.Errorf("a grant that is not to be known: %d %s, want %s", status, answer, missing)
	}
	if status, answer, _ := g.ask(g.tokens["a"], "DELETE", "/v1/grants/"+toA, ""); status != 403 {
		t.Errorf("one to itself: %d %s", status, answer)
	}
	if status, answer, _ := g.ask(g.tokens["a"], "DELETE", "/v1/grants/"+onA, ""); status != 200 {
		t.Errorf("one in its own tree: %d %s", status, answer)
	}
	if status, answer, _ := g.ask(g.tokens["gaia"], "DELETE", "/v1/grants/"+toA, ""); status != 200 {
		t.Errorf("gaia: %d %s", status, answer)
	}
	if status, answer, _ := g.ask(g.tokens["a"], "GET", "/v1/fs/content?path=/agents/b/workspace/f", ""); status != 404 {
		t.Errorf("a reads what is not granted any more: %d %s", status, answer)
	}
}
