package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestQuotasOverAgentSock: a soul's token sets no hard quota, its own or
// another's, and is told of nobody else's.
func TestQuotasOverAgentSock(t *testing.T) {
	g := newGuestHouse(t)
	limit := uint64(1 << 20)
	for _, key := range []string{"a", "b"} {
		if _, err := g.client.SetQuota(t.Context(), control.QuotaSpec{Path: "/agents/" + key + "/workspace", Bytes: &limit}); err != nil {
			t.Fatal(err)
		}
	}
	put := func(token, agent, path, field string) int {
		code, _, _ := g.ask(g.tokens[token], http.MethodPut, "/v1/quotas", fmt.Sprintf(`{"agent":%q,"path":%q,%q:7}`, agent, path, field))
		return code
	}
	for _, c := range []struct {
		token, agent, path, field string
		code                      int
	}{
		{"a", "a", "/agents/a/workspace", "bytes", http.StatusForbidden},
		{"a", "", "/agents/a/workspace", "inodes", http.StatusForbidden},
		{"a", "a", "/agents/a/workspace", "soft_bytes", http.StatusOK},
		{"a", "a", "/agents/b/workspace", "soft_bytes", http.StatusNotFound},
		{"a", "b", "/agents/b/workspace", "soft_bytes", http.StatusNotFound},
		{"a", "gaia", "/agents/a/workspace", "bytes", http.StatusNotFound},
		{"gaia", "", "/agents/b/workspace", "bytes", http.StatusOK},
		{"keeper", "", "/agents/b/workspace", "bytes", http.StatusNotFound},
		{"keeper", "", "/agents/a/scratch", "inodes", http.StatusOK},
		{"hall", "", "/agents/hall/workspace", "bytes", http.StatusForbidden},
	} {
		if got := put(c.token, c.agent, c.path, c.field); got != c.code {
			t.Errorf("%s sets %s of %s as %q: %d, want %d", c.token, c.field, c.path, c.agent, got, c.code)
		}
	}
	if code, body, _ := g.ask(g.tokens["a"], http.MethodGet, "/v1/quotas", ""); code != http.StatusOK ||
		strings.Contains(body, "/agents/b") || strings.Contains(body, "bob") || !strings.Contains(body, "/agents/a/workspace") {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := g.ask(g.tokens["a"], http.MethodGet, "/v1/quotas?path=/agents/b/workspace", ""); code != http.StatusNotFound {
		t.Errorf("another's quota: %d", code)
	}
}
