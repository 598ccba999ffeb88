package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control/mcp"
)

const pluginDir = "../../scripts/plugin"

// TestPlugin: the plugin has the texts of this program, its manifests are JSON of
// one version, its server is started by a command line that there is, and the
// skill names tools that there are.
func TestPlugin(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(pluginDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if read("skills/workspace/SKILL.md") != skillText || read("AGENTS.md") != agentsText {
		t.Error("scripts/plugin has other texts than `warren context --skill` and --agents-md print")
	}
	if !regexp.MustCompile(`^---\nname: workspace\ndescription: \S[^\n]{50,900}\n---\n\n# `).MatchString(skillText) {
		t.Errorf("SKILL.md begins with %.200q", skillText)
	}
	var plugin, bundle struct{ Name, Version string }
	var market struct {
		Name    string
		Plugins []struct{ Name, Source string }
	}
	var servers struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	for name, into := range map[string]any{".claude-plugin/plugin.json": &plugin, ".claude-plugin/marketplace.json": &market,
		".mcp.json": &servers, "manifest.json": &bundle} {
		if err := json.Unmarshal([]byte(read(name)), into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if plugin.Version == "" || plugin != bundle || len(market.Plugins) != 1 || market.Plugins[0].Name != plugin.Name {
		t.Errorf("%+v, %+v, %+v", plugin, bundle, market)
	}
	server := servers.MCPServers["workspace"]
	found, rest, err := newRootCommand(&app{}).Find(server.Args)
	if server.Command != "warren" || err != nil || found.Name() != "mcp" || found.ParseFlags(rest) != nil {
		t.Errorf("%+v: %v, %v", server, found, err)
	}
	var defs bytes.Buffer
	if err := mcp.Print(&defs, mcp.Options{}, "json"); err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:workspace|journal|inbox|decision|delegate|whats)[a-z_]*)`").FindAllStringSubmatch(skillText, -1) {
		if !strings.Contains(defs.String(), `"name": "`+m[1]+`"`) {
			t.Errorf("SKILL.md names the tool %s, which is not there", m[1])
		}
	}
}
