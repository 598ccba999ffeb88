package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestOwnPolicyIsDiscreet: an agent is told of its own settings, and nothing of
// others, of their places, or of Cedar.
func TestOwnPolicyIsDiscreet(t *testing.T) {
	g := newGuestHouse(t)
	text := `
[agents.a]
deny = ["*.key"]
paths."/projects/vault".deny = ["vaulted*"]
paths."/agents/a/workspace".deny = ["draft*"]
[agents.b]
access = "ro"
deny = ["bees*"]
[paths."/agents/a/workspace"]
allow = [".env"]
[paths."/agents/b/workspace"]
allow = [".netrc"]
[paths."/projects/vault"]
deny = ["hidden*"]
`
	if err := g.client.SetSettings(t.Context(), control.PolicyText{Name: "s.toml", Text: text}); err != nil {
		t.Fatal(err)
	}
	of := func(by, agent string) string {
		status, body, _ := g.ask(g.tokens[by], "GET", "/v1/policy?agent="+agent, "")
		if status != http.StatusOK {
			t.Errorf("%s asks of %q: %d %s", by, agent, status, body)
		}
		return body
	}
	mine := of("a", "")
	for _, want := range []string{`"access":"rw"`, `"mode":"own"`, `"site":"write"`, `"*.key"`, `"draft*"`, `".env","under":"/agents/a/workspace"`} {
		if !strings.Contains(mine, want) {
			t.Errorf("a is not told %s: %s", want, mine)
		}
	}
	for _, hidden := range append([]string{"vaulted", "bees", "hidden", "/agents/b", "cedar", "epoch", "permit"}, strangers...) {
		if strings.Contains(mine, hidden) {
			t.Errorf("a is told of %s: %s", hidden, mine)
		}
	}
	if got := of("gaia", "b"); !strings.Contains(got, "bees") || !strings.Contains(got, "hidden") || strings.Contains(got, "*.key") || strings.Contains(got, "permit") {
		t.Errorf("gaia is told of b: %s", got)
	}
	if got := of("keeper", "a"); strings.Contains(got, "vault") || strings.Contains(got, "hidden") || !strings.Contains(got, "draft") {
		t.Errorf("keeper is told of a: %s", got)
	}
	for _, agent := range []string{"", "gaia"} { // nobody's, itself
		if status, body, _ := g.ask(g.tokens["gaia"], "PUT", "/v1/policy/names", `{"name":"x","agent":"`+agent+`"}`); status != http.StatusForbidden {
			t.Errorf("gaia denies a name to %q: %d %s", agent, status, body)
		}
	}
}
