package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/scripts/waits"
)

// guestHouse is a fixture with agent.sock, and who asks there: gaia sees all,
// keeper only ada's agents; a is ada's, and under is below a; b is bob's, whom
// a does not see; hall is shared.
type guestHouse struct {
	*fixture
	sock   string
	tokens map[string]string // by agent
	made   int
	trying string // the agent whose cell is tried
}

func newGuestHouse(t *testing.T) *guestHouse { return guestHouseOn(t, newFixture(t)) }

func guestHouseOn(t *testing.T, f *fixture) *guestHouse {
	t.Helper()
	g := &guestHouse{fixture: f, sock: filepath.Join(filepath.Dir(f.socket), "agent.sock"), tokens: map[string]string{}}
	l, err := net.Listen("unix", g.sock)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.ServeAgents(l) }()
	t.Cleanup(func() {
		ctx, cancel := waits.Context(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve agents: %v", err)
		}
	})
	for _, id := range []string{"ada", "bob"} {
		if _, err := f.client.AddUser(t.Context(), control.UserSpec{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, spec := range []control.AgentSpec{
		{Key: "gaia", Role: "orchestrator"}, {Key: "keeper", Role: "orchestrator", OnlyUser: "ada"},
		{Key: "a", User: "ada", Parent: "gaia"}, {Key: "under", Parent: "a"}, {Key: "b", User: "bob"}, {Key: "hall", Role: "shared"},
	} {
		if _, err := f.client.AddAgent(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		g.tokens[spec.Key] = g.token(spec.Key, "")
	}
	for slug, member := range map[string]string{"site": "a", "vault": "b"} {
		if _, err := f.client.CreateProject(t.Context(), control.ProjectSpec{Slug: slug, Members: map[string]string{member: "write"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"gaia", "keeper", "a", "under", "b", "hall"} {
		if _, err := f.client.Write(t.Context(), key, "f", strings.NewReader("of "+key), 0); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// token makes one for an agent.
func (g *guestHouse) token(agent, ttl string) string {
	g.t.Helper()
	got, err := g.client.CreateToken(g.t.Context(), control.TokenSpec{Agent: agent, TTL: ttl})
	if err != nil {
		g.t.Fatal(err)
	}
	return got.Text
}

// ask makes one request of agent.sock on a connection of its own.
func (g *guestHouse) ask(token, method, path, body string) (int, string, http.Header) {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, "http://warren"+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if strings.HasSuffix(path, "/handover") {
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", control.HandOverProtocol)
	}
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", g.sock)
		}}}
	resp, err := c.Do(req)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // agreed; what follows is no HTTP
		return http.StatusOK, "", nil
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	resp.Header.Del("Date")
	return resp.StatusCode, string(b), resp.Header
}

// asked is a request that names an agent, or none.
type asked struct{ path, body string }

// probe is how a verb that is open to agents is tried. Each must work for whoever
// may use it, over and over.
type probe struct {
	// as names agent; "" leaves it out.
	as func(g *guestHouse, agent string) asked
	// hidden are words that the answer to soul a must not have, shown some that it
	// must, where the verb narrows what it tells.
	hidden, shown []string
	// refuses is an agent that is refused it with a reason (403).
	refuses string
}

// query is a probe whose agent is in the query.
func query(path string) probe {
	return probe{as: func(_ *guestHouse, agent string) asked {
		return asked{path: strings.ReplaceAll(path, "AGENT", agent)}
	}}
}

// plain is a probe that names no agent.
func plain(path string, hidden, shown []string) probe {
	return probe{as: func(*guestHouse, string) asked { return asked{path: path} }, hidden: hidden, shown: shown}
}

// strangers are words that a must not be told.
var strangers = []string{`"b"`, "bob", "vault", "gaia", "keeper", "hall"}

// probes has every verb that some agent may use.
var probes = map[string]probe{
	"GET /v1/version":      plain("/v1/version", nil, nil),
	"POST /v1/sync":        plain("/v1/sync", nil, nil),
	"GET /v1/users":        plain("/v1/users", strangers, []string{"ada"}),
	"GET /v1/users/{id}":   plain("/v1/users/ada", strangers, []string{"ada"}),
	"GET /v1/agents":       plain("/v1/agents", strangers, []string{`"a"`, `"under"`}),
	"GET /v1/agents/{key}": query("/v1/agents/AGENT"),
	"PATCH /v1/agents/{key}": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/agents/" + agent, `{"access":"rw"}`}
	}},
	"GET /v1/tokens": plain("/v1/tokens", strangers, []string{`"a"`, `"under"`}),
	"GET /v1/grants": {as: func(g *guestHouse, _ string) asked {
		g.grant("under", "/agents/a/workspace/f")
		g.grant("b", "/projects/site")
		return asked{path: "/v1/grants"}
	}, hidden: strangers[:2], shown: []string{`"under"`}},
	"POST /v1/grants": {as: func(*guestHouse, string) asked {
		return asked{"/v1/grants", `{"agent":"under","path":"/agents/a/workspace/f","right":"read","ttl":"1h"}`}
	}},
	"DELETE /v1/grants/{id}": {as: func(g *guestHouse, _ string) asked {
		return asked{path: "/v1/grants/" + g.grant("under", "/agents/a/workspace/f")}
	}},
	"GET /v1/log":             plain("/v1/log", []string{`"b"`, "bob", "vault", "keeper", "hall"}, []string{"/agents/a/workspace/f", "/agents/under/workspace/f"}),
	"GET /v1/log/verify":      plain("/v1/log/verify", nil, []string{`"ok"`}),
	"GET /v1/projects":        plain("/v1/projects", strangers, []string{"site"}),
	"GET /v1/projects/{slug}": plain("/v1/projects/site", strangers, []string{"site"}),
	"PUT /v1/projects/{slug}/trust": {as: func(g *guestHouse, _ string) asked {
		return asked{"/v1/projects/site/trust", fmt.Sprintf(`{"agent":%q,"on":true}`, g.trying)}
	}},
	"POST /v1/mounts/handover": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/mounts/handover", fmt.Sprintf(`{"agent":%q,"dir":"/warren","uid":0,"gid":0}`, agent)}
	}},
	"GET /v1/mounts": plain("/v1/mounts", strangers, []string{"/mnt/a"}),
	"GET /v1/quotas": query("/v1/quotas?agent=AGENT"),
	"PUT /v1/quotas": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/quotas", fmt.Sprintf(`{"agent":%q,"path":".","soft_inodes":99}`, agent)}
	}},
	"GET /v1/fs/stat":    query("/v1/fs/stat?agent=AGENT&path=f"),
	"GET /v1/fs/list":    query("/v1/fs/list?agent=AGENT&path=."),
	"GET /v1/fs/content": query("/v1/fs/content?agent=AGENT&path=f"),
	"PUT /v1/fs/content": query("/v1/fs/content?agent=AGENT&path=w"),
	"POST /v1/fs/edit": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/fs/edit", fmt.Sprintf(`{"agent":%q,"path":"f","edits":[{"old":"of ","new":"by "}],"dry_run":true}`, agent)}
	}},
	"POST /v1/fs/search": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/fs/search", fmt.Sprintf(`{"agent":%q,"pattern":"of"}`, agent)}
	}},
	"POST /v1/fs/mkdir": {as: func(g *guestHouse, agent string) asked {
		return asked{"/v1/fs/mkdir", fmt.Sprintf(`{"agent":%q,"path":"d%d"}`, agent, g.fresh())}
	}},
	"POST /v1/fs/move": {as: func(g *guestHouse, agent string) asked {
		return asked{"/v1/fs/move", fmt.Sprintf(`{"agent":%q,"from":"f","to":"./f","force":true}`, agent)}
	}},
	"DELETE /v1/fs/node": {as: func(g *guestHouse, agent string) asked {
		name := fmt.Sprintf("gone%d", g.fresh())
		for key := range g.tokens {
			if _, err := g.client.Write(g.t.Context(), key, name, strings.NewReader(""), 0); err != nil {
				g.t.Fatal(err)
			}
		}
		return asked{path: "/v1/fs/node?agent=" + agent + "&path=" + name}
	}},
	"POST /v1/import": {as: func(g *guestHouse, agent string) asked {
		var b bytes.Buffer
		if _, err := g.client.Export(g.t.Context(), control.Export{Agent: "a", Path: "f", Owner: &control.Owner{}}, &b); err != nil {
			g.t.Fatal(err)
		}
		return asked{fmt.Sprintf("/v1/import?agent=%s&path=i%d", agent, g.fresh()), b.String()}
	}},
	"GET /v1/export": query("/v1/export?agent=AGENT&path=.&owner=1:1"),
	"GET /v1/items":  query("/v1/items?agent=AGENT"),
	"GET /v1/items/value": {as: func(g *guestHouse, agent string) asked {
		g.items("kept")
		return asked{path: "/v1/items/value?key=kept&agent=" + agent}
	}},
	"PUT /v1/items/value": query("/v1/items/value?agent=AGENT&key=put"),
	"DELETE /v1/items/value": {as: func(g *guestHouse, agent string) asked {
		g.items("gone")
		return asked{path: "/v1/items/value?key=gone&agent=" + agent}
	}},
	"POST /v1/items/publish": {refuses: "hall", as: func(g *guestHouse, agent string) asked {
		g.items("out")
		key := rand.Text() // of several agents, each may replace its own only
		return asked{"/v1/items/publish", fmt.Sprintf(`{"agent":%q,"key":"out","target_agent_id":"hall","target_key":%q}`, agent, key)}
	}},
	"GET /v1/fields": query("/v1/fields?agent=AGENT"),
	"GET /v1/fields/value": {as: func(g *guestHouse, agent string) asked {
		g.fields()
		return asked{path: "/v1/fields/value?name=mood&agent=" + agent}
	}},
	"PUT /v1/fields/value": {as: func(g *guestHouse, agent string) asked {
		g.fields()
		return asked{"/v1/fields/value", fmt.Sprintf(`{"agent":%q,"field_name":"mood","value":"calm"}`, agent)}
	}},
	"GET /v1/context":    query("/v1/context?agent=AGENT"),
	"GET /v1/session":    query("/v1/session?agent=AGENT"),
	"DELETE /v1/session": query("/v1/session?agent=AGENT"),
	"POST /v1/session": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/session", fmt.Sprintf(`{"agent":%q}`, agent)}
	}},
	"POST /v1/session/messages": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/session/messages", fmt.Sprintf(`{"agent":%q,"role":"user","text":"hi"}`, agent)}
	}},
	"GET /v1/workspaces":           plain("/v1/workspaces", append([]string{"default"}, strangers...), []string{`"a"`, `"under"`, "ada", "site"}),
	"POST /v1/workspaces":          {as: func(*guestHouse, string) asked { return asked{"/v1/workspaces", `{"name":"x"}`} }},
	"POST /v1/collect":             {as: func(*guestHouse, string) asked { return asked{"/v1/collect", `{"dry_run":true}`} }},
	"GET /v1/workspaces/{uuid}":    {as: func(g *guestHouse, _ string) asked { return asked{path: "/v1/workspaces/" + g.own(0)} }},
	"PATCH /v1/workspaces/{uuid}":  {as: func(g *guestHouse, _ string) asked { return asked{"/v1/workspaces/" + g.own(0), `{"name":"n"}`} }},
	"DELETE /v1/workspaces/{uuid}": {as: func(g *guestHouse, _ string) asked { return asked{path: "/v1/workspaces/" + g.own(1)} }},
	"GET /v1/devices":              plain("/v1/devices", nil, nil),
	"PUT /v1/devices": {as: func(g *guestHouse, _ string) asked {
		return asked{"/v1/devices", fmt.Sprintf(`{"device_id":"phone","workspace":%q}`, g.own(1))}
	}},
	"DELETE /v1/devices": {as: func(g *guestHouse, _ string) asked {
		if _, err := g.client.BindDevice(g.t.Context(), control.BindingSpec{Device: "tv", Workspace: "default"}); err != nil {
			g.t.Fatal(err)
		}
		return asked{path: "/v1/devices?device_id=tv"}
	}},
	"POST /v1/devices/resolve": {as: func(*guestHouse, string) asked { return asked{"/v1/devices/resolve", `{"device_id":"watch"}`} }},
	"GET /v1/config":           plain("/v1/config", nil, nil),
	"GET /v1/policy":           query("/v1/policy?agent=AGENT"),
	"PUT /v1/policy/names": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/policy/names", fmt.Sprintf(`{"name":"*.pem","agent":%q}`, agent)}
	}},
	"DELETE /v1/policy/names": {as: func(g *guestHouse, agent string) asked {
		if agent != "nobody" {
			if err := g.client.DenyName(g.t.Context(), control.DeniedName{Name: "*.key", Agent: agent}); err != nil {
				g.t.Fatal(err)
			}
		}
		return asked{path: "/v1/policy/names?name=*.key&agent=" + agent}
	}},
	"GET /v1/project/list": query("/v1/project/list?agent=AGENT"),
	"GET /v1/project":      inProject("GET", "/v1/project", ""),
	"PUT /v1/project":      inProject("PUT", "/v1/project", ""),
	"POST /v1/project": {as: func(_ *guestHouse, agent string) asked {
		return asked{"/v1/project", fmt.Sprintf(`{"agent":%q,"name":"plan"}`, agent)}
	}},
	"GET /v1/journal":          inProject("GET", "/v1/journal", ""),
	"POST /v1/journal":         inProject("POST", "/v1/journal", `,"summary":"did it"`),
	"POST /v1/journal/archive": inProject("POST", "/v1/journal/archive", ""),
	"GET /v1/inbox":            inProject("GET", "/v1/inbox", ""),
	"POST /v1/inbox":           inProject("POST", "/v1/inbox", `,"title":"do it"`),
	"POST /v1/inbox/close": {as: func(g *guestHouse, agent string) asked {
		id := ""
		for key := range g.tokens {
			got, err := g.client.AddInbox(g.t.Context(), control.InboxNote{Agent: key, Project: g.project(key), Title: "x"})
			if err != nil {
				g.t.Fatal(err)
			}
			if key == g.trying {
				id = got.ID
			}
		}
		return asked{"/v1/inbox/close", fmt.Sprintf(`{"agent":%q,"project":"p","id":%q,"resolution":"done"}`, agent, id)}
	}},
	"POST /v1/decisions": inProject("POST", "/v1/decisions", `,"title":"t","decision":"d"`),
	"POST /v1/news":      inProject("POST", "/v1/news", ""),
	"POST /v1/delegations": {as: func(g *guestHouse, agent string) asked {
		return asked{"/v1/delegations", fmt.Sprintf(`{"agent":%q,"delegate":%q}`, agent, g.trying)}
	}},
	"GET /v1/delegations/changes": {as: func(g *guestHouse, agent string) asked {
		d, err := g.client.Delegate(g.t.Context(), control.DelegationSpec{Agent: g.trying, Delegate: g.trying, Project: "p"})
		if err != nil {
			g.t.Fatal(err)
		}
		return asked{path: "/v1/delegations/changes?agent=" + agent + "&delegation=" + d.ID}
	}},
	"GET /v1/policy/explain": query("/v1/policy/explain?agent=AGENT&action=read&path=f"),
}

