package workspace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// house is a world with its layer and one of everybody: gaia sees all; web and
// mate are ada's, and kid is web's; guest is bob's; lone has no user; hall and
// attic are shared.
type house struct {
	*world
	t      *testing.T
	layer  *workspace.Layer
	config string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	w := newWorld(t)
	h := &house{world: w, t: t, config: filepath.Join(t.TempDir(), "config.toml")}
	for _, u := range []string{"ada", "bob"} {
		_, err := w.reg.AddUser(t.Context(), u, "", "")
		h.ok(err)
	}
	for _, s := range []workspace.AgentSpec{{Key: "gaia", Role: policy.Orchestrator}, {Key: "web", User: "ada"}, {Key: "mate", User: "ada"},
		{Key: "kid", Parent: "web"}, {Key: "guest", User: "bob"}, {Key: "lone"}, {Key: "hall", Role: policy.Shared},
		{Key: "attic", Role: policy.Shared}, {Key: "none", User: "ada", Access: "none"}, {Key: "keeper", Role: policy.Orchestrator, OnlyUser: "ada"}} {
		_, err := w.reg.AddAgent(t.Context(), s)
		h.ok(err)
	}
	h.layer = workspace.NewLayer(workspace.LayerOptions{Registry: w.reg, Space: w.space, Config: h.config})
	return h
}

func (h *house) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// is checks an error's kind.
func (h *house) is(err error, k backend.Kind, what string) {
	h.t.Helper()
	if !errors.Is(err, k) {
		h.t.Errorf("%s: %v, want %v", what, err, k)
	}
}

func (h *house) as(agent string) *view.View {
	h.t.Helper()
	v, err := h.space.Open(view.Options{Agent: agent, Administrator: agent == "", UID: backend.OwnerID, GID: backend.OwnerID})
	h.ok(err)
	return v
}

func (h *house) write(agent, path, text string) {
	h.t.Helper()
	_, err := h.as(agent).Put(path, strings.NewReader(text), 0)
	h.ok(err)
}

