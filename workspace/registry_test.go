package workspace_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

func TestNewStoreHasTheDefaultWorkspace(t *testing.T) {
	w := newWorld(t)
	if _, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "gaia", Role: policy.Orchestrator}); err != nil {
		t.Fatal(err)
	}
	if got := w.names(t, "gaia", "/workspaces"); !slices.Equal(got, []string{"default"}) {
		t.Errorf("/workspaces: %v", got)
	}
	w.check(t)
}

func TestAgentHasAHomeAndSurvivesReopening(t *testing.T) {
	w := newWorld(t)
	if _, err := w.reg.AddUser(t.Context(), "ada", "Ada", "ada@example.org"); err != nil {
		t.Fatal(err)
	}
	a, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "web_designer", User: "ada", Name: "Web"})
	if err != nil {
		t.Fatal(err)
	}
	if a.Role != policy.Soul || a.Access != "rw" || a.Email != "web_designer@warren.local" || a.RunUID < 1<<30 {
		t.Errorf("defaults: %+v", a)
	}
	w.check(t)
	again := mustOpen(t, w.store.CrashClone(0)) // what returned is on disk
	got, err := again.reg.Agent("web_designer")
	if err != nil || got != a {
		t.Errorf("after reopening: %+v, %v; want %+v", got, err, a)
	}
	again.check(t)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.reg.AddUser(ctx, "ada", "", ""); err != nil {
		t.Fatal(err)
	}
	w.addSoul(t, "a")
	add := func(s workspace.AgentSpec) error { _, err := w.reg.AddAgent(ctx, s); return err }
	set := func(key string, c workspace.AgentChange) error { _, err := w.reg.SetAgent(ctx, key, c); return err }
	str := func(s string) *string { return &s }
	for _, c := range []struct {
		what string
		err  error
		want backend.Kind
	}{
		{"taken key", add(workspace.AgentSpec{Key: "a"}), backend.Exist},
		{"empty key", add(workspace.AgentSpec{}), backend.Invalid},
		{"upper case", add(workspace.AgentSpec{Key: "A"}), backend.Invalid},
		{"slash", add(workspace.AgentSpec{Key: "a/b"}), backend.Invalid},
		{"dots", add(workspace.AgentSpec{Key: ".."}), backend.Invalid},
		{"64 letters", add(workspace.AgentSpec{Key: strings.Repeat("a", 64)}), backend.Invalid},
		{"role", add(workspace.AgentSpec{Key: "b", Role: "king"}), backend.Invalid},
		{"access", add(workspace.AgentSpec{Key: "b", Access: "x"}), backend.Invalid},
		{"user", add(workspace.AgentSpec{Key: "b", User: "bob"}), backend.NotFound},
		{"parent", add(workspace.AgentSpec{Key: "b", Parent: "nobody"}), backend.NotFound},
		{"itself", add(workspace.AgentSpec{Key: "b", Parent: "b"}), backend.Invalid},
		{"shared of a user", add(workspace.AgentSpec{Key: "b", Role: policy.Shared, User: "ada"}), backend.Invalid},
		{"soul limited", add(workspace.AgentSpec{Key: "b", OnlyUser: "ada"}), backend.Invalid},
		{"orchestrator under a soul", add(workspace.AgentSpec{Key: "b", Role: policy.Orchestrator, Parent: "a"}), backend.Invalid},
		{"e-mail", add(workspace.AgentSpec{Key: "b", Email: "x"}), backend.Invalid},
		{"name with a newline", add(workspace.AgentSpec{Key: "b", Name: "x\ny"}), backend.Invalid},
		{"set of none", set("nobody", workspace.AgentChange{}), backend.NotFound},
		{"set access", set("a", workspace.AgentChange{Access: str("w")}), backend.Invalid},
		{"rm of none", w.reg.RemoveAgent(ctx, "nobody"), backend.NotFound},
		{"rm of a bad key", w.reg.RemoveAgent(ctx, "../a"), backend.Invalid},
		{"rm of no user", w.reg.RemoveUser(ctx, "bob"), backend.NotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.err, c.want)
		}
	}
	if got := len(w.reg.Agents()); got != 1 {
		t.Errorf("%d agents after refusals", got)
	}
	w.check(t)
}

