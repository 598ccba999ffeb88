package view_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// world is a store in memory with one of everything the view rules tell apart.
type world struct {
	t     testing.TB
	tree  *tree.Tree
	space *view.Space
	hub   *hub
	facts policy.Facts
	gaia  *view.View // sees all; without an Observer
}

func facts() policy.Facts {
	return policy.Facts{
		Users: map[string]bool{"ada": true, "bob": true},
		Agents: map[string]policy.Agent{
			"gaia":   {Key: "gaia", Role: policy.Orchestrator},
			"lim":    {Key: "lim", Role: policy.Orchestrator, OnlyUser: "ada"},
			"limbob": {Key: "limbob", Role: policy.Orchestrator, OnlyUser: "bob"},
			"boss":   {Key: "boss", Role: policy.Soul},
			"web":    {Key: "web", Role: policy.Soul, User: "ada", Parent: "boss"},
			"kid":    {Key: "kid", Role: policy.Soul, Parent: "web"},
			"mate":   {Key: "mate", Role: policy.Soul, User: "ada"},
			"guest":  {Key: "guest", Role: policy.Soul, User: "bob"},
			"conc":   {Key: "conc", Role: policy.Shared},
			"ro":     {Key: "ro", Role: policy.Soul, User: "ada", Access: policy.ReadOnly},
			"none":   {Key: "none", Role: policy.Soul, User: "ada", Access: policy.NoAccess},
			"we":     {Key: "we", Role: policy.Soul},
			"webb":   {Key: "webb", Role: policy.Soul},
		},
		Projects: map[string]map[string]string{
			"site": {"web": "write", "guest": "read"},
			"bobs": {"guest": "write"},
		},
	}
}

func stock() []view.Stock {
	return []view.Stock{
		{Name: "soul.md", Text: "# soul\n"}, {Name: "config.toml"}, {Name: "session.md"},
		{Name: "skills", Dir: true}, {Name: "notes", Dir: true}, {Name: "caches", Dir: true},
		{Name: "memory", Dir: true}, {Name: "mcp", Dir: true},
	}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOn(t, tree.Options{Store: mem.New(mem.Options{}), Content: mem.Content{}})
}

func worldOn(t testing.TB, o tree.Options) *world {
	t.Helper()
	ctx := context.Background()
	tr, err := tree.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, tree: tr, space: view.New(tr, e, nil), hub: &hub{}, facts: facts()}
	w.space.SetNotifier(w.hub)
	w.publish()
	for key := range w.facts.Agents {
		w.volume(view.KindHome, key, stock()...)
		w.volume(view.KindWorkspace, key)
		w.volume(view.KindScratch, key)
	}
	for id := range w.facts.Users {
		w.volume(view.KindUser, id)
	}
	for slug := range w.facts.Projects {
		w.volume(view.KindProject, slug)
	}
	w.volume(view.KindDevice, "default")
	w.gaia = w.open("gaia")
	t.Cleanup(func() {
		err := tr.Check(ctx, tree.CheckOptions{Content: true}, func(p tree.Problem) { t.Errorf("fsck: %v", p) })
		if err != nil {
			t.Error(err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) publish() {
	w.t.Helper()
	if err := w.space.Publish(context.Background(), w.facts); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) volume(kind view.VolumeKind, owner string, stock ...view.Stock) backend.VolumeID {
	w.t.Helper()
	id, err := w.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: view.Label{Kind: kind, Owner: owner}, Stock: stock})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// open opens a view of the API for agent.
func (w *world) open(agent string) *view.View { return w.openWith(view.Options{Agent: agent}) }

func (w *world) openWith(o view.Options) *view.View {
	w.t.Helper()
	if o.UID == 0 && o.GID == 0 {
		o.UID, o.GID = backend.OwnerID, backend.OwnerID
	}
	v, err := w.space.Open(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(v.Close)
	return v
}

// node finds a tree path in gaia's view: a number that others can only guess.
func (w *world) node(path string) backend.NodeID {
	w.t.Helper()
	a, err := w.gaia.Resolve(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Node
}

// write makes or replaces a file through gaia's view.
func (w *world) write(path, text string) backend.NodeID {
	w.t.Helper()
	w.mkdir(path[:strings.LastIndexByte(path, '/')])
	a, err := w.gaia.WriteFile(path, []byte(text), 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.Node
}

func (w *world) mkdir(path string) backend.NodeID {
	w.t.Helper()
	if err := w.gaia.MkdirAll(path, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return w.node(path)
}

func (w *world) kind(err error, want backend.Kind, what string) {
	w.t.Helper()
	if err == nil || !errors.Is(err, want) {
		w.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func (w *world) ok(err error, what string) {
	w.t.Helper()
	if err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// hub is a Notifier in memory: it keeps what it was told, in order, and holds
// the nodes it is told to hold.
type hub struct {
	mu   sync.Mutex
	log  []string        // "collect", "send"
	sets [][]view.Change // of each collect
	by   []view.Observer
	held map[backend.NodeID]bool
	// inside is called from Collect, with the volume's lock held; sent, once, with
	// none, when it has told of a name that came.
	inside, sent func()
}

type pending struct {
	h    *hub
	came bool // a name
}

func (p pending) Send() {
	p.h.mu.Lock()
	p.h.log = append(p.h.log, "send")
	var sent func()
	if p.came {
		sent, p.h.sent = p.h.sent, nil
	}
	p.h.mu.Unlock()
	if sent != nil {
		sent()
	}
}

func (h *hub) Collect(by view.Observer, changes []view.Change) view.Pending {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, "collect")
	h.sets = append(h.sets, append([]view.Change(nil), changes...))
	h.by = append(h.by, by)
	if h.inside != nil {
		h.inside()
	}
	return pending{h, slices.ContainsFunc(changes, func(ch view.Change) bool { return ch.Kind == view.EntryAdded })}
}

func (h *hub) InUse(n backend.NodeID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[n]
}

func (h *hub) hold(n backend.NodeID, yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[backend.NodeID]bool{}
	}
	h.held[n] = yes
}

func (h *hub) reset() {
	h.mu.Lock()
	h.log, h.sets, h.by = nil, nil, nil
	h.mu.Unlock()
}

// events takes what was noted since the last call.
func (h *hub) events() (log []string, sets [][]view.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	log, sets = h.log, h.sets
	h.log, h.sets, h.by = nil, nil, nil
	return log, sets
}
