package mcp_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// sampled are the tools that the tables of this file are about; other groups have
// tests of their own.
const sampled = "read,list,stat,search,write,edit,mkdir,move,remove,items,fields,sessions"

// roles are agents of every kind, and one that is removed when its host has started.
var roles = []string{"gaia", soul, "concierge", "reader", "blind", "ghost"}

// eachRole connects as each of roles, and makes what the tables work on.
func eachRole(t *testing.T) (s *stack.Stack, hosts map[string]*host) {
	t.Helper()
	s, hosts = running(t), map[string]*host{}
	if _, err := s.Try("agent", "show", "reader"); err != nil {
		s.Warren(t, "agent", "add", "reader", "--user", "ada", "--access", "ro")
		s.Warren(t, "agent", "add", "blind", "--user", "ada", "--access", "none")
	}
	s.Warren(t, "agent", "add", "ghost")
	for _, agent := range roles {
		hosts[agent] = connect(t, s, "--agent", agent, "--tools", sampled)
	}
	s.Warren(t, "agent", "rm", "ghost", "--yes")
	for _, agent := range roles[:5] {
		hosts["gaia"].raw("remove", object{"path": "/agents/" + agent + "/workspace/role", "recursive": true}) // of another test, if there
		hosts["gaia"].call("mkdir", object{"path": "/agents/" + agent + "/workspace/role", "parents": true})
		hosts["gaia"].call("write", object{"path": "/agents/" + agent + "/workspace/role/f", "content": "one\n"})
	}
	return s, hosts
}

// sample is a call that is in order, and what comes of it for each of roles.
type sample struct {
	tool string
	args object
	want [6]string // ok, or the kind of the failure
}

// samples has all tools of files, items, fields and sessions, in an order in which
// each finds what it needs.
func samples() []sample {
	const ok, denied, absent, none, conflict = "ok", "denied", "not_found", "unavailable", "conflict"
	all := [6]string{ok, ok, ok, ok, absent, absent}
	writers := [6]string{ok, ok, ok, denied, absent, absent}
	return []sample{
		{"read", object{"path": "role/f"}, all},
		{"list", object{"dir": "role"}, all},
		{"stat", object{"path": "role/f"}, all},
		{"search", object{"query": "one", "paths": []any{"role"}}, all},
		{"write", object{"path": "role/f", "content": "one\n"}, writers},
		{"edit", object{"path": "role/f", "edits": []any{object{"old": "one", "new": "two"}}}, writers},
		{"mkdir", object{"path": "role/d"}, writers},
		{"move", object{"from": "role/f", "to": "role/g"}, writers},
		{"remove", object{"path": "role", "recursive": true}, writers},
		{"workspace_write", object{"key": "role", "value": "v"}, [6]string{ok, ok, ok, denied, denied, absent}},
		{"workspace_list", object{}, all},
		{"workspace_read", object{"key": "role"}, all},
		{"workspace_publish", object{"key": "role", "target_agent_id": "concierge", "target_key": "role-there"}, [6]string{ok, conflict, denied, conflict, denied, absent}}, // the first publisher's,
		{"workspace_delete", object{"key": "role"}, [6]string{ok, ok, ok, absent, absent, absent}},
		{"update_workspace", object{"field_name": "no-such", "value": 1}, [6]string{absent, absent, absent, absent, none, absent}},
		{"session_new", object{"model": "m"}, writers},
		{"session_append", object{"role": "user", "text": "hi"}, writers},
		{"session_read", object{}, [6]string{ok, ok, ok, ok, ok, absent}},
		{"session_clear", object{}, writers},
	}
}

// tryAs makes a call, whose answer must have the shape that it should, and gives
// ok, or the kind of the failure.
func (h *host) tryAs(tool string, args any) string {
	h.t.Helper()
	r := h.raw(tool, args)
	if !r.IsError {
		h.checked(tool, r)
		return "ok"
	}
	e := h.refusal(tool, r, kinds...)
	kind, _ := e["kind"].(string)
	return kind
}

