package mcp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestFileTools drives every file tool by a client over standard streams.
func TestFileTools(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "tools")
	if out := h.call("write", object{"path": "a.txt", "content": "one\ntwo\n"}); out["path"] != "/agents/web_designer/workspace/tools/a.txt" || out["size"] != 8.0 {
		t.Errorf("write: %v", out)
	}
	got := h.call("read", object{"path": "a.txt"})
	if got["content"] != "one\ntwo\n" || got["type"] != "text" || got["lines"] != 2.0 || got["truncated"] != false {
		t.Errorf("read: %v", got)
	}
	etag := got["etag"]
	if got := h.call("read", object{"path": "a.txt", "line": 2, "lines": 1}); got["content"] != "two\n" || got["line"] != 2.0 || got["offset"] != 4.0 {
		t.Errorf("read a line: %v", got)
	}
	if got := h.call("read", object{"path": "a.txt", "offset": 1, "length": 2}); got["content"] != "ne" || got["next"] != 3.0 || got["truncated"] != true {
		t.Errorf("read bytes: %v", got)
	}
	if got := h.call("read", object{"path": "a.txt", "encoding": "base64"}); got["content"] != base64.StdEncoding.EncodeToString([]byte("one\ntwo\n")) {
		t.Errorf("read base64: %v", got)
	}
	file := filepath.Join(s.Soul, "agents", soul, "workspace/tools/a.txt")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	h.fails("write", object{"path": "a.txt", "content": "x", "if_match": "old"}, "conflict")
	h.fails("write", object{"path": "a.txt", "content": "x", "no_clobber": true}, "conflict")
	h.call("write", object{"path": "a.txt", "content": "three\n", "mode": "append"})
	e := h.fails("write", object{"path": "a.txt", "content": "x", "if_match": etag}, "conflict")
	now, _ := e["details"].(object)
	h.call("write", object{"path": "a.txt", "content": "dGhyZWUK", "encoding": "base64", "if_match": now["etag"]})
	dry := h.call("edit", object{"path": "a.txt", "dry_run": true, "edits": []object{{"old": "three", "new": "four"}}})
	real := h.call("edit", object{"path": "a.txt", "edits": []object{{"old": "three", "new": "four"}}})
	if dry["diff"] != real["diff"] || !strings.Contains(fmt.Sprint(real["diff"]), "-three\n+four\n") || real["mode"] != "0755" || real["replaced"] != 1.0 {
		t.Errorf("edit: %v, dry run %v", real, dry)
	}
	h.fails("edit", object{"path": "a.txt", "edits": []object{{"old": "nothing", "new": "x"}}}, "conflict")
	if b, err := os.ReadFile(file); err != nil || string(b) != "four\n" {
		t.Errorf("in the mount: %q, %v", b, err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o755 {
		t.Errorf("in the mount: %v, %v", st, err)
	}
	h.call("mkdir", object{"path": "d/e", "parents": true})
	h.fails("mkdir", object{"path": "d"}, "conflict")
	h.call("write", object{"path": "b.txt", "content": "b"})
	h.fails("move", object{"from": "b.txt", "to": "a.txt"}, "conflict")
	if out := h.call("move", object{"from": "b.txt", "to": "d/c.txt"}); out["path"] != "/agents/web_designer/workspace/tools/d/c.txt" {
		t.Errorf("move: %v", out)
	}
	if out := h.call("stat", object{"path": "d/c.txt"}); out["type"] != "file" || out["created_by"] != soul || out["etag"] == "" {
		t.Errorf("stat: %v", out)
	}
	h.call("write", object{"path": "e.txt", "content": "e"})
	was := h.call("stat", object{"path": "e.txt"})["etag"]
	h.call("write", object{"path": "e.txt", "content": "f"})
	at := h.call("stat", object{"path": "e.txt"})["etag"]
	for _, c := range []struct {
		tool string
		args object
	}{{"remove", object{"path": "e.txt"}}, {"move", object{"from": "e.txt", "to": "g.txt"}}} {
		c.args["if_match"] = was
		if e := h.fails(c.tool, c.args, "conflict"); fmt.Sprint(e["details"]) != fmt.Sprint(object{"etag": at}) {
			t.Errorf("%s of what has changed: %v, etag %v", c.tool, e, at)
		}
	}
	h.fails("remove", object{"path": "d", "if_match": at}, "conflict", "invalid")
	h.fails("remove", object{"path": "d", "if_match": at, "recursive": true}, "invalid")
	h.fails("move", object{"from": "d", "to": "dd", "if_match": at}, "conflict")
	h.fails("remove", object{"path": "none", "if_match": at}, "not_found")
	moved := h.call("move", object{"from": "e.txt", "to": "g.txt", "if_match": at})
	h.call("remove", object{"path": "g.txt", "if_match": moved["etag"]})
	h.fails("remove", object{"path": "d"}, "conflict")
	h.call("remove", object{"path": "d", "recursive": true})
	h.fails("stat", object{"path": "d"}, "not_found")
}

// TestReadKinds: images come as image content, binary files by base64, big ones
// in parts, and text is not cut inside a character.
func TestReadKinds(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "kinds")
	var pic bytes.Buffer
	if err := png.Encode(&pic, image.NewNRGBA(image.Rect(0, 0, 3, 3))); err != nil {
		t.Fatal(err)
	}
	put := func(name string, b []byte) {
		h.call("write", object{"path": name, "content": base64.StdEncoding.EncodeToString(b), "encoding": "base64"})
	}
	put("p.png", pic.Bytes())
	r := h.raw("read", object{"path": "p.png"})
	img, ok := r.Content[0].(*sdk.ImageContent)
	if !ok || !bytes.Equal(img.Data, pic.Bytes()) || img.MIMEType != "image/png" || h.checked("read", r)["type"] != "image" {
		t.Errorf("image: %+v", r)
	}
	big := append(bytes.Clone(pic.Bytes()), make([]byte, 600<<10)...)
	put("big.png", big)
	r = h.raw("read", object{"path": "big.png"})
	if img, ok := r.Content[0].(*sdk.ImageContent); !ok || !bytes.Equal(img.Data, big) {
		t.Errorf("big image: %.200v", r.Content[0])
	}
	put("bin", []byte{0, 255, 1})
	if got := h.call("read", object{"path": "bin"}); got["type"] != "binary" || got["content"] != "AP8B" {
		t.Errorf("binary: %v", got)
	}
	put("latin", []byte("caf\xe9"))
	if got := h.call("read", object{"path": "latin"}); got["type"] != "binary" {
		t.Errorf("Latin-1: %v", got)
	}
	text := strings.Repeat("é\n", 200_000)
	put("long", []byte(text))
	var all strings.Builder
	for next := 0.0; ; {
		got := h.call("read", object{"path": "long", "offset": next, "length": 100_001})
		if got["type"] != "text" {
			t.Fatalf("at %v: %v", next, got["type"])
		}
		all.WriteString(got["content"].(string))
		if got["truncated"] == false {
			break
		}
		next = got["next"].(float64)
	}
	if all.String() != text {
		t.Errorf("parts make %d bytes, want %d", all.Len(), len(text))
	}
	if got := h.call("read", object{"path": "long", "line": 199_999}); got["content"] != "é\né\n" || got["lines"] != 200_000.0 {
		t.Errorf("last lines: %v", got)
	}
	if got := h.call("read", object{"path": "long", "line": 200_001}); got["content"] != "" || got["lines"] != 200_000.0 {
		t.Errorf("after the last line: %v", got)
	}
}