// inProject is a probe that works in a project of the agent's own.
func inProject(method, path, more string) probe {
	return probe{as: func(g *guestHouse, agent string) asked {
		for key := range g.tokens {
			g.project(key)
		}
		if method == "GET" {
			return asked{path: path + "?project=p&agent=" + agent}
		}
		return asked{path, fmt.Sprintf(`{"agent":%q,"project":"p"%s}`, agent, more)}
	}}
}

// project makes the project p of an agent's.
func (g *guestHouse) project(agent string) string {
	g.t.Helper()
	if _, err := g.client.MakeDir(g.t.Context(), control.MakeDir{Agent: agent, Path: "p", Parents: true}); err != nil {
		g.t.Fatal(err)
	}
	return "p"
}

// items makes an item of every agent's.
func (g *guestHouse) items(key string) {
	for agent := range g.tokens {
		if _, err := g.client.WriteItem(g.t.Context(), agent, key, "of "+agent); err != nil {
			g.t.Fatal(err)
		}
	}
}

// fields gives every agent a field.
func (g *guestHouse) fields() {
	for agent := range g.tokens {
		const schema = `{"properties":{"mood":{"type":"string"}}}`
		if _, err := g.client.Write(g.t.Context(), "gaia", "/agents/"+agent+"/fields.json", strings.NewReader(schema), 0); err != nil {
			g.t.Fatal(err)
		}
	}
}

