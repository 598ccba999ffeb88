package workspace_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// worldAt is a world with a clock of its own.
func worldAt(t *testing.T, now func() time.Time) *world {
	t.Helper()
	w, err := openWith(t, mem.New(mem.Options{}), tree.Options{}, workspace.Options{Clock: uptime.New(now, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.reg.Close)
	return w
}

// TestGrantsInTime: while grants come, end, expire and are given by this one and
// that, policy permits what a list of them says that is kept without Cedar, at
// each time that anything is published.
func TestGrantsInTime(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	var ahead atomic.Int64
	now := func() time.Time { return time.Unix(1_700_000_000, 0).Add(time.Duration(ahead.Load())) }
	w := worldAt(t, now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []workspace.AgentSpec{{Key: "owner"}, {Key: "boss"}, {Key: "kid", Parent: "boss"}, {Key: "other"}} {
		_, err := w.reg.AddAgent(t.Context(), a)
		must(err)
	}
	v, err := w.space.Open(view.Options{Agent: "owner", UID: 1, GID: 1})
	must(err)
	t.Cleanup(v.Close)
	var paths []string
	for _, dir := range []string{"/a", "/ab", "/a/b", "/a/b/c"} {
		must(v.MkdirAll("/agents/owner/workspace"+dir, 0o755))
		paths = append(paths, "/agents/owner/workspace"+dir)
	}
	var given []workspace.Grant
	allows := func(agent string, a policy.Action, path string) bool {
		for _, g := range given {
			by := g.By == "" || g.By == "boss" && g.Agent == "kid"
			if g.Agent == agent && by && now().Before(g.Expires) && (path == g.Path || strings.HasPrefix(path, g.Path+"/")) && (a != policy.Write || g.Right == "write") {
				return true
			}
		}
		return false
	}
	steps, allowed := 200, 0
	if testing.Short() {
		steps = 30
	}
	for step := range steps {
		ahead.Add(int64(rnd.IntN(20)) * int64(time.Second))
		if i := len(given); i > 0 && rnd.IntN(4) == 0 {
			i = rnd.IntN(i)
			if now().Before(given[i].Expires) {
				must(w.reg.RevokeGrant(t.Context(), given[i].ID))
			}
			given = append(given[:i], given[i+1:]...)
		}
		g := workspace.Grant{Agent: []string{"kid", "other", "boss"}[rnd.IntN(3)], Path: paths[rnd.IntN(len(paths))],
			Right: []string{"read", "write"}[rnd.IntN(2)], By: []string{"", "", "boss"}[rnd.IntN(3)]}
		g, err := w.reg.AddGrant(t.Context(), g, time.Duration(1+rnd.IntN(60))*time.Second) // publishes
		must(err)
		given = append(given, g)
		for range 20 {
			agent, a, path := []string{"kid", "other", "boss"}[rnd.IntN(3)], []policy.Action{policy.Read, policy.Write}[rnd.IntN(2)], paths[rnd.IntN(len(paths))]
			x, err := w.space.Explain(agent, a, path)
			must(err)
			if want := allows(agent, a, path); x.Allow != want {
				t.Fatalf("step %d: %s %v %s: %v, want %v\nnow %v, grants %s", step, agent, a, path, x.Allow, want, now(), fmt.Sprintf("%+v", given))
			} else if want {
				allowed++
			}
		}
	}
	if allowed == 0 || allowed == 20*steps {
		t.Errorf("%d of %d allowed", allowed, 20*steps)
	}
}
