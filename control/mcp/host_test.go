package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// hostile are strings that arguments may be.
var hostile = []string{"", ".", "..", "/", "//", "../../../etc/passwd", "/agents/stranger/workspace/secret", "/users/bob", "/.warren/whoami", "a\x00b", "\u202e", "\ud7ff",
	"%2e%2e", "a?agent=stranger", "a&agent=gaia", "x\ny", strings.Repeat("a/", 3000), strings.Repeat("x", 70_000), "-rf", "$(id)", "\r\n\r\nGET / HTTP/1.1", "(", "[z-a]", "(a*)*b", "*", "!",
	"stranger", "gaia", "\\", "{", "\"", "'", "\u0000"}

var kinds = []string{"not_found", "denied", "invalid", "conflict", "quota", "unavailable"}

// properties gives the names of a tool's arguments.
func properties(t *sdk.Tool) []string {
	var out []string
	all, _ := t.InputSchema.(map[string]any)["properties"].(map[string]any)
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestBadArguments: missing, wrong-typed, unknown, oversized and hostile
// arguments to every tool are answered, in the shape of errors or as a call that
// works; the server lives on.
func TestBadArguments(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "bad")
	values := []any{nil, true, -1, 1.5, 1e300, []any{}, []any{nil}, object{}, []any{object{"old": 1}}, strings.Repeat("x", 1<<17)}
	for _, v := range hostile {
		values = append(values, v)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, tool := range h.tools {
		required := tool.InputSchema.(map[string]any)["required"]
		if required != nil {
			h.fails(tool.Name, object{}, "invalid")
		}
		h.fails(tool.Name, object{"nosuch": 1}, "invalid")
		h.fails(tool.Name, []any{1}, "invalid")
		names := properties(tool)
		for i := range 25 {
			args := object{}
			for _, name := range names {
				if i == 0 || r.IntN(3) > 0 {
					args[name] = values[r.IntN(len(values))]
				}
			}
			if tool.Name == "remove" { // of what is not there: the rest of the tests needs what is
				args["recursive"] = "x"
			}
			if got := h.raw(tool.Name, args); got.IsError {
				h.refusal(tool.Name, got, kinds...)
			} else {
				h.checked(tool.Name, got)
			}
		}
	}
	if _, err := h.s.CallTool(t.Context(), &sdk.CallToolParams{Name: "nosuch"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("a tool that is none: %v", err)
	}
	h.call("list", object{})
}

// TestHiddenIsAbsent: no tool makes a difference between what the agent may not
// know of and what is not there, and none names it.
func TestHiddenIsAbsent(t *testing.T) {
	s := running(t)
	other := connect(t, s, "--agent", "stranger")
	other.call("write", object{"path": "secret-file", "content": "classified"})
	other.call("mkdir", object{"path": "secret-dir"})
	other.call("workspace_write", object{"key": "secret-item", "value": "classified"})
	h := connect(t, s, "--agent", soul)
	pairs := [][2]string{
		{"/agents/stranger/workspace/secret-file", "/agents/nobodyy/workspace/secret-file"},
		{"/agents/stranger", "/agents/nobodyy"},
		{"/users/bob", "/users/nob"},
		{"/agents/stranger/workspace/secret-dir", "/agents/nobodyy/workspace/secret-dir"},
	}
	calls := []func(p string) (string, object){
		func(p string) (string, object) { return "read", object{"path": p} },
		func(p string) (string, object) { return "list", object{"dir": p} },
		func(p string) (string, object) { return "stat", object{"path": p} },
		func(p string) (string, object) { return "search", object{"query": "x", "paths": []string{p}} },
		func(p string) (string, object) { return "write", object{"path": p, "content": "x"} },
		func(p string) (string, object) { return "write", object{"path": p, "content": "x", "mode": "append"} },
		func(p string) (string, object) { return "write", object{"path": p, "content": "x", "no_clobber": true} },
		func(p string) (string, object) { return "write", object{"path": p, "content": "x", "if_match": "x"} },
		func(p string) (string, object) {
			return "edit", object{"path": p, "edits": []object{{"old": "a", "new": "b"}}}
		},
		func(p string) (string, object) { return "move", object{"from": p, "to": "mine"} },
		func(p string) (string, object) { return "mkdir", object{"path": p + "/x"} },
		func(p string) (string, object) { return "mkdir", object{"path": p + "/x/y", "parents": true} },
		func(p string) (string, object) { return "remove", object{"path": p} },
		func(p string) (string, object) { return "remove", object{"path": p, "recursive": true} },
	}
	h.call("write", object{"path": "own", "content": "x"})
	calls = append(calls, func(p string) (string, object) { return "move", object{"from": "own", "to": p + "/x"} })
	same := strings.NewReplacer("stranger", "KEY", "nobodyy", "KEY", "bob", "USER", "nob", "USER")
	for _, pair := range pairs {
		for _, call := range calls {
			var texts [2]string
			for i, p := range pair {
				tool, args := call(p)
				texts[i] = same.Replace(fmt.Sprint(h.fails(tool, args, kinds...)))
			}
			if texts[0] != texts[1] {
				tool, _ := call("")
				t.Errorf("%s of what is hidden: %s; of what is not there: %s", tool, texts[0], texts[1])
			}
		}
	}
	var texts [2]string
	for i, target := range []string{"stranger", "nobodyy"} {
		h.call("workspace_write", object{"key": "mine", "value": "x"})
		texts[i] = same.Replace(fmt.Sprint(h.fails("workspace_publish", object{"key": "mine", "target_agent_id": target}, "not_found")))
	}
	if texts[0] != texts[1] {
		t.Errorf("publish to one that is hidden: %s; to none: %s", texts[0], texts[1])
	}
	for _, c := range []struct {
		tool string
		args object
	}{{"list", object{"dir": "/"}}, {"list", object{"dir": "/agents"}}, {"list", object{"dir": "/users"}}, {"search", object{"query": "classified", "paths": []string{"/"}, "hidden": true}}, {"workspace_list", object{}}} {
		b, err := json.Marshal(h.call(c.tool, c.args))
		if err != nil || strings.Contains(string(b), "secret") || strings.Contains(string(b), "classified") || strings.Contains(string(b), "bob") {
			t.Errorf("%s %v: %s, %v", c.tool, c.args, b, err)
		}
	}
}

// TestProfiles: --read-only and --tools choose what is offered.
func TestProfiles(t *testing.T) {
	s := running(t)
	names := func(h *host) string {
		var out []string
		for _, tool := range h.tools {
			out = append(out, tool.Name)
			a := tool.Annotations
			if a == nil || tool.Title == "" || tool.Description == "" || a.DestructiveHint == nil || a.OpenWorldHint == nil {
				t.Errorf("%s is not described: %+v", tool.Name, tool)
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got := names(connect(t, s, "--agent", soul)); got != "decision_add delegate_begin delegate_diff edit explain git_add git_commit git_diff git_fetch git_log git_pull git_push git_status inbox_add inbox_close journal_append journal_read list mkdir move read remove search "+
		"session_append session_clear session_new session_read stat update_workspace whats_new workspace_delete workspace_info workspace_init workspace_list workspace_publish workspace_read workspace_switch workspace_write workspaces write" {
		t.Errorf("all: %s", got)
	}
	for _, tool := range connect(t, s, "--agent", soul).tools { // some hosts take no boolean as a schema
		for _, schema := range []any{tool.InputSchema, tool.OutputSchema} {
			props, _ := schema.(object)["properties"].(object)
			for name, p := range props {
				if _, ok := p.(object); !ok {
					t.Errorf("%s: the schema of %s is %v", tool.Name, name, p)
				}
			}
		}
	}
	ro := connect(t, s, "--agent", soul, "--read-only")
	if got := names(ro); got != "delegate_diff explain git_diff git_log git_status journal_read list read search session_read stat workspace_info workspace_list workspace_read workspaces" {
		t.Errorf("read-only: %s", got)
	}
	if _, err := ro.s.CallTool(t.Context(), &sdk.CallToolParams{Name: "write", Arguments: object{"path": "x", "content": "x"}}); err == nil {
		t.Error("a tool that is not offered works")
	}
	if got := names(connect(t, s, "--agent", soul, "--tools", "items,read")); got != "read workspace_delete workspace_list workspace_publish workspace_read workspace_write" {
		t.Errorf("some: %s", got)
	}
	s.Refused(t, 2, "mcp", "--agent", soul, "--tools", "nosuch")
	s.Refused(t, 2, "mcp")
	s.Refused(t, 2, "mcp", "--agent", soul, "--project", "../x")
}

// TestLines: what is no message is answered as JSON-RPC says, and the next one is
// read.
func TestLines(t *testing.T) {
	s := running(t)
	cmd := s.Command("mcp", "--agent", soul)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer waits.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })()
	answers := bufio.NewReaderSize(out, 1<<20)
	for _, c := range []struct{ line, want string }{
		{`garbage`, `"code":-32700`},
		{"\x00\xff", `"code":-32700`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"code":-32600`},
		{`"text"`, `"code":-32600`},
		{`{"id":7}`, `"code":-32600`},
		{strings.Repeat("x", 65<<20), `"code":-32600`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"serverInfo"`},
		{`{"jsonrpc":"2.0","id":2,"method":"nosuch"}`, `"error"`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"list","arguments":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`, `"id":3`},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`, `"inputSchema"`},
	} {
		if _, err := fmt.Fprintln(in, c.line); err != nil {
			t.Fatalf("%.80s: %v", c.line, err)
		}
		got, err := answers.ReadString('\n')
		if err != nil || !strings.Contains(got, c.want) || !json.Valid([]byte(got)) {
			t.Errorf("%.80q: %.300s, %v; want %s", c.line, got, err, c.want)
		}
		if strings.Contains(c.want, "serverInfo") {
			_, _ = fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of what comes in: %v", err)
	}
}

// TestCancel: a call that is given up ends, and the server goes on.
func TestCancel(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "cancel")
	lines := 600_000
	if stack.Race() {
		lines /= 6
	}
	text := strings.Repeat("abcabcabcabd\n", lines)
	for i := range 6 {
		h.call("write", object{"path": fmt.Sprint("f", i), "content": text})
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := h.s.CallTool(ctx, &sdk.CallToolParams{Name: "search", Arguments: object{"query": `(a|b|c)*e\w`}})
		cancel()
		if err == nil {
			t.Errorf("a search of %d MB is done in 5 ms", 6*len(text)>>20)
		}
	}
	h.call("list", object{})
}

// TestRestart: while the daemon is away calls are unavailable; the same session
// goes on after it.
func TestRestart(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul)
	h.call("write", object{"path": "kept", "content": "before"})
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.fails("read", object{"path": "kept"}, "unavailable")
	h.fails("search", object{"query": "x"}, "unavailable")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if got := h.call("read", object{"path": "kept"}); got["content"] != "before" {
		t.Errorf("%v", got)
	}
}

// TestLog: a line for each call, without values.
func TestLog(t *testing.T) {
	s := running(t)
	file := filepath.Join(t.TempDir(), "log")
	h := connect(t, s, "--agent", soul, "--log", file)
	h.call("write", object{"path": "very-private", "content": "very-private"})
	h.fails("read", object{"path": "very-private/x"}, "not_found", "invalid")
	b, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(b), "very-private") {
		t.Errorf("%s, %v", b, err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i, want := range []string{`"tool":"write"`, `"tool":"read"`} {
		if i >= len(lines) || !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `"agent":"web_designer"`) || !strings.Contains(lines[i], `"ms":`) {
			t.Errorf("line %d: %v", i, lines)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], `"outcome":"ok"`) || strings.Contains(lines[1], `"outcome":"ok"`) {
		t.Errorf("%v", lines)
	}
}