// own gives a workspace that whoever is tried may use: its own, or with which 1 a
// new device's.
func (g *guestHouse) own(which int) string {
	if which == 1 {
		w, err := g.client.CreateWorkspace(g.t.Context(), control.WorkspaceSpec{})
		if err != nil {
			g.t.Fatal(err)
		}
		return w.UUID
	}
	for _, w := range g.server.Registry.Workspaces() {
		if w.Kind == "agent" && w.Owner == g.trying {
			return w.UUID
		}
	}
	g.t.Fatalf("%s has no workspace", g.trying)
	return ""
}

// grant makes a grant and gives its id.
func (g *guestHouse) grant(agent, path string) string {
	g.t.Helper()
	got, err := g.client.Grant(g.t.Context(), control.GrantSpec{Agent: agent, Path: path, Right: "read", TTL: "1h"})
	if err != nil {
		g.t.Fatal(err)
	}
	return got.ID
}

func (g *guestHouse) fresh() int { g.made++; return g.made }

// TestCells: every cell of the table, verb by role, from agent.sock. What a role
// may not use is not there; what it may works within its reach, and outside of
// it as if the agent that is named were none.
func TestCells(t *testing.T) {
	g := newGuestHouse(t)
	for _, m := range []string{"a", "b"} {
		if _, err := g.client.Mount(t.Context(), control.MountSpec{Agent: m, Dir: "/mnt/" + m}); err != nil {
			t.Fatal(err)
		}
	}
	open := map[string]bool{}
	routes := g.server.routes()
	for _, r := range routes {
		if err := r.may.whole(); err != nil {
			t.Errorf("%s: %v", r.name(), err)
			continue
		}
		for key, reach := range map[string]reach{"gaia": r.may.orchestrator, "a": r.may.soul, "hall": r.may.shared} {
			if reach == never {
				g.absent(routes, r, key)
				continue
			}
			open[r.name()] = true
			p, there := probes[r.name()]
			if !there {
				t.Errorf("%s is open to %s, and no probe tries it", r.name(), key)
				continue
			}
			g.try(r, p, key, reach)
		}
	}
	for name := range probes {
		if !open[name] {
			t.Errorf("the probe %s is of no verb that is open", name)
		}
	}
}