// TestListAndSearch: pages, and lines found with what is around them.
func TestListAndSearch(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "many")
	for i := range 7 {
		h.call("write", object{"path": fmt.Sprintf("f%d.txt", i), "content": fmt.Sprintf("before\nneedle %d\nafter\n", i)})
	}
	var names []string
	args := object{"limit": 3}
	for {
		page := h.call("list", args)
		for _, e := range page["entries"].([]any) {
			names = append(names, e.(object)["name"].(string))
		}
		if page["next"] == nil {
			break
		}
		args = object{"limit": 3, "cursor": page["next"]}
	}
	if len(names) != 7 || !slices.IsSorted(names) {
		t.Errorf("pages: %v", names)
	}
	got := h.call("search", object{"query": `needle [0-3]`, "globs": []string{"*.txt", "!f2*"}, "context": 1})
	m := got["matches"].([]any)
	if len(m) != 3 || got["files"] != 6.0 || got["truncated"] != false {
		t.Fatalf("search: %v", got)
	}
	first := m[0].(object)
	if first["path"] != "/agents/web_designer/workspace/many/f0.txt" || first["line"] != 2.0 || first["text"] != "needle 0" ||
		fmt.Sprint(first["before"], first["after"]) != "[before] [after]" {
		t.Errorf("search: %v", first)
	}
	if got := h.call("search", object{"query": "needle", "limit": 2}); got["truncated"] != true {
		t.Errorf("limit: %v", got)
	}
	h.fails("search", object{"query": "("}, "invalid")
}

