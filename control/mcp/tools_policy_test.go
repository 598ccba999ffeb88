package mcp_test

import (
	"strings"
	"testing"
)

// TestExplainTool agrees with what happens, and tells hidden and absent alike.
func TestExplainTool(t *testing.T) {
	s := running(t)
	h := connect(t, s, "--agent", soul, "--project", "explained")
	h.call("write", object{"path": "a.txt", "content": "x"})
	for _, c := range []struct {
		action, path, note string
		allow              bool
	}{
		{"read", "a.txt", "permits", true},
		{"create", "b.txt", "permits", true},
		{"create", ".env", "denies", false},
		{"write", "/agents/web_designer/soul.md", "denies", false},
		{"read", "none.txt", "not exist", false},
		{"read", "/agents/stranger/soul.md", "not exist", false},
		{"read", "/agents/nobody/soul.md", "not exist", false},
	} {
		out := h.call("explain", object{"action": c.action, "path": c.path})
		if note, _ := out["note"].(string); out["allow"] != c.allow || !strings.Contains(note, c.note) {
			t.Errorf("%s %s: %v", c.action, c.path, out)
		}
		if rules, _ := out["rules"].([]any); len(rules) > 0 {
			t.Errorf("%s %s: a soul is told rules: %v", c.action, c.path, rules)
		}
	}
	h.fails("explain", object{"action": "fly", "path": "a.txt"}, "invalid")
}