// absent checks that a route is not there for an agent.
func (g *guestHouse) absent(routes []route, r route, key string) {
	g.t.Helper()
	path := strings.NewReplacer("{key}", key, "{id}", "ada", "{slug}", "site").Replace(r.path)
	status, body, head := g.ask(g.tokens[key], r.method, path, "{}")
	role := policy.Role(map[string]string{"gaia": "orchestrator", "a": "soul", "hall": "shared"}[key])
	var others []string
	for _, o := range routes {
		if c := (asker{agent: key, role: role}).of(o.may); o.path == r.path && c != never {
			others = append(others, o.method)
		}
	}
	if len(others) > 0 {
		if allow := head.Get("Allow"); status != http.StatusMethodNotAllowed || allow != strings.Join(others, ", ") {
			g.t.Errorf("%s as %s: %d %s, Allow %q", r.name(), key, status, body, allow)
		}
		return
	}
	none := "/v1/nothing/of/that/kind"
	wantStatus, wantBody, wantHead := g.ask(g.tokens[key], r.method, none, "{}")
	wantBody = strings.ReplaceAll(wantBody, none, path)
	for _, h := range []http.Header{head, wantHead} {
		h.Del("Content-Length")
	}
	if status != wantStatus || status != http.StatusNotFound || body != wantBody || fmt.Sprint(head) != fmt.Sprint(wantHead) {
		g.t.Errorf("%s as %s: %d %s %v, want what is no path: %d %s %v", r.name(), key, status, body, head, wantStatus, wantBody, wantHead)
	}
}