func TestParentsFormNoCircle(t *testing.T) {
	w := newWorld(t)
	w.addSoul(t, "a")
	for _, pair := range [][2]string{{"b", "a"}, {"c", "b"}} {
		if _, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: pair[0], Parent: pair[1]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, child := range []string{"a", "b", "c"} {
		if _, err := w.reg.SetAgent(t.Context(), "a", workspace.AgentChange{Parent: &child}); !errors.Is(err, backend.Invalid) {
			t.Errorf("parent of a is %s: %v", child, err)
		}
	}
	if err := w.reg.RemoveAgent(t.Context(), "b"); !errors.Is(err, backend.Busy) {
		t.Errorf("removing a parent: %v", err)
	}
}

// TestFactsHoldAtOnce: what SetAgent and SetMember return is in force.
func TestFactsHoldAtOnce(t *testing.T) {
	w := newWorld(t)
	w.addSoul(t, "a")
	if _, err := w.reg.CreateProject(t.Context(), "site", nil); err != nil {
		t.Fatal(err)
	}
	write := func(path string) error {
		v, err := w.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
		if err != nil {
			return err
		}
		_, err = v.WriteFile(path, []byte("x"), 0o644)
		return err
	}
	access := func(s string) {
		t.Helper()
		if _, err := w.reg.SetAgent(t.Context(), "a", workspace.AgentChange{Access: &s}); err != nil {
			t.Fatal(err)
		}
	}
	member := func(right string) {
		t.Helper()
		if _, err := w.reg.SetMember(t.Context(), "site", "a", right); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		do   func()
		path string
		want error
	}{
		{func() {}, "/agents/a/workspace/f", nil},
		{func() { access("ro") }, "/agents/a/workspace/f", backend.Denied},
		{func() { access("rw") }, "/agents/a/workspace/f", nil},
		{func() {}, "/projects/site/f", backend.NotFound},
		{func() { member("write") }, "/projects/site/f", nil},
		{func() { member("read") }, "/projects/site/f", backend.Denied},
		{func() { member("") }, "/projects/site/f", backend.NotFound},
		{func() {}, "/agents/a/workspace/.env", backend.Denied},
		{func() {
			if err := w.reg.AllowName(t.Context(), workspace.NameException{Name: ".env", Under: "/agents/a/"}); err != nil {
				t.Fatal(err)
			}
		}, "/agents/a/workspace/.env", nil},
	} {
		c.do()
		if err := write(c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
	}
}

func TestRemovalTakesEverythingAndFreesTheKey(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.addSoul(t, "a")
	v, err := w.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteFile("/agents/a/workspace/f", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reg.CreateProject(ctx, "site", map[string]string{"a": "write"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reg.AddMount(ctx, workspace.Mount{Agent: "a", Dir: "/m", Root: "/", Access: "rw"}); err != nil {
		t.Fatal(err)
	}
	if err := w.reg.RemoveAgent(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Resolve("/agents/a/workspace/f"); !errors.Is(err, backend.NotFound) {
		t.Errorf("an open view of a removed agent: %v", err)
	}
	if p, _ := w.reg.Project("site"); len(p.Members) != 0 {
		t.Errorf("members: %v", p.Members)
	}
	if m := w.reg.Mounts(); len(m) != 0 {
		t.Errorf("mounts: %v", m)
	}
	w.check(t)
	second := w.addSoul(t, "a")
	if first.RunUID == second.RunUID {
		t.Error("a new agent has the old one's uid")
	}
	if got := w.names(t, "a", "/agents/a/workspace"); len(got) != 0 {
		t.Errorf("a new agent's workspace has %v", got)
	}
	again := mustOpen(t, w.store.Reopen())
	again.check(t)
	for _, w := range []*world{w, again} { // what is older is not the new one's
		if since := w.space.Engine().Facts().Agents["a"].Since; !since.Equal(second.Created) || !since.After(first.Created) {
			t.Errorf("a new agent's own is from %v on; it was added at %v", since, second.Created)
		}
	}
}

func TestConcurrentCreates(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	for i := range 40 {
		wg.Go(func() {
			key := fmt.Sprintf("a%d", i%10) // four want each key
			_, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: key})
			switch {
			case err == nil:
				mu.Lock()
				made[key]++
				mu.Unlock()
			case !errors.Is(err, backend.Exist):
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	wg.Wait()
	for key, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times", key, n)
		}
	}
	if len(w.reg.Agents()) != 10 || len(made) != 10 {
		t.Errorf("%d agents, %d made", len(w.reg.Agents()), len(made))
	}
	uids := map[uint32]bool{}
	for _, a := range w.reg.Agents() {
		uids[a.RunUID] = true
	}
	if len(uids) != 10 {
		t.Errorf("%d uids for 10 agents", len(uids))
	}
	w.check(t)
	mustOpen(t, w.store.Reopen()).check(t)
}

func TestMountRecords(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.addSoul(t, "a")
	m, err := w.reg.AddMount(ctx, workspace.Mount{Agent: "a", Dir: "/m", Root: "/", Access: "rw", UID: 7})
	if err != nil || m.ID == "" {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, bad := range []workspace.Mount{
		{Agent: "a", Dir: "/m", Access: "rw"}, {Agent: "a", Dir: "m", Access: "rw"}, {Agent: "a", Dir: "/x/", Access: "rw"},
		{Agent: "b", Dir: "/x", Access: "rw"}, {Agent: "a", Dir: "/x", Access: "none"},
	} {
		if got, err := w.reg.AddMount(ctx, bad); err == nil {
			t.Errorf("recorded: %+v", got)
		}
	}
	again := mustOpen(t, w.store.CrashClone(0))
	if got := again.reg.Mounts(); len(got) != 1 || got[0] != m {
		t.Errorf("after reopening: %+v", got)
	}
	if err := again.reg.RemoveMount(ctx, m.ID); err != nil || len(again.reg.Mounts()) != 0 {
		t.Errorf("after removing: %v, %v", again.reg.Mounts(), err)
	}
}

// TestFormatRule14: a field that is not known, bytes after the record or a
// name that is not the key's stop the opening; nothing is lost by the next write.
func TestFormatRule14(t *testing.T) {
	for name, value := range map[string]string{
		"unknown field": `{"key":"a","role":"soul","access":"rw","email":"","run_uid":1,"created":"2026-01-01T00:00:00Z","new":1}`,
		"trailing":      `{"key":"a","role":"soul","access":"rw","email":"","run_uid":1,"created":"2026-01-01T00:00:00Z"} x`,
		"other name":    `{"key":"b","role":"soul","access":"rw","email":"","run_uid":1,"created":"2026-01-01T00:00:00Z"}`,
		"cut short":     `{"key":"a","role":`,
		"empty":         ``,
	} {
		w := newWorld(t)
		lsn, err := w.store.Update(t.Context(), func(tx backend.Tx) error {
			return tx.Set([]byte("gagent/a"), []byte(value))
		})
		if err != nil || lsn == 0 {
			t.Fatal(err)
		}
		if _, err := open(t, w.store.Reopen()); !errors.Is(err, backend.IO) || !strings.Contains(err.Error(), "gagent/a") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedCreateLeavesNothing(t *testing.T) {
	boom := errors.New("boom")
	for skip := 0; ; skip++ {
		w := newWorld(t)
		before := w.store.Count(mem.BeforeCommit)
		w.store.SetHook(mem.FailAt(mem.BeforeCommit, skip, 1, boom))
		_, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: "a"})
		w.store.SetHook(nil)
		if err == nil {
			if skip < 3 {
				t.Fatalf("only %d commits", w.store.Count(mem.BeforeCommit)-before)
			}
			return
		}
		if _, got := w.reg.Agent("a"); !errors.Is(got, backend.NotFound) {
			t.Errorf("failure at commit %d: the agent is there", skip)
		}
		w.check(t)
		w.addSoul(t, "a")
		w.check(t)
	}
}
