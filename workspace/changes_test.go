package workspace_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// newFedHouse is a house whose store keeps a feed.
func newFedHouse(t *testing.T) *house {
	t.Helper()
	return fedHouse(t, workspace.Options{})
}

// fedHouse is newFedHouse with options of its registry.
func fedHouse(t *testing.T, o workspace.Options) *house {
	t.Helper()
	s := mem.New(mem.Options{})
	f, err := feed.Open(t.Context(), s, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	w, err := openWith(t, s, tree.Options{Feed: f}, o)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{world: w, t: t}
	_, err = w.reg.AddUser(t.Context(), "ada", "", "")
	h.ok(err)
	for _, a := range []workspace.AgentSpec{{Key: "gaia", Role: policy.Orchestrator}, {Key: "web", User: "ada", Name: "Web"}, {Key: "mate", User: "ada"}, {Key: "spy"}} {
		_, err := w.reg.AddAgent(t.Context(), a)
		h.ok(err)
	}
	_, err = w.reg.CreateProject(t.Context(), "site", map[string]string{"web": "write", "mate": "write"})
	h.ok(err)
	h.layer = workspace.NewLayer(workspace.LayerOptions{Registry: w.reg, Space: w.space})
	return h
}

// fact is what a path leads to.
type fact struct {
	node backend.NodeID
	dir  bool
	text string
}

// survey tells what is below a directory.
func (h *house) survey(v *view.View, dir string, out map[string]fact) map[string]fact {
	h.t.Helper()
	a, err := v.Resolve(dir)
	if err != nil {
		return out
	}
	list, err := v.Children(a.Node)
	h.ok(err)
	for _, c := range list {
		p := dir + "/" + c.Name
		x := fact{node: c.Node, dir: c.Type == backend.TypeDir}
		if x.dir {
			h.survey(v, p, out)
		} else if c.Type == backend.TypeRegular {
			b, _, err := v.ReadFile(p, -1)
			h.ok(err)
			x.text = string(b)
		}
		out[p] = x
	}
	return out
}

// chaos does things at random below the projects a and b of web's workspace.
type chaos struct {
	h     *house
	r     *rand.Rand
	v     *view.View
	wrote map[backend.NodeID]bool // nodes written to
	n     int
}

func (c *chaos) any() string {
	p := "/agents/web/workspace/" + []string{"a", "a", "b"}[c.r.IntN(3)]
	for range 1 + c.r.IntN(3) {
		p += "/" + string(rune('p'+c.r.IntN(4)))
	}
	return p
}

func (c *chaos) parent(p string) (backend.NodeID, string, bool) {
	d, name, err := c.v.ResolveParent(p)
	return d.Node, name, err == nil
}

// step does one thing that may fail.
func (c *chaos) step() {
	c.n++
	p, q := c.any(), c.any()
	d, name, ok := c.parent(p)
	if !ok {
		return
	}
	switch c.r.IntN(12) {
	case 0, 1:
		_, _ = c.v.Mkdir(nil, d, name, 0o755)
	case 2, 3: // as a mount makes and writes it
		a, _, err := c.v.Create(nil, d, name, 0o644, false, view.OpenFlags{Write: true})
		if err == nil {
			_, err = c.v.Write(nil, a.Node, []byte(fmt.Sprint("w", c.n)), 0)
			c.h.ok(err)
			c.wrote[a.Node] = true
		}
	case 4: // as the API does
		if a, err := c.v.Find(p, false); err != nil || !a.Attr.IsDir() {
			if f, err := c.v.PutHere(p, strings.NewReader(fmt.Sprint("put", c.n)), 0); err == nil {
				c.wrote[f.Attr.Node] = true
			}
		}
	case 5:
		_ = c.v.Unlink(nil, d, name)
	case 6:
		_ = c.v.Remove(p, true)
	case 7:
		_, _ = c.v.Symlink(nil, d, name, "p")
	case 8:
		if a, err := c.v.Find(p, false); err == nil && a.Attr.Type == backend.TypeRegular {
			mode := uint32(0o600 + c.r.IntN(8))
			_, err := c.v.Setattr(nil, a.Attr.Node, backend.SetAttr{Mode: &mode})
			c.h.ok(err)
		}
	default:
		if to, newName, ok := c.parent(q); ok {
			flags := view.RenameFlags(0)
			if c.r.IntN(5) == 0 {
				flags = view.Exchange
			}
			_ = c.v.Rename(nil, d, name, to, newName, flags)
		}
	}
}

// TestChangesAreExact: after whatever was done, the lists are just what makes the
// tree that was into the one that is, for each project and for all of it.
func TestChangesAreExact(t *testing.T) {
	h := newFedHouse(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rounds := 150
	if testing.Short() {
		rounds = 25
	}
	c := &chaos{h: h, r: rand.New(rand.NewPCG(seed, 8)), v: h.as("web")}
	gaia := h.as("gaia")
	const top = "/agents/web/workspace"
	for _, dir := range []string{"/a", "/b"} {
		h.ok(c.v.MkdirAll(top+dir, 0o755))
	}
	for round := range rounds {
		for range c.r.IntN(30) {
			c.wrote = map[backend.NodeID]bool{}
			c.step()
		}
		at, err := h.layer.FeedNow(t.Context(), gaia)
		h.ok(err)
		before := h.survey(gaia, top, map[string]fact{})
		c.wrote = map[backend.NodeID]bool{}
		for range 1 + c.r.IntN(40) {
			c.step()
		}
		after := h.survey(gaia, top, map[string]fact{})
		for _, under := range []string{top, top + "/a", top + "/b"} {
			got, _, _, err := h.layer.Changes(t.Context(), gaia, workspace.Span{After: at, Under: under, Agent: "web"})
			h.ok(err)
			h.exact(fmt.Sprintf("round %d, %s", round, under), got, under, before, after, c.wrote)
		}
		if got, _, _, err := h.layer.Changes(t.Context(), gaia, workspace.Span{After: at, Under: top, Agent: "mate"}); err != nil || !got.Empty() {
			t.Errorf("of another: %+v, %v", got, err)
		}
		if t.Failed() {
			return
		}
	}
}

// exact compares what is told with what became of the tree.
func (h *house) exact(what string, got workspace.Changes, under string, before, after map[string]fact, wrote map[backend.NodeID]bool) {
	h.t.Helper()
	in := func(m map[string]fact, dirs bool) map[string]fact {
		out := map[string]fact{}
		for p, x := range m {
			if strings.HasPrefix(p, under+"/") && x.dir == dirs {
				out[p] = x
			}
		}
		return out
	}
	same := func(list string, told []string, want map[string]bool) {
		h.t.Helper()
		slices.Sort(told)
		if w := slices.Sorted(maps.Keys(want)); !slices.Equal(told, w) {
			h.t.Errorf("%s: %s:\n%q, want\n%q", what, list, told, w)
		}
	}
	paths := func(lists ...[]workspace.Change) (out []string) {
		for _, l := range lists {
			for _, c := range l {
				out = append(out, c.Path)
			}
		}
		return out
	}
	froms := func(l []workspace.Change) (out []workspace.Change) {
		for _, c := range l {
			out = append(out, workspace.Change{Path: c.From})
		}
		return out
	}
	was, is := in(before, false), in(after, false)
	came, went, changed := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for p, x := range is {
		old, stood := was[p]
		if !stood {
			came[p] = true
		} else if old.node != x.node || wrote[x.node] {
			changed[p] = true
		}
	}
	for p := range was {
		if _, stands := is[p]; !stands {
			went[p] = true
		}
	}
	same("added and renamed", paths(got.Added, got.Renamed), came)
	same("removed and renamed from", paths(got.Removed, froms(got.Renamed)), went)
	same("changed", paths(got.Changed), changed)
	for _, c := range got.Renamed {
		if was[c.From].node != is[c.Path].node && !wrote[is[c.Path].node] { // the API writes a new file in place of the old one
			h.t.Errorf("%s: %s is not %s renamed", what, c.Path, c.From)
		}
	}
	made, gone := map[string]bool{}, map[string]bool{}
	wasDir, isDir := in(before, true), in(after, true)
	for p := range isDir {
		if _, stood := wasDir[p]; !stood {
			made[p] = true
		}
	}
	for p := range wasDir {
		if _, stands := isDir[p]; !stands {
			gone[p] = true
		}
	}
	same("made dirs", paths(got.MadeDirs), made)
	same("removed dirs", paths(got.RemovedDirs), gone)
}
