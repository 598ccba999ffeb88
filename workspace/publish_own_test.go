package workspace_test

import (
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// publishAny lets publications replace any file of a shared agent's.
func (h *house) publishAny(key string) {
	h.t.Helper()
	mode := workspace.PublishAny
	_, err := h.reg.SetAgent(h.t.Context(), key, workspace.AgentChange{Publish: &mode})
	h.ok(err)
}

const hallTop = "/agents/hall/workspace/"

// TestPublishReplacesItsOwnOnly: whatever else has the name is a conflict, with one
// text, and stays as it is.
func TestPublishReplacesItsOwnOnly(t *testing.T) {
	h := newHouse(t)
	hall, web := h.as("hall"), h.as("web")
	dir, err := hall.Resolve(hallTop)
	h.ok(err)
	publish := func(key string) error {
		if err := h.layer.MayPublish(web, "hall", key); err != nil {
			return err
		}
		_, err := h.layer.PublishData(web, "hall", key, []byte("of web"))
		return err
	}
	h.write("hall", hallTop+"tool.sh", "of hall")
	_, err = hall.Mkdir(nil, dir.Node, "dir", 0o755)
	h.ok(err)
	_, err = hall.Symlink(nil, dir.Node, "link", "tool.sh")
	h.ok(err)
	_, err = hall.Symlink(nil, dir.Node, "dangling", "nothing")
	h.ok(err)
	_, err = hall.Mknod(nil, dir.Node, "fifo", backend.TypeFIFO, 0o644, 0)
	h.ok(err)
	_, err = h.layer.PublishData(h.as("gaia"), "hall", "of-gaia", []byte("of gaia"))
	h.ok(err)
	for key, spoil := range map[string]func(key string) error{
		"edited": func(key string) error {
			_, err := hall.WriteFile(hallTop+key, []byte("edited by hall"), 0o644)
			return err
		},
		"appended": func(key string) error {
			_, _, err := hall.AppendFile(hallTop+key, []byte("+"), 0, view.Cond{})
			return err
		},
		"renamed": func(key string) error { return hall.Rename(nil, dir.Node, "was-"+key, dir.Node, key, 0) },
		"linked": func(key string) error {
			f, err := hall.Find(hallTop+"was-"+key, false)
			if err == nil {
				_, err = hall.Link(nil, f.Attr.Node, dir.Node, key)
			}
			return err
		},
		"swapped": func(key string) error {
			h.write("hall", hallTop+"other", "of hall")
			return hall.Rename(nil, dir.Node, "other", dir.Node, key, 0)
		},
	} {
		name := key
		if key == "renamed" || key == "linked" {
			name = "was-" + key
		}
		h.ok(publish(name))
		h.ok(spoil(key))
	}
	texts := map[string]bool{}
	for _, key := range []string{"tool.sh", "dir", "link", "dangling", "fifo", "of-gaia", "edited", "appended", "renamed", "linked", "swapped"} {
		err := publish(key)
		h.is(err, backend.Conflict, key)
		_, err2 := h.layer.PublishData(web, "hall", key, []byte("of web"))
		h.is(err2, backend.Conflict, key)
		if err != nil && err2 != nil {
			texts[strings.ReplaceAll(err.Error(), key, "X")], texts[strings.ReplaceAll(err2.Error(), key, "X")] = true, true
		}
	}
	if len(texts) != 1 {
		t.Errorf("what is in the way is told apart: %v", texts)
	}
	if b, _, err := hall.ReadFile(hallTop+"tool.sh", -1); err != nil || string(b) != "of hall" {
		t.Errorf("%q, %v", b, err)
	}
	for _, key := range []string{".bashrc", ".git", "-rf", "a\nb", "a\x1b[2J"} {
		h.is(publish(key), backend.Invalid, key)
	}
}

// TestPublishHistoryFollowsNoLink: versions do not go where a link of the shared agent
// leads, and the mark of a publication is nobody's to set.
func TestPublishHistoryFollowsNoLink(t *testing.T) {
	h := newHouse(t)
	hall, gaia := h.as("hall"), h.as("gaia")
	dir, err := hall.Resolve(hallTop)
	h.ok(err)
	_, err = hall.Symlink(nil, dir.Node, workspace.HistoryDir, "/warren/agents/gaia/workspace")
	h.ok(err)
	_, err = h.layer.PublishData(gaia, "hall", "news", []byte("one"))
	h.ok(err)
	_, err = h.layer.PublishData(gaia, "hall", "news", []byte("two"))
	h.is(err, backend.Conflict, "a link for a history")
	if b, _, err := hall.ReadFile(hallTop+"news", -1); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	f, err := hall.Find(hallTop+"news", false)
	h.ok(err)
	h.is(hall.SetXattr(nil, f.Attr.Node, "user.warren.published", []byte("x"), false, false), backend.NotPermitted, "set the mark")
	h.is(hall.RemoveXattr(nil, f.Attr.Node, "user.warren.published"), backend.NotPermitted, "remove the mark")
}

// TestPublishKeepsHistory: what a publication replaces stays, and nothing that is
// published is a program.
func TestPublishKeepsHistory(t *testing.T) {
	h := newHouse(t)
	hall, web := h.as("hall"), h.as("web")
	publish := func(value string) {
		t.Helper()
		_, err := h.layer.PublishData(web, "hall", "news", []byte(value))
		h.ok(err)
	}
	publish("one")
	publish("two")
	f, err := hall.Find(hallTop+"news", false)
	h.ok(err)
	mode := uint32(0o6755)
	_, err = hall.Setattr(nil, f.Attr.Node, backend.SetAttr{Mode: &mode})
	h.ok(err)
	_, err = h.layer.PublishData(web, "hall", "news", []byte("three"))
	h.is(err, backend.Conflict, "what the shared agent made a program of")
	h.publishAny("hall")
	publish("three")
	if f, err = hall.Find(hallTop+"news", false); err != nil || f.Attr.Mode&0o7777 != 0o644 {
		t.Errorf("mode %o, %v", f.Attr.Mode, err)
	}
	history := func() (names []string) {
		dir, err := hall.Resolve(hallTop + workspace.HistoryDir + "/news")
		h.ok(err)
		list, err := hall.List(nil, dir.Node)
		h.ok(err)
		for _, e := range list {
			names = append(names, e.Name)
		}
		return names
	}
	names := history()
	if len(names) != 2 || !strings.HasSuffix(names[0], "Z.web") || !strings.HasSuffix(names[1], "Z.hall") {
		t.Fatalf("history: %q", names)
	}
	if b, _, err := hall.ReadFile(hallTop+workspace.HistoryDir+"/news/"+names[0], -1); err != nil || string(b) != "one" {
		t.Errorf("%q, %v", b, err)
	}
	_, err = hall.WriteFile(hallTop+"news", []byte("hall's own words"), 0o644)
	h.ok(err)
	for range 30 {
		publish("noise")
	}
	names, others := history(), 0
	for _, n := range names {
		if strings.HasSuffix(n, ".hall") {
			others++
		}
	}
	if len(names) != 22 || others != 2 {
		t.Errorf("%d versions, %d of them hall's: %q", len(names), others, names)
	}
}
