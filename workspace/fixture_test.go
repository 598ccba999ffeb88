package workspace_test

import (
	"context"
	"slices"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// home is what stands in every agent's home, sorted.
var home = []string{"caches", "config.toml", "fields.json", "mcp", "memory", "notes", "scratch",
	"session.md", "skills", "soul.md", "workspace"}

// world is a store with its tree, door and registry.
type world struct {
	store *mem.Store
	tree  *tree.Tree
	space *view.Space
	reg   *workspace.Registry
}

// open opens everything over a store, as a daemon that starts does.
func open(t *testing.T, s *mem.Store) (*world, error) {
	t.Helper()
	return openWith(t, s, tree.Options{}, workspace.Options{})
}

// openWith is open with options; what they say of store and space is filled in.
func openWith(t *testing.T, s *mem.Store, to tree.Options, ro workspace.Options) (*world, error) {
	t.Helper()
	to.Store, to.Content = s, mem.Content{}
	tr, err := tree.Open(t.Context(), to)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = tr.Close() })
	e, err := policy.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{store: s, tree: tr, space: view.New(tr, e, nil)}
	ro.Store, ro.Space = s, w.space
	w.reg, err = workspace.Open(t.Context(), ro)
	return w, err
}

func mustOpen(t *testing.T, s *mem.Store) *world {
	t.Helper()
	w, err := open(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func newWorld(t *testing.T) *world { return mustOpen(t, mem.New(mem.Options{History: 10_000})) }

// addSoul adds a soul that must be added.
func (w *world) addSoul(t *testing.T, key string) workspace.Agent {
	t.Helper()
	a, err := w.reg.AddAgent(t.Context(), workspace.AgentSpec{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// names lists a directory as an agent sees it.
func (w *world) names(t *testing.T, agent, path string) []string {
	t.Helper()
	v, err := w.space.Open(view.Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.Resolve(path)
	if err != nil {
		t.Fatalf("%s as %s: %v", path, agent, err)
	}
	list, err := v.List(nil, a.Node)
	if err != nil {
		t.Fatalf("%s as %s: %v", path, agent, err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return out
}

// check holds what must be true of a store whenever a daemon has opened it:
// everything in the registry has its volumes, and nothing else has.
func (w *world) check(t *testing.T) {
	t.Helper()
	want := map[view.Label]bool{{Kind: view.KindDevice, Owner: workspace.DefaultWorkspace}: true}
	for _, a := range w.reg.Agents() {
		for _, k := range []view.VolumeKind{view.KindHome, view.KindWorkspace, view.KindScratch} {
			want[view.Label{Kind: k, Owner: a.Key}] = true
		}
		if got := w.names(t, a.Key, "/agents/"+a.Key); !slices.Equal(got, home) {
			t.Errorf("home of %s: %v", a.Key, got)
		}
	}
	for _, u := range w.reg.Users() {
		want[view.Label{Kind: view.KindUser, Owner: u.ID}] = true
	}
	for _, p := range w.reg.Projects() {
		want[view.Label{Kind: view.KindProject, Owner: p.Slug}] = true
	}
	for _, v := range w.tree.Volumes() {
		if v.Parent != 0 && !want[v.Label] {
			t.Errorf("a volume nobody wants: %+v", v.Label)
		}
		delete(want, v.Label)
	}
	for l := range want {
		t.Errorf("no volume for %+v", l)
	}
	err := w.tree.Check(context.Background(), tree.CheckOptions{Content: true}, func(p tree.Problem) { t.Error(p) })
	if err != nil {
		t.Error(err)
	}
}
