package view_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy/view"
)

// newFed is a world with a feed.
func newFed(t *testing.T) (*world, *feed.Feed) {
	t.Helper()
	store := mem.New(mem.Options{})
	f, err := feed.Open(t.Context(), store, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return worldOn(t, tree.Options{Store: store, Content: mem.Content{}, Feed: f}), f
}

// log reads all that a view may know of after a number, as "agent op path [to]".
func (w *world) log(v *view.View, after uint64) (lines []string) {
	w.t.Helper()
	for {
		list, next, err := v.Feed(w.t.Context(), after, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list {
			agent := e.Agent
			if agent == "" {
				agent = "-"
			}
			line := agent + " " + e.Op + " " + e.Path
			if e.To != "" {
				line += " " + e.To
			}
			if e.Denied {
				line = fmt.Sprintf("%s: denied x%d", line, e.Count)
			}
			lines = append(lines, line)
		}
		if next == after {
			return lines
		}
		after = next
	}
}

// TestEveryChangeIsInTheFeed: by who, what and where.
func TestEveryChangeIsInTheFeed(t *testing.T) {
	w, f := newFed(t)
	start := f.Last()
	v := w.open("web")
	const ws = "/agents/web/workspace"
	dir := w.node(ws)
	a, err := v.Mkdir(nil, dir, "d", 0o755)
	w.ok(err, "mkdir")
	file, _, err := v.Create(nil, dir, "f", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	_, err = v.Write(nil, file.Node, []byte("y"), 0)
	w.ok(err, "write what is part of the creation")
	f.Last() // what comes now is told
	for i := range 100 {
		_, err = v.Write(nil, file.Node, []byte("x"), uint64(i))
		w.ok(err, "write")
	}
	mode := uint32(0o600)
	_, err = v.Setattr(nil, file.Node, backend.SetAttr{Mode: &mode})
	w.ok(err, "chmod")
	w.ok(v.SetXattr(nil, file.Node, "user.a", []byte("b"), false, false), "setxattr")
	_, err = v.Link(nil, file.Node, a.Node, "g")
	w.ok(err, "link")
	w.ok(v.Rename(nil, dir, "f", a.Node, "h\n\xff", 0), "rename")
	_, err = v.Symlink(nil, dir, "s", "f")
	w.ok(err, "symlink")
	w.ok(v.Unlink(nil, a.Node, "g"), "unlink")
	w.ok(v.Unlink(nil, a.Node, "h\n\xff"), "unlink")
	w.ok(v.Rmdir(nil, dir, "d"), "rmdir")
	_, err = v.WriteFile(ws+"/api", []byte("1"), 0o644)
	w.ok(err, "write by the API")
	_, err = v.WriteFile(ws+"/api", []byte("2"), 0o644)
	w.ok(err, "replace by the API")
	w.kind(v.Rmdir(nil, dir, "nothere"), backend.NotFound, "what fails")
	want := []string{
		"mkdir d", "create f", "write f", "attr f", "xattr f", "link f " + ws + "/d/g", "rename f " + ws + "/d/h\n\xff", "symlink s",
		"unlink d/g", "unlink d/h\n\xff", "rmdir d", "create api", "write api",
	}
	got := w.log(w.gaia, start)
	for i, line := range want {
		op, rest, _ := strings.Cut(line, " ")
		want[i] = "web " + op + " " + ws + "/" + rest
	}
	if !slices.Equal(got, want) {
		t.Errorf("the feed has\n%q\nwant\n%q", got, want)
	}
	if own := w.log(v, start); !slices.Equal(own, want) {
		t.Errorf("web itself is told\n%q", own)
	}
	if mate := w.log(w.open("mate"), start); len(mate) > 0 {
		t.Errorf("another soul is told %q", mate)
	}
	// Another second is another event; so is one after a reader was given the last.
	start = f.Last()
	_, err = v.WriteFile(ws+"/session", []byte("1"), 0o644)
	w.ok(err, "write")
	n := w.node(ws + "/session")
	for range 3 {
		for range 10 {
			_, err = v.Write(nil, n, []byte("y"), 0)
			w.ok(err, "write")
		}
		w.log(v, start)
	}
	if got := w.log(v, start); len(got) != 4 {
		t.Errorf("ten writes, three times, with a reader between: %q", got)
	}
}

// TestFeedIsNarrowed: what a view does not see is not told, nor who it does not
// know of.
func TestFeedIsNarrowed(t *testing.T) {
	w, f := newFed(t)
	w.mkdir(granted)
	w.grant("g1", granted, "write")
	start := f.Last()
	web, guest, site := w.open("web"), w.open("guest"), w.node(granted)
	ws := w.node("/agents/web/workspace/p")
	_, err := web.WriteFile(granted+"/in", []byte("1"), 0o644)
	w.ok(err, "web writes inside")
	_, err = web.WriteFile("/agents/web/workspace/p/out", []byte("1"), 0o644)
	w.ok(err, "web writes beside it")
	_, err = guest.WriteFile(granted+"/guests", []byte("1"), 0o644)
	w.ok(err, "guest writes")
	w.ok(web.Rename(nil, site, "in", ws, "gone", 0), "out of it")
	w.ok(web.Rename(nil, ws, "out", site, "came", 0), "into it")
	_, err = w.gaia.WriteFile("/users/bob/f", []byte("1"), 0o644)
	w.ok(err, "gaia writes")
	want := []string{"web create " + granted + "/in", "guest create " + granted + "/guests", "web leave " + granted + "/in",
		"web enter " + granted + "/came", "unknown create /users/bob/f"}
	want[4] = "gaia create /users/bob/f" // who sees a place is known to all who do
	if got := w.log(guest, start); !slices.Equal(got, want) {
		t.Errorf("guest is told\n%q\nwant\n%q", got, want)
	}
	if got := w.log(web, start); slices.Contains(got, want[4]) || len(got) != 5 {
		t.Errorf("web is told %q", got)
	}
	w.revoke("g1")
	if got := w.log(guest, start); !slices.Equal(got, want[4:]) {
		t.Errorf("after the revocation guest is told %q", got)
	}
}

// TestExchangeIsNarrowed: of two names that are exchanged, the one that a view does
// not see is not told.
func TestExchangeIsNarrowed(t *testing.T) {
	w, f := newFed(t)
	w.mkdir(granted)
	w.grant("g1", granted, "read")
	w.write(granted+"/in", "1")
	w.write("/agents/web/workspace/p/hidden", "2")
	web, guest, site, ws := w.open("web"), w.open("guest"), w.node(granted), w.node("/agents/web/workspace/p")
	start := f.Last()
	w.ok(web.Rename(nil, site, "in", ws, "hidden", view.Exchange), "exchange from inside")
	w.ok(web.Rename(nil, ws, "hidden", site, "in", view.Exchange), "exchange from outside")
	want := []string{"web enter " + granted + "/in", "web enter " + granted + "/in"}
	if got := w.log(guest, start); !slices.Equal(got, want) {
		t.Errorf("guest is told\n%q\nwant\n%q", got, want)
	}
	if got := w.log(web, start); len(got) != 2 || !strings.HasPrefix(got[0], "web exchange ") {
		t.Errorf("web is told %q", got)
	}
}

// TestDenialsInTheFeed: one's own, but not that something is hidden.
func TestDenialsInTheFeed(t *testing.T) {
	w, f := newFed(t)
	start := f.Last()
	guest, home := w.open("guest"), w.node("/agents/guest")
	w.write("/agents/web/workspace/secret", "x")
	for range 20 {
		_, err := guest.Mkdir(nil, home, "new", 0o755)
		w.kind(err, backend.Denied, "mkdir in a home")
		_, err = guest.Lookup(nil, w.node("/agents"), "web")
		w.kind(err, backend.NotFound, "what is hidden")
	}
	if err := f.Close(); err != nil { // writes what is noted
		t.Fatal(err)
	}
	want := "guest mkdir /agents/guest/new: denied x20"
	if got := w.log(guest, start); !slices.Equal(got, []string{want}) {
		t.Errorf("guest is told %q", got)
	}
	if got := w.log(w.open("mate"), start); len(got) > 0 {
		t.Errorf("mate is told %q", got)
	}
	got := w.log(w.gaia, start)
	if !slices.Contains(got, want) || !slices.Contains(got, "guest lookup /agents/web: denied x20") {
		t.Errorf("gaia is told %q", got)
	}
}

// TestFeedOfAReusedKey: the new agent is told nothing of the old one's time.
func TestFeedOfAReusedKey(t *testing.T) {
	w, f := newFed(t)
	start := f.Last()
	v := w.open("we")
	_, err := v.WriteFile("/agents/we/workspace/old", []byte("1"), 0o644)
	w.ok(err, "the old one writes")
	if got := w.log(v, start); len(got) != 1 {
		t.Fatalf("it is told %q", got)
	}
	a := w.facts.Agents["we"]
	a.Since = time.Now()
	w.facts.Agents["we"] = a
	w.publish()
	if got := w.log(v, start); len(got) > 0 {
		t.Errorf("the new one is told %q", got)
	}
	// The same of a user's space.
	start = f.Last()
	mate := w.open("mate")
	_, err = mate.WriteFile("/users/ada/old", []byte("1"), 0o644)
	w.ok(err, "the old user's agent writes")
	w.facts.UsersSince = map[string]time.Time{"ada": time.Now()}
	w.publish()
	_, err = mate.WriteFile("/users/ada/new", []byte("1"), 0o644)
	w.ok(err, "the new user's agent writes")
	if got := w.log(mate, start); !slices.Equal(got, []string{"mate create /users/ada/new"}) {
		t.Errorf("an agent of the new user is told %q", got)
	}
}

// TestFeedVerifyIsForThoseWhoKnowAll: the verdict counts what every agent does.
func TestFeedVerifyIsForThoseWhoKnowAll(t *testing.T) {
	w, _ := newFed(t)
	if v, err := w.open("gaia").FeedVerify(t.Context()); err != nil || v.Broken != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	for _, agent := range []string{"web", "lim", "conc"} {
		if v, err := w.open(agent).FeedVerify(t.Context()); !errors.Is(err, backend.Denied) || v.Events != 0 {
			t.Errorf("%s: %+v, %v", agent, v, err)
		}
	}
}
