package mcp_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// TestDay is a day of an orchestrator and two souls: she makes a shared project of a
// repository, delegates, one soul works by tools over HTTP and the other by shell,
// they write to journal and inbox, one publishes; the daemon is killed and started
// again; she asks what is new, reads, closes, commits and pushes.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("its steps are tested by themselves; the suite has the day")
	}
	s := stack.ForTest(t, stack.Options{})
	s.Warren(t, "agent", "add", "helper", "--user", "ada")
	s.Warren(t, "agent", "add", "concierge", "--role", "shared")
	url, theirs := remote(t)
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("[git]\nprotocols = [\"http\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Warren(t, "fs", "put", "--agent", "gaia", config, "/agents/gaia/config.toml")
	gaia := connect(t, s, "--agent", "gaia")

	const project = "/projects/day"
	if got := gaia.call("workspace_init", object{"name": "day", "local_path": project, "remote_url": url}); got["path"] != project || got["active"] != true {
		t.Fatalf("init: %v", got)
	}
	for _, member := range []string{soul, "helper"} {
		s.Warren(t, "project", "member", "day", member, "--right", "write")
	}
	first := gaia.call("delegate_begin", object{"agent": soul, "project": project})
	second := gaia.call("delegate_begin", object{"agent": "helper", "project": project})

	web := soulsAtWork(t, s, project)
	if err := s.Kill(s.Gaia, s.Soul); err != nil {
		t.Fatal(err)
	}
	changes := fmt.Sprint(gaia.call("delegate_diff", object{"delegation": first["delegation"]})["changes"])
	if !strings.Contains(changes, "drafts/intro.md") || strings.Contains(changes, "end.md") {
		t.Errorf("%s's changes: %s", soul, changes)
	}
	changes = fmt.Sprint(gaia.call("delegate_diff", object{"delegation": second["delegation"]})["changes"])
	if !strings.Contains(changes, "drafts/end.md") || !strings.Contains(changes, "start.txt") || strings.Contains(changes, "intro.md") {
		t.Errorf("helper's changes: %s", changes)
	}
	news := gaia.call("whats_new", object{"project": project})
	if len(news["journal"].([]any)) != 2 || len(news["mine"].([]any)) != 1 {
		t.Errorf("news: %v", news)
	}
	id := news["mine"].([]any)[0].(object)["id"]
	gaia.call("inbox_close", object{"project": project, "id": id, "resolution": "No."})
	if got := gaia.call("git_diff", object{"project": project, "paths": []string{"page.txt"}})["diff"].(string); !strings.Contains(got, "deleted file") {
		t.Errorf("diff: %q", got)
	}
	gaia.call("git_add", object{"project": project, "paths": []string{"."}})
	sha := gaia.call("git_commit", object{"project": project, "message": "the day's work"})["sha"]
	gaia.call("git_push", object{"project": project})
	git(t, theirs, "pull", "-q", "origin", "main")
	news = gaia.call("whats_new", object{"project": project})
	if c, ok := news["commits"].([]any); !ok || c[0].(object)["sha"] != sha {
		t.Errorf("the commit is no news: %v", news)
	}
	unwritten := func() string { return s.Warren(t, "log", "--no-journal", "--agent", "gaia", "--project", project) }
	if got := unwritten(); !strings.Contains(got, "the day's work") {
		t.Errorf("commits without an entry: %q", got)
	}
	s.Warren(t, "journal", "append", "--agent", "gaia", "--project", project, "Committed the day's work.")
	if got := unwritten(); strings.Contains(got, "the day's work") {
		t.Errorf("commits without an entry, after there is one: %q", got)
	}
	if got := strings.TrimSpace(git(t, theirs, "rev-parse", "HEAD")); got != sha {
		t.Errorf("the remote is at %s, want %v", got, sha)
	}
	for _, f := range []string{"drafts/intro.md", "drafts/end.md", "start.txt", "journal.md", "inbox.md"} {
		if _, err := os.Stat(filepath.Join(theirs, f)); err != nil {
			t.Error(err)
		}
	}
	if e := web.says("read", object{"path": project + "/start.txt"}); !strings.Contains(e, "more") {
		t.Errorf("the soul's session after the restart: %s", e)
	}
	s.Fsck(t)
}

// soulsAtWork lets one soul work by tools over HTTP and another by shell.
func soulsAtWork(t *testing.T, s *stack.Stack, project string) (web *host) {
	t.Helper()
	secret, _ := token(t, s, soul)
	web = online(t, listening(t, s), secret, nil)
	says := func(h *host, tool string, args object) {
		t.Helper()
		r := h.raw(tool, args)
		if r.IsError {
			t.Fatalf("%s %v: %s", tool, args, textOf(r))
		}
	}
	says(web, "workspace_switch", object{"name": project})
	says(web, "write", object{"path": project + "/drafts/intro.md", "content": "By tool.\n"})
	says(web, "journal_append", object{"summary": "Wrote the introduction.", "todos": []object{{"for": "gaia", "text": "read it"}}})
	says(web, "inbox_add", object{"title": "Is it too short?", "for": "gaia"})
	says(web, "workspace_write", object{"key": "summary", "value": "The introduction is there."})
	says(web, "workspace_publish", object{"key": "summary", "target_agent_id": "concierge"})
	s.Warren(t, "run", "--agent", "helper", "--project", project, "--", "sh", "-ec",
		"echo 'By shell.' > drafts/end.md; mv page.txt start.txt; printf 'more\\n' >> start.txt")
	s.Warren(t, "journal", "append", "--agent", "helper", "--project", project, "Wrote the end.")
	return web
}