// TestLayerTools drives the tools of items, fields and sessions.
func TestLayerTools(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul)
	if out := h.call("workspace_write", object{"key": "list", "value": "eggs"}); out["status"] != "written" || out["workspace_id"] != "user-ada" {
		t.Errorf("write: %v", out)
	}
	if out := h.call("workspace_read", object{"key": "list"}); out["value"] != "eggs" || out["created_by"] != soul {
		t.Errorf("read: %v", out)
	}
	if out := fmt.Sprint(h.call("workspace_list", object{})["items"]); !strings.Contains(out, "preview:eggs") {
		t.Errorf("list: %v", out)
	}
	if out := h.call("workspace_publish", object{"key": "list", "target_agent_id": "concierge", "target_key": "shopping"}); out["status"] != "published" || out["to_key"] != "shopping" {
		t.Errorf("publish: %v", out)
	}
	hall := connect(t, s, "--agent", "concierge")
	if out := hall.call("workspace_read", object{"key": "shopping"}); out["value"] != "eggs" || out["created_by"] != "unknown" && out["created_by"] != soul {
		t.Errorf("what was published: %v", out)
	}
	hall.fails("workspace_publish", object{"key": "shopping", "target_agent_id": "concierge"}, "denied")
	h.fails("workspace_publish", object{"key": "list", "target_agent_id": "gaia"}, "not_found", "invalid")
	h.call("workspace_delete", object{"key": "list"})
	if e := h.fails("workspace_read", object{"key": "list"}, "not_found"); !strings.Contains(fmt.Sprint(e["error"]), "list") {
		t.Errorf("the error does not name the key: %v", e)
	}
	h.fails("update_workspace", object{"field_name": "mood", "value": "calm"}, "unavailable", "not_found")
	schema := `{"type":"object","properties":{"mood":{"type":"string","enum":["calm","busy"],"default":"busy"},"n":{"type":"integer"},"fixed":{"type":"string","readOnly":true}}}`
	gaia := connect(t, s, "--agent", "gaia")
	gaia.call("write", object{"path": "/agents/web_designer/fields.json", "content": schema})
	if out := h.call("update_workspace", object{"field_name": "mood", "value": "calm"}); out["value"] != "calm" || out["previous"] != "busy" {
		t.Errorf("set: %v", out)
	}
	if out := h.call("update_workspace", object{"field_name": "mood", "value": nil}); out["previous"] != "calm" {
		t.Errorf("clear: %v", out)
	}
	const exact = "12345678901234567891" // more than a float64 has
	if out := textOf(h.raw("update_workspace", object{"field_name": "n", "value": json.RawMessage(exact)})); !strings.Contains(out, "New value: "+exact+"\n") {
		t.Errorf("a long number: %s", out)
	}
	h.fails("update_workspace", object{"field_name": "none", "value": 1}, "not_found")
	h.fails("update_workspace", object{"field_name": "fixed", "value": "x"}, "denied")
	h.fails("update_workspace", object{"field_name": "n", "value": "x"}, "invalid")
	h.call("session_new", object{"provider": "p", "model": "m"})
	h.call("session_append", object{"role": "user", "text": "## User\nhi"})
	got := h.call("session_read", object{})
	if m := got["messages"].([]any); len(m) != 1 || m[0].(object)["text"] != "## User\nhi" || got["model"] != "m" {
		t.Errorf("session: %q", got)
	}
	h.fails("session_append", object{"role": "tool", "text": "x"}, "invalid")
	if got := h.call("session_clear", object{}); got["message_count"] != 0.0 || got["model"] != "m" {
		t.Errorf("clear: %v", got)
	}
	res, err := h.s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "warren://context"})
	if err != nil || !strings.Contains(res.Contents[0].Text, soul) || !strings.Contains(res.Contents[0].Text, "[EDITABLE]") {
		t.Errorf("context: %+v, %v", res, err)
	}
}
