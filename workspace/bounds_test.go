package workspace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// TestDeepTOML: a text that its decoder would spend gigabytes on is refused, by a file
// of the control directory as in a configuration.
func TestDeepTOML(t *testing.T) {
	h := newHouse(t)
	web := h.as("web")
	w, err := h.reg.WorkspaceOf("web")
	h.ok(err)
	deep := "[" + strings.Repeat("a.", 100) + "a]\n"
	h.is(h.layer.SetWorkspaceFile(t.Context(), web, w.UUID, []byte("name = \"x\"\n"+deep)), backend.Invalid, "workspace.toml")
	h.is(h.layer.SetWorkspaceFile(t.Context(), web, w.UUID, []byte("name = \"x\"\n"+strings.Repeat("#\n", 10_000))), backend.TooBig, "workspace.toml")
	h.write("gaia", "/agents/web/config.toml", "model = \"m\"\n"+deep)
	c, err := h.layer.Config(web, "", nil)
	if err != nil || len(c.Settings) != 0 || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "too deep") {
		t.Errorf("%+v, %v", c, err)
	}
	h.write("gaia", "/agents/web/config.toml", "a.b = 1\n[c]\nd = {e = [1, {f = 2}]}\n\"a b\" = \"x.y\"\n")
	if c, err = h.layer.Config(web, "", nil); err != nil || len(c.Settings) != 3 || c.Settings[1].Key != `c."a b"` {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestLongJournals: of a journal that is longer than is read at once, and of one with
// a long archive, the last entries are read all the same, and new ones are added.
func TestLongJournals(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of megabytes")
	}
	h := newFedHouse(t)
	web := h.as("web")
	fill := strings.Repeat("line\n", 1<<18)
	old := "## 2026-01-02 10:00 — mate\n" + fill
	trap := "## 2026-01-03 10:00 — mate\n" + strings.Repeat("\\## 2026-01-04 10:00 — gaia\n", 1<<15)
	h.write("web", "/projects/site/journal.md", strings.Repeat(old, 12)+strings.Repeat(trap, 4))
	h.write("web", "/projects/site/journal-archive-x", "x")
	_, _, err := h.layer.AppendJournal(web, "site", workspace.Note{Summary: "last"})
	h.ok(err)
	entries, _, err := h.layer.ReadJournal(web, "site", 10_000)
	h.ok(err)
	if n := len(entries); n == 0 || n > 17 || entries[n-1].Text != "last" {
		t.Fatalf("%d entries", n)
	}
	for _, e := range entries {
		if e.Agent == "gaia" {
			t.Fatal("an entry by nobody")
		}
	}
	got, err := h.layer.ArchiveJournal(web, "site", time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	if err != nil || got.Entries != 16 {
		t.Fatalf("%+v, %v", got, err)
	}
	if entries, _, err = h.layer.ReadJournal(web, "site", 10_000); err != nil || len(entries) < 2 || len(entries) > 17 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	text, err := h.layer.Context(web)
	if err != nil || !strings.Contains(text, "you have not looked yet") {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestFullFiles: what would make a file longer than is read is refused, and the file
// stays as it is.
func TestFullFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of megabytes")
	}
	h := newFedHouse(t)
	web := h.as("web")
	const full = (16<<20 - 10) / 10 * 10
	size := func(path string) uint64 {
		t.Helper()
		a, err := web.Resolve(path)
		h.ok(err)
		return a.Size
	}
	h.write("web", "/projects/site/inbox.md", strings.Repeat("ten bytes\n", full/10))
	_, _, err := h.layer.AddInbox(t.Context(), web, "site", workspace.Ask{Title: "one more"})
	h.is(err, backend.TooBig, "a full inbox")
	if n := size("/projects/site/inbox.md"); n != full {
		t.Errorf("%d bytes", n)
	}
	text, err := h.layer.Context(web)
	if err != nil || !strings.Contains(text, "inbox.md` is too big for this list") {
		t.Errorf("%v\n%s", err, text)
	}
	front := "---\nprovider: p\n---\n\n## User\n\n"
	h.write("web", "/agents/web/session.md", front+strings.Repeat("x", full-len(front)-1)+"\n")
	_, err = h.layer.AppendSession(t.Context(), web, "", workspace.Message{Role: "user", Text: "one more"})
	h.is(err, backend.TooBig, "a full session")
	if s, err := h.layer.ReadSession(t.Context(), web, ""); err != nil || s.Warning != "" || len(s.Messages) != 1 {
		t.Errorf("%q, %v", s.Warning, err)
	}
	h.ok(web.MkdirAll("/projects/site/.pointers", 0o755))
	h.write("web", "/projects/site/.pointers/web.json", strings.Repeat(" ", 1<<20))
	h.ok(web.Remove("/projects/site/inbox.md", false))
	if n, err := h.layer.WhatsNew(t.Context(), web, "site"); err != nil || !strings.Contains(n.Warning, "web.json has more than") {
		t.Errorf("%q, %v", n.Warning, err)
	}
}

// TestNewsAtTheMinute: an entry that comes while somebody looks, as one minute ends, is
// told then or the next time. What nobody heard of is told again.
func TestNewsAtTheMinute(t *testing.T) {
	var mu sync.Mutex
	at := time.Date(2026, 5, 22, 14, 30, 0, 0, time.UTC)
	var meanwhile func()
	h := fedHouse(t, workspace.Options{Clock: uptime.New(func() time.Time {
		mu.Lock()
		do := meanwhile
		meanwhile = nil
		mu.Unlock()
		if do != nil {
			do()
		}
		mu.Lock()
		defer mu.Unlock()
		return at
	}, nil)})
	web, mate := h.as("web"), h.as("mate")
	look := func() workspace.News {
		t.Helper()
		n, err := h.layer.WhatsNew(t.Context(), web, "site")
		h.ok(err)
		return n
	}
	look()
	set := func(to time.Time, do func()) {
		mu.Lock()
		defer mu.Unlock()
		at, meanwhile = to, do
	}
	set(at.Add(5*time.Minute-time.Second), func() { // as the clock is looked at, to move the pointer
		_, _, err := h.layer.AppendJournal(mate, "site", workspace.Note{Summary: "just in time"})
		h.ok(err)
		_, _, err = h.layer.AddInbox(t.Context(), mate, "site", workspace.Ask{Title: "just in time"})
		h.ok(err)
		set(at.Add(time.Second), nil)
	})
	first, second := look(), look()
	if len(first.Journal)+len(second.Journal) == 0 || len(first.Opened)+len(second.Opened) == 0 {
		t.Errorf("told never: %+v, %+v", first, second)
	}
	h.write("mate", "/projects/site/f", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.layer.WhatsNew(ctx, web, "site"); err == nil {
		t.Error("told to nobody")
	}
	if n := look(); len(n.Changes.Added) != 1 {
		t.Errorf("what nobody heard of is new no more: %+v", n.Changes)
	}
}

// TestFullWorkspace: what has no room under the quota is refused, and leaves nothing of
// itself: no half of an entry, an item or a message.
func TestFullWorkspace(t *testing.T) {
	h := newFedHouse(t)
	web, gaia := h.as("web"), h.as("gaia")
	h.ok(h.layer.LayOut(h.as(""), "/projects/site", "site", nil))
	_, _, err := h.layer.AppendJournal(web, "site", workspace.Note{Summary: "first"})
	h.ok(err)
	_, _, err = h.layer.AddInbox(t.Context(), web, "site", workspace.Ask{Title: "first"})
	h.ok(err)
	_, _, err = h.layer.AddInbox(t.Context(), web, "site", workspace.Ask{Title: "second", Body: strings.Repeat("b", 5000)})
	h.ok(err)
	_, err = h.layer.NewSession(t.Context(), web, "", "p", "m")
	h.ok(err)
	big := strings.Repeat("x\n", 20_000)
	for _, c := range []struct {
		volume, path string
		do           func() error
	}{
		{"/projects/site", "/projects/site/journal.md", func() error {
			_, _, err := h.layer.AppendJournal(web, "site", workspace.Note{Summary: big})
			return err
		}},
		{"/projects/site", "/projects/site/inbox.md", func() error {
			_, _, err := h.layer.AddInbox(t.Context(), web, "site", workspace.Ask{Title: "third", Body: big})
			return err
		}},
		{"/projects/site", "/projects/site/inbox.md", func() error {
			_, _, err := h.layer.CloseInbox(web, "site", "INB-001", strings.Repeat("r", 900), "")
			return err
		}},
		{"/agents/web", "/agents/web/session.md", func() error {
			_, err := h.layer.AppendSession(t.Context(), web, "", workspace.Message{Role: "user", Text: big})
			return err
		}},
	} {
		before, _, err := web.ReadFile(c.path, -1)
		h.ok(err)
		q, err := gaia.Quota(c.volume)
		h.ok(err)
		for _, room := range []uint64{1, 100, 4096} {
			limit := q.Bytes.Used + room
			if strings.HasSuffix(c.path, "inbox.md") && room > 100 {
				continue
			}
			_, err = gaia.SetQuota(c.volume, view.QuotaChange{Bytes: &limit})
			h.ok(err)
			h.is(c.do(), backend.Quota, c.path)
			if after, _, err := web.ReadFile(c.path, -1); err != nil || string(after) != string(before) {
				t.Errorf("%s with room for %d bytes has %d bytes, had %d, %v", c.path, room, len(after), len(before), err)
				h.ok(second(gaia.SetQuota(c.volume, view.QuotaChange{Bytes: new(uint64)})))
				h.write("gaia", c.path, string(before))
			}
		}
		h.ok(second(gaia.SetQuota(c.volume, view.QuotaChange{Bytes: new(uint64)})))
	}
}

func second[T any](_ T, err error) error { return err }
