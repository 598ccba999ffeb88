package workspace_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

const goodSettings = `# what the team agreed on
deny_add = ["*.pem"]
deny_remove = [".netrc"]
retention = { screenshots = "30d" }

[agents.researcher]
access = "ro"
mode = "mapped /agents/web/workspace:ro"
deny = ["*.key"]
[agents.researcher.paths."/agents/web/workspace"]
deny = ["draft*"]

[paths."/agents/web/workspace/"]
allow = [".env"]
deny = ["*.secret"]

[projects.site.members]
web = "write"
researcher = "read"
`

// TestSettingsFile takes effect whole, comes back after a restart, and what is
// not in it stays.
func TestSettingsFile(t *testing.T) {
	w := grantWorld(t)
	w.addSoul(t, "kid")
	if _, err := w.reg.CreateProject(t.Context(), "site", map[string]string{"kid": "write"}); err != nil {
		t.Fatal(err)
	}
	if err := w.reg.CheckSettings("s.toml", goodSettings); err != nil {
		t.Fatal(err)
	}
	if a, _ := w.reg.Agent("researcher"); a.Access != "rw" {
		t.Error("checking a file changed something")
	}
	epoch := w.space.Engine().Epoch()
	if err := w.reg.SetSettings(t.Context(), "s.toml", goodSettings); err != nil {
		t.Fatal(err)
	}
	if now := w.space.Engine().Epoch(); now != epoch+1 {
		t.Errorf("it took effect in %d steps", now-epoch)
	}
	again := mustOpen(t, w.store.CrashClone(w.store.DurableLSN()))
	t.Cleanup(again.reg.Close)
	for _, x := range []*world{w, again} {
		a, _ := x.reg.Agent("researcher")
		p, _ := x.reg.Project("site")
		if a.Access != "ro" || a.Mode != "mapped /agents/web/workspace:ro" || len(p.Members) != 3 || p.Members["researcher"] != "read" {
			t.Errorf("agent %+v, project %+v", a, p)
		}
		e := x.space.Engine()
		web, _ := e.Principal("web", policy.ReadWrite)
		res, _ := e.Principal("researcher", policy.ReadWrite)
		got := []bool{web.NameDeniedAt("/a/x.pem"), web.NameDeniedAt("/a/.netrc"), web.NameDeniedAt("/agents/web/workspace/.env"),
			web.NameDeniedAt("/a/.env"), web.NameDeniedAt("/agents/web/workspace/a.secret"), res.NameBarredAt("/x.key"), res.NameBarredAt("/draft1"),
			res.NameBarredAt("/agents/web/workspace/draft1"), web.HasOwnNames(), e.Decide(res, policy.Read, policy.Resource{Zone: policy.ZoneProject, Owner: "site"}).Allow}
		if want := []bool{true, false, false, true, true, true, false, true, false, true}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if x.reg.Retention()["screenshots"].Hours() != 30*24 {
			t.Error("retention")
		}
	}
	// What is shown is a file that changes nothing.
	text, epoch := w.reg.SettingsText(), w.space.Engine().Epoch()
	if err := w.reg.SetSettings(t.Context(), "again.toml", text); err != nil || w.reg.SettingsText() != text || w.space.Engine().Epoch() != epoch {
		t.Errorf("the shown settings: %v, %d epochs, in:\n%s", err, w.space.Engine().Epoch()-epoch, text)
	}
	if err := w.reg.SetSettings(t.Context(), "none", "[projects.site]\nmembers = { web = \"none\" }"); err != nil {
		t.Error(err)
	}
	if p, _ := w.reg.Project("site"); len(p.Members) != 2 || p.Members["web"] != "" {
		t.Errorf("a member that is none: %v", p.Members)
	}
	// An agent's own list goes with it.
	if err := w.reg.RemoveAgent(t.Context(), "researcher"); err != nil || strings.Contains(w.reg.SettingsText(), "draft") {
		t.Errorf("removed: %v, %s", err, w.reg.SettingsText())
	}
}

// TestSettingsFileRefused: all that is wrong is told, with its place, and nothing
// of the file takes effect.
func TestSettingsFileRefused(t *testing.T) {
	w := grantWorld(t)
	before, epoch := w.reg.SettingsText(), w.space.Engine().Epoch()
	for want, text := range map[string]string{
		"f:1:1: unknown key \"denny\"":                                "denny = []",
		"f:2:3: unknown key \"acess\"":                                "[agents.web]\n  acess = \"ro\"",
		"f:3:11: access mode \"rx\"":                                  "deny_add = [\"*.pem\"]\n[agents.web]\naccess = \"rx\"",
		"f:1:18: access: it must be text":                             "agents = {web = {access = 3}}",
		"f:2:":                                                        "[agents.web]\naccess = ",
		"f:3:":                                                        "[agents.web]\naccess = \"ro\"\naccess = \"rw\"",
		"f:1:1: no agent \"nobody\"":                                  "[agents.nobody]\naccess = \"ro\"",
		"f:1:9: deny: it must be a list":                              "deny = \".env\"",
		"f:1:13: \"a/b\" is not a pattern":                            "deny_add = [\"a/b\"]",
		"f:1:13: \"**\" would deny every name":                        "deny_add = [\"**\"]",
		"f:1:16: \"zzz\" is not on that deny-list":                    "deny_remove = [\"zzz\"]",
		"is not a tree path":                                          "[paths.\"rel\"]\ndeny = [\"x\"]",
		"f:2:10: \"x.txt\" is not on the deny-list":                   "[paths.\"/agents/web\"]\nallow = [\"x.txt\"]",
		"no project \"nope\"":                                         "[projects.nope.members]\nweb = \"read\"",
		"f:1:13: projects.site: it must be a table":                   "projects = {site = 1}",
		"\"x\" is not one of caches, scratch, screenshots":            "[retention]\nx = \"7d\"",
		"mode inherit needs a parent":                                 "[agents.web]\nmode = \"inherit\"",
		"f:1:1: unknown key \"one\"; known here: deny, deny_add, den": "one = 1\ntwo = 2",
		"f:2:1: unknown key \"two\"":                                  "one = 1\ntwo = 2",
		"f:1:1: unknown key \"agnts\"":                                "[agnts.web]\naccess = \"ro\"",
	} {
		err := w.reg.SetSettings(t.Context(), "f", text)
		if !errors.Is(err, backend.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
	if w.reg.SettingsText() != before || w.space.Engine().Epoch() != epoch {
		t.Error("a refused file changed something")
	}
}