func (h *house) keys(agent string) string {
	h.t.Helper()
	items, err := h.layer.Items(h.as(agent))
	h.ok(err)
	var out []string
	for _, it := range items {
		out = append(out, it.Key)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestItemsAreAUsers: a user's souls share their items, with who made each; an agent
// without a user, and a shared one, have their own. Nobody sees another's.
func TestItemsAreAUsers(t *testing.T) {
	h := newHouse(t)
	for agent, id := range map[string]string{"web": "user-ada", "guest": "user-bob", "lone": "agent-lone", "hall": "agent-hall", "gaia": "agent-gaia"} {
		if got, err := h.layer.WriteItem(h.as(agent), "of-"+agent, "x"); err != nil || got != id {
			t.Errorf("%s: %q, %v", agent, got, err)
		}
	}
	first, err := h.layer.ReadItem(h.as("mate"), "of-web")
	h.ok(err)
	_, err = h.layer.WriteItem(h.as("mate"), "of-web", "y")
	h.ok(err)
	it, err := h.layer.ReadItem(h.as("web"), "of-web")
	if err != nil || it.By != "web" || !it.Made.Equal(first.Made) || it.Value != "y" || !it.Changed.After(first.Changed) {
		t.Errorf("after an update: %+v, %v; was %+v", it, err, first)
	}
	for agent, want := range map[string]string{"web": "of-web", "mate": "of-web", "guest": "of-guest", "lone": "of-lone", "hall": "of-hall", "kid": ""} {
		if got := h.keys(agent); got != want {
			t.Errorf("%s lists %q", agent, got)
		}
		for _, key := range []string{"of-web", "of-guest", "of-lone", "of-hall"} {
			if key == want {
				continue
			}
			_, err := h.layer.ReadItem(h.as(agent), key)
			h.is(err, backend.NotFound, agent+" reads "+key)
			if err != nil && !strings.Contains(err.Error(), key) {
				t.Errorf("the text does not name the key: %v", err)
			}
			h.is(h.layer.DeleteItem(h.as(agent), key), backend.NotFound, agent+" deletes "+key)
		}
	}
	if _, err := h.layer.WriteItem(h.as("none"), "k", "x"); err == nil {
		t.Error("an agent without access writes")
	}
	_, err = h.layer.Items(h.as(""))
	h.is(err, backend.Invalid, "the administrator's items")
}

// TestItemKeysAndValues: what can be a key or a value, and what is shown of it.
func TestItemKeysAndValues(t *testing.T) {
	h := newHouse(t)
	v := h.as("web")
	for _, key := range []string{"", ".", "..", "a/b", "/etc/passwd", "a\x00", strings.Repeat("k", 256)} {
		_, err := h.layer.WriteItem(v, key, "x")
		h.is(err, backend.Invalid, fmt.Sprintf("key %.20q", key))
		_, err = h.layer.ReadItem(v, key)
		h.is(err, backend.Invalid, fmt.Sprintf("key %.20q", key))
	}
	_, err := h.layer.WriteItem(v, ".env", "x")
	h.is(err, backend.Denied, "a name on the deny-list")
	_, err = h.layer.WriteItem(v, "k", "\xff")
	h.is(err, backend.Invalid, "no UTF-8")
	_, err = h.layer.WriteItem(v, "k", strings.Repeat("x", workspace.MaxItem+1))
	h.is(err, backend.TooBig, "too long")
	for key, value := range map[string]string{"empty": "", "é\n'\"": "\u2028", strings.Repeat("k", 255): strings.Repeat("日", 100),
		"long": strings.Repeat("日", 101), "max": strings.Repeat("x", workspace.MaxItem)} {
		_, err := h.layer.WriteItem(v, key, value)
		h.ok(err)
		it, err := h.layer.ReadItem(v, key)
		if err != nil || it.Value != value {
			t.Errorf("%.20q: %d bytes, %v", key, len(it.Value), err)
		}
	}
	items, err := h.layer.Items(v)
	h.ok(err)
	for _, it := range items {
		want := map[string]string{"empty": "", "long": strings.Repeat("日", 100) + "...", strings.Repeat("k", 255): strings.Repeat("日", 100)}
		if w, ok := want[it.Key]; ok && (it.Preview != w || it.Type != "text") {
			t.Errorf("%.20q: %s %q", it.Key, it.Type, it.Preview)
		}
	}
}

// TestPublish: one way, from a private agent to a shared one; each refusal has its
// reason, and what may not be known of is unknown.
func TestPublish(t *testing.T) {
	h := newHouse(t)
	_, err := h.layer.WriteItem(h.as("web"), "list", "eggs")
	h.ok(err)
	_, err = h.layer.WriteItem(h.as("hall"), "own", "x")
	h.ok(err)
	texts := map[string]string{}
	for _, c := range []struct {
		by, key, to string
		kind        backend.Kind
	}{
		{"hall", "own", "attic", backend.Denied}, {"none", "list", "hall", backend.Denied}, {"web", "list", "nobody", backend.NotFound},
		{"web", "list", "guest", backend.NotFound}, {"web", "list", "gaia", backend.NotFound}, {"web", "list", "../x", backend.NotFound},
		{"web", "list", "web", backend.Invalid}, {"web", "list", "kid", backend.Invalid}, {"gaia", "list", "web", backend.Invalid},
		{"web", "nothing", "hall", backend.NotFound}, {"guest", "list", "hall", backend.NotFound}, {"web", "a/b", "hall", backend.Invalid},
	} {
		_, err := h.layer.Publish(h.as(c.by), workspace.Publication{Key: c.key, Target: c.to})
		h.is(err, c.kind, fmt.Sprint(c))
		if err != nil {
			texts[c.to] = strings.ReplaceAll(err.Error(), c.to, "X")
		}
	}
	if texts["guest"] != texts["nobody"] || texts["gaia"] != texts["nobody"] {
		t.Errorf("hidden is told from absent: %q", texts)
	}
	key, err := h.layer.Publish(h.as("web"), workspace.Publication{Key: "list", Target: "hall"})
	if err != nil || key != "list" {
		t.Fatalf("%q, %v", key, err)
	}
	it, err := h.layer.ReadItem(h.as("hall"), "list")
	if err != nil || it.By != "web" || it.Value != "eggs" {
		t.Errorf("%+v, %v", it, err)
	}
	_, err = h.layer.PublishData(h.as("guest"), "hall", "list", []byte("milk"))
	h.is(err, backend.Conflict, "what another published")
	h.publishAny("hall")
	_, err = h.layer.PublishData(h.as("guest"), "hall", "list", []byte("milk"))
	h.ok(err)
	if it, err = h.layer.ReadItem(h.as("hall"), "list"); err != nil || it.Value != "milk" || it.By != "web" {
		t.Errorf("after an update: %+v, %v", it, err)
	}
	_, err = h.layer.PublishData(h.as("web"), "hall", ".env", []byte("x"))
	h.is(err, backend.Denied, "the deny-list")
	h.is(h.layer.MayPublish(h.as("web"), "hall", ".env"), backend.Denied, "the deny-list")
	h.ok(h.layer.MayPublish(h.as("web"), "hall", "new"))
	if got := h.keys("attic"); got != "" {
		t.Errorf("another shared agent has %q", got)
	}
	if got := strings.Join(h.layer.SharedAgents(h.as("web")), " "); got != "attic hall" {
		t.Errorf("targets: %s", got)
	}
	if got := h.layer.SharedAgents(h.as("hall")); len(got) != 0 {
		t.Errorf("a shared agent's targets: %v", got)
	}
}

// TestPublishedStaysWhereItWasSent: a link that the shared agent made leads a
// publication nowhere else, and a directory is not replaced.
func TestPublishedStaysWhereItWasSent(t *testing.T) {
	h := newHouse(t)
	h.write("gaia", "/agents/gaia/workspace/plan", "secret")
	v := h.as("hall")
	dir, err := v.Resolve("/agents/hall/workspace")
	h.ok(err)
	_, err = v.Symlink(nil, dir.Node, "link", "/warren/agents/gaia/workspace/plan")
	h.ok(err)
	_, err = v.Mkdir(nil, dir.Node, "dir", 0o755)
	h.ok(err)
	for _, key := range []string{"link", "dir"} {
		_, err := h.layer.PublishData(h.as("gaia"), "hall", key, []byte("x"))
		h.is(err, backend.Conflict, key)
	}
	if b, _, err := h.as("gaia").ReadFile("/agents/gaia/workspace/plan", -1); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	h.write("gaia", "/agents/gaia/workspace/big", strings.Repeat("b", 9<<20))
	key, err := h.layer.Publish(h.as("gaia"), workspace.Publication{Path: "/agents/gaia/workspace/big", Target: "hall"})
	h.ok(err)
	if b, _, err := h.as("hall").ReadFile("/agents/hall/workspace/"+key, -1); err != nil || len(b) != 9<<20 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	_, err = h.layer.Publish(h.as("web"), workspace.Publication{Path: "/agents/gaia/workspace/plan", Target: "hall"})
	h.is(err, backend.NotFound, "a path that the publisher does not see")
	h.ok(h.layer.Withdraw(h.as("gaia"), "hall", key))
	if _, seen := h.as("hall").Sees("/agents/hall/workspace/big"); seen {
		t.Error("withdrawn, and still there")
	}
	h.write("hall", "/agents/hall/workspace/own", "x")
	h.ok(h.layer.Withdraw(h.as("web"), "hall", "own"))
	if _, seen := h.as("hall").Sees("/agents/hall/workspace/own"); !seen {
		t.Error("another's item is withdrawn")
	}
}

// TestWritersAtOnce: values of many writers are whole, and the maker stays.
func TestWritersAtOnce(t *testing.T) {
	h := newHouse(t)
	h.publishAny("hall")
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			agent := []string{"web", "mate"}[n%2]
			v, err := h.space.Open(view.Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 30 {
				if _, err := h.layer.WriteItem(v, "shared", strings.Repeat(string(rune('a'+n)), 1000+i)); err != nil {
					t.Error(err)
				}
				it, err := h.layer.ReadItem(v, "shared")
				if err != nil || strings.Trim(it.Value, it.Value[:1]) != "" || it.By != "web" && it.By != "mate" {
					t.Errorf("%s reads %.40q of %q, %v", agent, it.Value, it.By, err)
				}
				if _, err := h.layer.PublishData(v, "hall", "shared", []byte(it.Value)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	a, err := h.layer.ReadItem(h.as("web"), "shared")
	h.ok(err)
	if b, err := h.layer.ReadItem(h.as("mate"), "shared"); err != nil || a.By != b.By || !a.Made.Equal(b.Made) {
		t.Errorf("%+v, %+v", a, b)
	}
	if got := h.keys("hall"); got != ".published/ shared" {
		t.Errorf("left behind: %q", got)
	}
}

const fieldSchema = `{"type":"object","properties":{
 "status":{"type":"string","enum":["idle","busy"],"default":"idle","description":"what it does"},
 "owner":{"type":"string","readOnly":true}, "n":{"type":"integer","minimum":0},
 "a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"},"d":{"type":"integer"}}}`

// TestFieldsOfOthers: four errors that change nothing; only who may write there sets
// another's, and only who may write the schema a read-only one; to everybody else
// there is no such agent.
func TestFieldsOfOthers(t *testing.T) {
	h := newHouse(t)
	for _, agent := range []string{"web", "kid", "gaia"} {
		h.write("gaia", "/agents/"+agent+"/fields.json", fieldSchema)
	}
	val := func(agent, of, name string) string {
		f, err := h.layer.Field(h.as(agent), of, name)
		h.ok(err)
		return string(f.Value)
	}
	set := func(agent, of, name, value string, kind backend.Kind) {
		t.Helper()
		c, err := h.layer.SetField(h.as(agent), of, name, json.RawMessage(value))
		if kind != 0 {
			h.is(err, kind, fmt.Sprint(agent, " ", of, " ", name, " ", value))
		} else if err != nil || string(c.Value) != value {
			t.Errorf("%s %s %s: %+v, %v", agent, of, name, c, err)
		}
	}
	set("web", "", "status", `"busy"`, 0)
	for _, c := range []struct {
		agent, of, name, value string
		kind                   backend.Kind
	}{
		{"web", "", "nothing", `1`, backend.NotFound}, {"web", "", "owner", `"x"`, backend.Denied}, {"web", "", "status", `"x"`, backend.Invalid},
		{"web", "", "n", `-1`, backend.Invalid}, {"web", "", "n", `"1"`, backend.Invalid}, {"web", "", "n", `{`, backend.Invalid},
		{"lone", "", "status", `"busy"`, backend.NotFound}, {"mate", "web", "status", `"idle"`, backend.NotFound}, {"guest", "web", "n", `1`, backend.NotFound},
		{"kid", "web", "n", `1`, backend.NotFound}, {"hall", "web", "n", `1`, backend.NotFound}, {"web", "guest", "n", `1`, backend.NotFound},
		{"web", "kid", "owner", `"x"`, backend.Denied}, {"web", "no/body", "n", `1`, backend.Invalid}, {"gaia", "", "owner", `"x"`, backend.Denied},
		{"none", "", "status", `"busy"`, backend.Unavailable},
	} {
		set(c.agent, c.of, c.name, c.value, c.kind)
	}
	if got := val("web", "", "status"); got != `"busy"` {
		t.Errorf("after errors: %s", got)
	}
	set("web", "kid", "n", `3`, 0)
	set("gaia", "web", "owner", `"ada"`, 0)
	set("", "kid", "owner", `"ada"`, 0)
	set("keeper", "web", "n", `4`, 0)
	if got := val("web", "", "owner") + val("kid", "", "owner") + val("kid", "", "n"); got != `"ada""ada"3` {
		t.Errorf("%s", got)
	}
	if c, err := h.layer.SetField(h.as("web"), "", "status", json.RawMessage("null")); err != nil || string(c.Previous) != `"busy"` || string(c.Value) != `"idle"` {
		t.Errorf("clearing: %+v, %v", c, err)
	}
	if got := val("web", "", "status"); got != `"idle"` {
		t.Errorf("cleared: %s", got)
	}
	a, err := h.as("gaia").Resolve("/agents/web/values.json")
	h.ok(err)
	if by, err := h.as("gaia").GetXattr(nil, a.Node, "user.warren.modified_by"); err != nil || string(by) != "web" {
		t.Errorf("changed by %q, %v", by, err)
	}
	h.write("gaia", "/agents/web/fields.json", "nonsense")
	_, err = h.layer.Fields(h.as("web"), "")
	h.is(err, backend.Unavailable, "no schema")
	for _, bad := range []string{"nonsense", "null", "[]", "", `{"n": 4,}`} { // what a hand has spoilt stays for it to mend
		h.write("gaia", "/agents/kid/values.json", bad)
		_, err = h.layer.Fields(h.as("kid"), "")
		h.is(err, backend.Conflict, "values "+bad)
		set("kid", "", "n", `5`, backend.Conflict)
		if b, _, err := h.as("gaia").ReadFile("/agents/kid/values.json", -1); err != nil || string(b) != bad {
			t.Errorf("values %q became %q, %v", bad, b, err)
		}
	}
	h.ok(h.as("gaia").Remove("/agents/kid/values.json", false))
	set("kid", "", "n", `5`, 0)
}

// TestFieldsAtOnce: changes of several fields of one agent do not lose each other.
func TestFieldsAtOnce(t *testing.T) {
	h := newHouse(t)
	h.write("gaia", "/agents/web/fields.json", fieldSchema)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			v, err := h.space.Open(view.Options{Agent: "web", UID: backend.OwnerID, GID: backend.OwnerID})
			if err != nil {
				t.Error(err)
				return
			}
			for i := 1; i <= 30; i++ {
				c, err := h.layer.SetField(v, "", name, json.RawMessage(fmt.Sprint(i)))
				want := "null"
				if i > 1 {
					want = fmt.Sprint(i - 1)
				}
				if err != nil || string(c.Previous) != want {
					t.Errorf("%s: %+v, %v", name, c, err)
				}
			}
		}()
	}
	wg.Wait()
	fields, err := h.layer.Fields(h.as("web"), "")
	h.ok(err)
	for _, f := range fields {
		if len(f.Name) == 1 && f.Name != "n" && string(f.Value) != "30" {
			t.Errorf("%s: %s", f.Name, f.Value)
		}
	}
}

// TestContextIsBounded, tells what the agent may know, and is the same until
// something changes.
func TestContextIsBounded(t *testing.T) {
	h := newHouse(t)
	var props []string
	for i := range 60 {
		props = append(props, fmt.Sprintf(`"f%d":{"type":"string","default":%q,"description":%q}`, i, strings.Repeat("v", 2000), strings.Repeat("d\n", 200)))
	}
	h.write("gaia", "/agents/web/fields.json", `{"properties":{`+strings.Join(props, ",")+`}}`)
	for i := range 50 {
		_, err := h.reg.CreateProject(t.Context(), fmt.Sprintf("p%d", i), map[string]string{"web": "write"})
		h.ok(err)
	}
	_, err := h.reg.CreateProject(t.Context(), "vault", map[string]string{"guest": "write"})
	h.ok(err)
	v := h.as("web")
	_, err = v.Put("/agents/web/soul.md", strings.NewReader("x"), 0)
	h.is(err, backend.Denied, "soul.md")
	text, err := h.layer.Context(v)
	h.ok(err)
	if len(text) > 16<<10 || !strings.HasSuffix(text, "\n") {
		t.Errorf("%d bytes", len(text))
	}
	again, err := h.layer.Context(v)
	if err != nil || again != text {
		t.Errorf("not stable: %v", err)
	}
	for _, hidden := range []string{"vault", "guest", "bob", "gaia", "mate"} {
		if strings.Contains(text, hidden) {
			t.Errorf("it tells of %s", hidden)
		}
	}
	for _, w := range []string{"`web`, role soul, of user `ada`", "`/agents/web/workspace`", "`/users/ada`", "`/projects/p0`", "[EDITABLE] f0 (string)", "and 30 more", "and 20 more", "## Denied of late"} {
		if !strings.Contains(text, w) {
			t.Errorf("it does not have %q:\n%s", w, text)
		}
	}
	h.write("gaia", "/agents/web/fields.json", fieldSchema)
	if text, err = h.layer.Context(v); err != nil || !strings.Contains(text, "- [EDITABLE] status (string): \"idle\" (what it does)\n") ||
		!strings.Contains(text, "- owner (string): null\n") || !strings.Contains(text, "open `/agents/web/soul.md`") {
		t.Errorf("%s, %v", text, err)
	}
	before := h.space.Denials("")
	_, err = h.layer.Context(v)
	h.ok(err)
	if after := h.space.Denials(""); len(after) != len(before) || after[len(after)-1].Count != before[len(before)-1].Count {
		t.Errorf("the context itself is noted as refused: %+v", after)
	}
	if text, err = h.layer.Context(h.as("none")); err != nil || strings.Contains(text, "ada/") || strings.Contains(text, "##") {
		t.Errorf("without access: %s, %v", text, err)
	}
}

// TestConfigLayers: workspace over store, environment over both, tables merged,
// secrets masked; another's configuration is not shown.
func TestConfigLayers(t *testing.T) {
	h := newHouse(t)
	h.ok(os.WriteFile(h.config, []byte("provider = \"claude\"\nlist = [1, 2]\nwas = 1\n[providers.claude]\nmodel = \"m1\"\napi_key = \"sk-1\"\n"+
		"[tables.t]\nx = 1\n[[servers]]\nurl = \"u\"\ntoken = \"sk-2\"\n"), 0o600))
	h.write("gaia", "/agents/web/config.toml", "provider = \"gemini\"\nlist = [3]\ntables = 5\n[was]\nnow = 2\n[providers.claude]\nmodel = \"m2\"\n[secrets]\na = \"sk-3\"\n")
	c, err := h.layer.Config(h.as("web"), "", []workspace.Variable{{Name: "ANTHROPIC_API_KEY", Key: "providers.claude.api_key"}})
	h.ok(err)
	var got []string
	for _, s := range c.Settings {
		got = append(got, fmt.Sprintf("%s=%s %s", s.Key, s.Value, s.Origin))
	}
	want := []string{`list=[3] workspace`, `provider="gemini" workspace`, `providers.claude.api_key="********" environment`,
		`providers.claude.model="m2" workspace`, `secrets.a="********" workspace`, `servers=[{"token":"********","url":"u"}] store`, `tables=5 workspace`, `was.now=2 workspace`}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if c, err = h.layer.Config(h.as(""), "", nil); err != nil || len(c.Settings) != 7 {
		t.Errorf("the store's own: %+v, %v", c, err)
	}
	_, err = h.layer.Config(h.as("web"), "default", nil)
	h.is(err, backend.NotFound, "a device workspace")
	h.write("gaia", "/agents/mate/config.toml", "= broken")
	if c, err = h.layer.Config(h.as("mate"), "", nil); err != nil || len(c.Warnings) != 1 || len(c.Settings) == 0 {
		t.Errorf("a broken layer: %+v, %v", c, err)
	}
}

// openAt is a world whose clock is given.
func (h *house) reopen(now func() time.Time) {
	h.t.Helper()
	var err error
	h.reg, err = workspace.Open(h.t.Context(), workspace.Options{Store: h.store, Space: h.space, Clock: uptime.New(now, nil)})
	h.ok(err)
	h.layer = workspace.NewLayer(workspace.LayerOptions{Registry: h.reg, Space: h.space, Config: h.config})
}
