package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// TestExplainIsDiscreet: to a soul what is hidden is as what is not there, and no
// rule is told.
func TestExplainIsDiscreet(t *testing.T) {
	g := newGuestHouse(t)
	explain := func(action, path string) string {
		status, body, _ := g.ask(g.tokens["a"], "GET", "/v1/policy/explain?action="+action+"&path="+path, "")
		if status != http.StatusOK {
			t.Errorf("%s %s: %d %s", action, path, status, body)
		}
		return body
	}
	for _, action := range []string{"see", "read", "write", "create", "remove"} {
		for _, path := range []string{"/agents/b", "/agents/b/workspace/f", "/agents/gaia/soul.md", "/users/bob", "/users/bob/x", "/projects/vault", "/projects/vault/x"} {
			none := strings.NewReplacer("/b", "/n", "gaia", "n", "bob", "n", "vault", "n").Replace(path)
			got, want := explain(action, path), explain(action, none)
			if strings.ReplaceAll(got, path, "P") != strings.ReplaceAll(want, none, "P") || strings.Contains(got, `"allow":true`) {
				t.Errorf("%s: %s, of what is not there: %s", action, got, want)
			}
		}
	}
	var x control.Explanation
	for path, want := range map[string]bool{"f": true, "/agents/a/soul.md": false} {
		if err := json.Unmarshal([]byte(explain("write", path)), &x); err != nil || x.Allow != want || len(x.Rules) != 0 {
			t.Errorf("%s: %+v %v", path, x, err)
		}
	}
	if err := json.Unmarshal([]byte(explain("create", "new")), &x); err != nil || !x.Allow {
		t.Errorf("create: %+v %v", x, err)
	}
}

// TestWhatAnAgentImportsIsTheOwners: the uids that it names prove nothing.
func TestWhatAnAgentImportsIsTheOwners(t *testing.T) {
	g := newGuestHouse(t)
	v, err := g.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	f, err := v.Find("/agents/a/workspace/f", true)
	if err != nil {
		t.Fatal(err)
	}
	root := uint32(0)
	if _, err := v.Setattr(nil, f.Attr.Node, backend.SetAttr{UID: &root, GID: &root}); err != nil {
		t.Fatal(err)
	}
	var tar bytes.Buffer
	if _, err := g.client.Export(t.Context(), control.Export{Agent: "a", Path: ".", Owner: &control.Owner{UID: 7, GID: 7}}, &tar); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := g.ask(g.tokens["a"], "POST", "/v1/import?path=in", tar.String()); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if _, err := g.client.Import(t.Context(), control.Import{Agent: "a", Path: "by-admin"}, bytes.NewReader(tar.Bytes())); err != nil {
		t.Fatal(err)
	}
	for path, others := range map[string]bool{"in/f": false, "by-admin/f": true} {
		n, err := g.client.Stat(t.Context(), "a", path, false)
		if err != nil || (n.UID != nil) != others || (n.GID != nil) != others {
			t.Errorf("%s: %+v %v", path, n, err)
		}
	}
	if status, body, _ := g.ask(g.tokens["a"], "GET", "/v1/export?path=.", ""); status != http.StatusBadRequest {
		t.Errorf("an export without an owner: %d %.80s", status, body)
	}
}

// TestImportsOfAgentsGoThroughTheirView, also if they name none: that is the
// administrator's way.
func TestImportsOfAgentsGoThroughTheirView(t *testing.T) {
	g := newGuestHouse(t)
	for _, path := range []string{"/agents/b/workspace", "/", "/users/bob"} {
		for _, q := range []string{"", "agent=&", "agent=a&agent=&"} {
			status, body, _ := g.ask(g.tokens["a"], "GET", "/v1/export?"+q+"owner=1:1&path="+path, "")
			if path == "/" && (status != http.StatusOK || strings.Contains(body, "agents/b") || !strings.Contains(body, "agents/a")) ||
				path != "/" && status != http.StatusNotFound {
				t.Errorf("%s%s: %d, %d bytes", q, path, status, len(body))
			}
		}
	}
	if status, body, _ := g.ask(g.tokens["a"], "GET", "/v1/export?agent=a&agent=b&owner=1:1&path=.", ""); status != http.StatusNotFound {
		t.Errorf("two agents: %d %.80s", status, body)
	}
}

// TestWhatAnOrchestratorSets of an agent is its access; not its own, nor that of
// whom it is under.
func TestWhatAnOrchestratorSets(t *testing.T) {
	g := newGuestHouse(t)
	if _, err := g.client.AddAgent(t.Context(), control.AgentSpec{Key: "boss", Role: "orchestrator"}); err != nil {
		t.Fatal(err)
	}
	boss := "boss"
	if _, err := g.client.SetAgent(t.Context(), "gaia", control.AgentChange{Parent: &boss}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		by, key, body string
		status        int
	}{
		{"gaia", "b", `{"access":"none"}`, 200}, {"keeper", "a", `{"access":"ro"}`, 200}, {"gaia", "b", `{}`, 200},
		{"gaia", "gaia", `{"access":"rw"}`, 403}, {"gaia", "boss", `{"access":"none"}`, 403}, {"keeper", "b", `{"access":"rw"}`, 404},
		{"gaia", "b", `{"access":"rw","parent":"gaia"}`, 403}, {"gaia", "b", `{"user":"ada"}`, 403}, {"gaia", "keeper", `{"only_user":""}`, 403},
	} {
		if status, body, _ := g.ask(g.tokens[c.by], "PATCH", "/v1/agents/"+c.key, c.body); status != c.status {
			t.Errorf("%s sets %s %s: %d %s, want %d", c.by, c.key, c.body, status, body, c.status)
		}
	}
}
