package mcp_test

//lint:file-ignore SA1019 The protocol drops roots in its next revision; hosts of today have them.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warrenfs/warren/scripts/waits"
)

// TestRoots: where a host says that it works, paths start and stay, over both
// transports; what it says may change.
func TestRoots(t *testing.T) {
	s := running(t)
	mnt := s.Mount(t, "--agent", soul)
	ws := filepath.Join(mnt, "agents", soul, "workspace")
	for _, d := range []string{"rootA", "rootB"} {
		if err := os.MkdirAll(filepath.Join(ws, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(ws, d, "f"), []byte("in "+d), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mine, _ := token(t, s, soul)
	for name, connect := range map[string]func(c *sdk.Client) *host{
		"HTTP":  func(c *sdk.Client) *host { return online(t, listening(t, s), mine, c) },
		"stdio": func(c *sdk.Client) *host { return overStdio(t, s, c) },
	} {
		c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		c.AddRoots(&sdk.Root{URI: "file://" + ws + "/rootA"}, &sdk.Root{URI: "file:///etc"})
		h := connect(c)
		if got := h.says("read", object{"path": "f"}); !strings.Contains(got, "in rootA") {
			t.Errorf("%s: read f: %s", name, got)
		}
		for _, p := range []string{"../rootB/f", "/agents/" + soul + "/workspace/rootB/f", "/agents/" + soul + "/workspace/rootAB"} {
			if got := h.says("read", object{"path": p}); !strings.Contains(got, `"denied"`) {
				t.Errorf("%s: read %s outside of the root: %s", name, p, got)
			}
		}
		if got := h.says("search", object{"query": "in", "paths": []string{"/agents"}}); !strings.Contains(got, `"denied"`) {
			t.Errorf("%s: search outside of the root: %s", name, got)
		}
		c.RemoveRoots("file://" + ws + "/rootA")
		c.AddRoots(&sdk.Root{URI: "file://" + ws + "/rootB"})
		got := ""
		for end := waits.In(time.Minute); !end.Passed() && !strings.Contains(got, "in rootB"); time.Sleep(20 * time.Millisecond) {
			got = h.says("read", object{"path": "f"})
		}
		if !strings.Contains(got, "in rootB") {
			t.Errorf("%s: after the roots changed: %s", name, got)
		}
	}
}
