package workspace_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/workspace"
)

// crashes runs do and opens what the store would have been if the process had
// been killed at each commit, and a few of what a power cut would have left.
func crashes(t *testing.T, prepare, do func(*world), check func(*world)) {
	t.Helper()
	w := newWorld(t)
	prepare(w)
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	var clones []*mem.Store
	w.store.SetHook(func(p mem.Point, _ uint64) error {
		if p == mem.BeforeCommit || p == mem.AfterCommit {
			mu.Lock()
			clones = append(clones, w.store.Reopen(), w.store.CrashRand(rnd))
			mu.Unlock()
		}
		return nil
	})
	do(w)
	w.store.SetHook(nil)
	if len(clones) < 8 {
		t.Fatalf("only %d crashes", len(clones))
	}
	for _, s := range clones {
		again := mustOpen(t, s)
		again.check(t)
		check(again)
		// What reconciling wrote must do when it is done again.
		mustOpen(t, again.store.Reopen()).check(t)
		if t.Failed() {
			return
		}
	}
}

func TestCrashInTheMiddleOfCreate(t *testing.T) {
	crashes(t, func(*world) {}, func(w *world) {
		ctx := t.Context()
		if _, err := w.reg.AddUser(ctx, "ada", "", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.reg.AddAgent(ctx, workspace.AgentSpec{Key: "a", User: "ada"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.reg.CreateProject(ctx, "site", map[string]string{"a": "write"}); err != nil {
			t.Fatal(err)
		}
	}, func(w *world) {
		// The half-made can be made again, or is there.
		if _, err := w.reg.Agent("a"); err != nil {
			w.addSoul(t, "a")
			w.check(t)
		}
	})
}

func TestCrashInTheMiddleOfRemove(t *testing.T) {
	crashes(t, func(w *world) {
		if _, err := w.reg.AddUser(t.Context(), "ada", "", ""); err != nil {
			t.Fatal(err)
		}
		w.addSoul(t, "a")
		w.addSoul(t, "b")
		if _, err := w.reg.CreateProject(t.Context(), "site", map[string]string{"a": "write", "b": "read"}); err != nil {
			t.Fatal(err)
		}
	}, func(w *world) {
		if err := w.reg.RemoveAgent(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if err := w.reg.RemoveUser(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
	}, func(w *world) {
		p, err := w.reg.Project("site")
		if err != nil {
			t.Fatal(err)
		}
		_, gone := w.reg.Agent("a")
		if member := p.Members["a"] != ""; member == (gone != nil) {
			t.Errorf("agent gone: %v, member: %t", gone, member)
		}
	})
}
