package mcp_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestProjectTools: Gaia delegates, a soul works by tools and tells of it, Gaia
// asks what is new, reads what was made and closes what is done. A stranger knows
// of none of it.
func TestProjectTools(t *testing.T) {
	s := running(t)
	gaia, h, stranger := connect(t, s, "--agent", "gaia"), connect(t, s, "--agent", soul), connect(t, s, "--agent", "stranger")
	d := gaia.call("delegate_begin", object{"agent": soul})
	at := fmt.Sprint(d["workspace"])
	if d["fresh"] != true || !strings.HasPrefix(at, "/agents/"+soul+"/workspace/p-") {
		t.Fatalf("begin: %v", d)
	}
	if got := h.call("workspace_init", object{"name": "tale", "local_path": at}); got["path"] != at || got["active"] != true {
		t.Errorf("init: %v", got)
	}
	h.call("write", object{"path": at + "/drafts/one.md", "content": "one"})
	h.call("write", object{"path": at + "/gone.md", "content": "x"})
	h.call("remove", object{"path": at + "/gone.md"})
	h.call("journal_append", object{"summary": "Wrote one.", "todos": []object{{"for": "gaia", "text": "read it"}, {"text": "a title"}}})
	if got := h.call("inbox_add", object{"title": "is it long enough?", "body": "It has a word.", "for": "gaia"}); got["id"] != "INB-001" {
		t.Errorf("inbox_add: %v", got)
	}
	decided := fmt.Sprint(h.call("decision_add", object{"title": "One word", "decision": "It is enough.", "decided_by": soul + ", gaia"})["path"])
	if !strings.HasSuffix(decided, "-one-word.md") {
		t.Errorf("decision_add: %v", decided)
	}
	diff := gaia.call("delegate_diff", object{"delegation": d["delegation"]})["changes"].(object)
	paths := map[string]bool{}
	for _, x := range diff["added"].([]any) {
		paths[fmt.Sprint(x.(object)["path"])] = true
	}
	for _, p := range []string{at + "/drafts/one.md", at + "/journal.md", at + "/inbox.md", at + "/README.md", decided} {
		if !paths[p] {
			t.Errorf("the diff does not have %s: %v", p, diff)
		}
		if got := gaia.call("read", object{"path": p}); got["content"] == "" {
			t.Errorf("%s: %v", p, got)
		}
	}
	if paths[at+"/gone.md"] || len(diff["removed"].([]any))+len(diff["changed"].([]any))+len(diff["renamed"].([]any)) > 0 {
		t.Errorf("the diff has more: %v", diff)
	}
	gaia.call("workspace_switch", object{"name": at})
	news := gaia.call("whats_new", object{})
	if mine := news["mine"].([]any); len(mine) != 1 || mine[0].(object)["added_by"] != soul || len(news["journal"].([]any)) != 1 {
		t.Errorf("news: %v", news)
	}
	if got := gaia.call("inbox_close", object{"id": "INB-001", "resolution": "yes", "journal_ref": "2026-01-01 10:00"}); got["resolution"] != "yes, see journal 2026-01-01 10:00" {
		t.Errorf("inbox_close: %v", got)
	}
	gaia.fails("inbox_close", object{"id": "INB-001", "resolution": "yes"}, "conflict")
	if got := h.call("journal_read", object{"n": 1})["entries"].([]any); len(got) != 1 || len(got[0].(object)["todos"].([]any)) != 2 {
		t.Errorf("journal_read: %v", got)
	}
	if got := fmt.Sprint(h.call("workspaces", object{})); !strings.Contains(got, at) || strings.Contains(got, "stranger") {
		t.Errorf("workspaces: %v", got)
	}
	for _, there := range []string{at, "/projects/nothing", "/agents/nobody/workspace/x"} {
		for tool, args := range map[string]object{"journal_read": {}, "journal_append": {"summary": "x"}, "inbox_add": {"title": "x"},
			"inbox_close": {"id": "INB-001", "resolution": "x"}, "decision_add": {"title": "x", "decision": "y"}, "whats_new": {}, "workspace_info": {}} {
			args["project"] = there
			if e := stranger.fails(tool, args, "not_found"); fmt.Sprint(e["error"]) != fmt.Sprintf("no project %q", there) {
				t.Errorf("%s of %s: %v", tool, there, e)
			}
		}
	}
	stranger.fails("delegate_begin", object{"agent": soul}, "not_found")
	stranger.fails("delegate_diff", object{"delegation": d["delegation"]}, "invalid")
	h.fails("workspace_switch", object{"name": "nothing"}, "not_found")
}