// try checks one open cell.
func (g *guestHouse) try(r route, p probe, key string, to reach) {
	g.t.Helper()
	g.trying = key
	works := func(by, agent string) string {
		q := p.as(g, agent)
		status, body, _ := g.ask(g.tokens[by], r.method, q.path, q.body)
		if status != http.StatusOK && (status != http.StatusForbidden || by != p.refuses) {
			g.t.Errorf("%s by %s as %q: %d %s", r.name(), by, agent, status, body)
		}
		return body
	}
	refused := func(by, agent string) {
		q, nobody := p.as(g, agent), p.as(g, "nobody")
		status, body, _ := g.ask(g.tokens[by], r.method, q.path, q.body)
		wantStatus, wantBody, _ := g.ask(g.tokens[by], r.method, nobody.path, nobody.body)
		if status != http.StatusNotFound || status != wantStatus || body != strings.ReplaceAll(wantBody, "nobody", agent) {
			g.t.Errorf("%s by %s as %s: %d %s; as one that is not there: %d %s", r.name(), by, agent, status, body, wantStatus, wantBody)
		}
	}
	inPath := strings.Contains(r.path, "{key}")
	other := map[string]string{"gaia": "b", "a": "b", "hall": "a"}[key]
	switch to {
	case anyone:
		works(key, "")
	case itself, below:
		works(key, key)
		if !inPath {
			works(key, "")
		}
		refused(key, other)
		if to == below && key == "a" {
			works(key, "under")
		} else if key == "a" {
			refused(key, "under")
		}
	case sees:
		g.trySees(r, key, works, refused)
	case narrowed:
		body := works(key, "")
		if key != "a" {
			return
		}
		for _, w := range p.hidden {
			if strings.Contains(body, w) {
				g.t.Errorf("%s tells a of %s: %s", r.name(), w, body)
			}
		}
		for _, w := range p.shown {
			if !strings.Contains(body, w) {
				g.t.Errorf("%s does not tell a of %s: %s", r.name(), w, body)
			}
		}
	}
}