// TestRoles: every tool by every role, with arguments that are in order, missing,
// of a wrong type, too long and hostile.
func TestRoles(t *testing.T) {
	_, hosts := eachRole(t)
	all := samples()
	for _, c := range all {
		for i, agent := range roles {
			if got := hosts[agent].tryAs(c.tool, c.args); got != c.want[i] {
				t.Errorf("%s by %s: %s, want %s", c.tool, agent, got, c.want[i])
			}
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, agent := range roles {
		h := hosts[agent]
		for _, tool := range h.tools {
			i := slices.IndexFunc(all, func(c sample) bool { return c.tool == tool.Name })
			if i < 0 {
				t.Errorf("no sample of %s", tool.Name)
				continue
			}
			schema := tool.InputSchema.(map[string]any)
			if schema["required"] != nil {
				h.fails(tool.Name, object{}, "invalid")
			}
			for _, name := range properties(tool) {
				p := schema["properties"].(map[string]any)[name].(map[string]any)
				h.wrong(tool.Name, name, all[i].args, p, r)
			}
		}
		h.tryAs("session_clear", object{}) // other tests begin with none
	}
}

// wrong makes a sample's call with one argument of a wrong type, too long, and
// hostile.
func (h *host) wrong(tool, name string, good object, schema map[string]any, r *rand.Rand) {
	h.t.Helper()
	with := func(v any) object {
		args := object{}
		for k, old := range good {
			args[k] = old
		}
		args[name] = v
		return args
	}
	if schema["type"] == nil { // anything
		return
	}
	h.fails(tool, with(object{"x": 1}), "invalid")
	if schema["type"] != "string" {
		h.fails(tool, with("x"), "invalid")
		return
	}
	if most, ok := schema["maxLength"].(float64); ok && most < 1<<20 {
		h.fails(tool, with(strings.Repeat("x", int(most)+1)), "invalid")
	}
	for range 4 {
		h.tryAs(tool, with(hostile[r.IntN(len(hostile))]))
	}
}

// TestOversized: what has no bound of some kilobytes has one of megabytes.
func TestOversized(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of megabytes")
	}
	h := connect(t, running(t), "--agent", soul, "--project", "oversized")
	big := strings.Repeat("x", 12<<20+1)
	h.fails("write", object{"path": "f", "content": big}, "invalid")
	h.fails("workspace_write", object{"key": "k", "value": big}, "invalid")
	h.fails("session_append", object{"role": "user", "text": big}, "invalid")
	h.fails("update_workspace", object{"field_name": "mood", "value": big}, kinds...)
	h.fails("edit", object{"path": "f", "edits": []object{{"old": big, "new": "x"}}}, "invalid")
	h.fails("search", object{"query": big}, "invalid")
	h.call("list", object{})
}

// TestHiddenFromEachRole: to nobody but the orchestrator is there a difference, by
// one byte, between what is hidden and what is not there.
func TestHiddenFromEachRole(t *testing.T) {
	s, hosts := eachRole(t)
	gaia := hosts["gaia"]
	for _, path := range []string{"/agents/stranger/workspace/zebra", "/users/bob/zebra", "/workspaces/default/zebra"} {
		gaia.call("write", object{"path": path, "content": "zebra stripes"})
	}
	s.Warren(t, "device", "resolve", "zebra-tv")
	var room struct{ UUID string }
	if err := json.Unmarshal([]byte(s.Warren(t, "device", "resolve", "zebra-tv", "--json")), &room); err != nil {
		t.Fatal(err)
	}
	none := "00000000-0000-4000-8000-000000000000"
	same := strings.NewReplacer("stranger", "A", "strangex", "A", "bob", "U", "bxb", "U", "default", "W", "defaulx", "W",
		"zebra-tv", "D", "zebra-tx", "D", room.UUID, "W", none, "W")
	pairs := [][2]string{{"/agents/stranger/workspace/zebra", "/agents/strangex/workspace/zebra"}, {"/agents/stranger", "/agents/strangex"},
		{"/users/bob/zebra", "/users/bxb/zebra"}, {"/workspaces/default", "/workspaces/defaulx"}, {"/workspaces/" + room.UUID, "/workspaces/" + none},
		{"/agents/gaia/../stranger/workspace", "/agents/gaia/../strangex/workspace"}, {"../../stranger/soul.md", "../../strangex/soul.md"}}
	for _, agent := range []string{soul, "concierge", "reader", "blind", "ghost"} {
		h := hosts[agent]
		compare := func(tool string, hidden, absent object) {
			t.Helper()
			a, b := h.raw(tool, hidden), h.raw(tool, absent)
			if x, y := same.Replace(textOf(a)), same.Replace(textOf(b)); !a.IsError || !b.IsError || x != y {
				t.Errorf("%s by %s of what is hidden, %v: %s; of what is not there: %s", tool, agent, hidden, textOf(a), textOf(b))
			}
		}
		for _, pair := range pairs {
			for tool, with := range pathArguments {
				compare(tool, with(pair[0]), with(pair[1]))
			}
		}
		for _, tool := range []string{"session_read", "session_clear", "session_new"} {
			compare(tool, object{"workspace": room.UUID}, object{"workspace": none})
		}
		compare("session_append", object{"workspace": room.UUID, "role": "user", "text": "x"}, object{"workspace": none, "role": "user", "text": "x"})
		compare("session_new", object{"device_id": "zebra-tv"}, object{"device_id": "zebra-tx"})
		compare("workspace_publish", object{"key": "no", "target_agent_id": "stranger"}, object{"key": "no", "target_agent_id": "strangex"})
		for _, c := range []struct {
			tool string
			args object
		}{{"list", object{"dir": "/"}}, {"list", object{"dir": "/agents"}}, {"search", object{"query": "zebra", "paths": []any{"/"}, "hidden": true}}, {"workspace_list", object{}}} {
			b, err := json.Marshal(h.raw(c.tool, c.args))
			if err != nil || strings.Contains(string(b), "zebra") || strings.Contains(string(b), room.UUID) {
				t.Errorf("%s %v by %s: %s, %v", c.tool, c.args, agent, b, err)
			}
		}
	}
	if out := s.Warren(t, "device", "list"); strings.Contains(out, "zebra-tx") {
		t.Errorf("who may not manage devices has made a workspace for one: %s", out)
	}
}

// pathArguments are, by tool, the arguments that name a path.
var pathArguments = map[string]func(string) object{
	"read":   func(p string) object { return object{"path": p} },
	"list":   func(p string) object { return object{"dir": p} },
	"stat":   func(p string) object { return object{"path": p, "follow": true} },
	"search": func(p string) object { return object{"query": "x", "paths": []any{p}} },
	"write":  func(p string) object { return object{"path": p, "content": "x", "no_clobber": true} },
	"edit":   func(p string) object { return object{"path": p, "edits": []any{object{"old": "a", "new": "b"}}} },
	"move": func(p string) object {
		return object{"from": p, "to": "/agents/web_designer/workspace/x", "if_match": "x"}
	},
	"mkdir":  func(p string) object { return object{"path": filepath.Join(p, "x"), "parents": true} },
	"remove": func(p string) object { return object{"path": p, "if_match": "x"} },
}