func (g *guestHouse) trySees(r route, key string, works func(by, agent string) string, refused func(by, agent string)) {
	switch key {
	case "gaia":
		works("gaia", "b")
		works("keeper", "a")
		refused("keeper", "b")
	case "a":
		works("a", "a")
		works("a", "under")
		refused("a", "b")
		refused("a", "gaia")
	default:
		works(key, key)
		refused(key, "a")
	}
}

// TestARouteWithoutRightsAnswersNobody, the administrator neither.
func TestARouteWithoutRightsAnswersNobody(t *testing.T) {
	s := New(Options{})
	called := false
	do := func(http.ResponseWriter, *http.Request) error { called = true; return nil }
	for _, may := range []rights{{}, {orchestrator: anyone, soul: anyone}, {soul: never, shared: never}} {
		for _, who := range []asker{{}, {agent: "x", role: policy.Orchestrator}, {agent: "x", role: policy.Soul}, {agent: "x", role: policy.Shared}, {agent: "x"}} {
			w := httptest.NewRecorder()
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "/v1/x", nil)
			s.router([]route{{"GET", "/v1/x", do, may}}, who.of).ServeHTTP(w, r)
			if called || w.Code != http.StatusNotFound {
				t.Fatalf("%+v %+v: %d, called: %t", may, who, w.Code, called)
			}
		}
	}
	if slices.Contains([]reach{asker{agent: "x", role: "emperor"}.of(all(anyone))}, anyone) {
		t.Error("an unknown role has rights")
	}
}
