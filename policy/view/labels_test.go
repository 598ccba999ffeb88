package view_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// timeline is what something was at which time: values one after the other, that
// may overlap while one replaces the other. Time is a counter of the test's own.
type timeline[V any] struct {
	now *atomic.Uint64
	mu  sync.Mutex
	of  []span[V]
}

type span[V any] struct {
	from, to uint64 // it may be so from the one until the other
	v        V
}

// change notes that v replaces what there is, at some moment while do runs; where
// do tells that it failed, that it did not.
func (l *timeline[V]) change(v V, do func() error) error {
	l.mu.Lock()
	l.of = append(l.of, span[V]{l.now.Add(1), math.MaxUint64, v})
	last := len(l.of) - 1
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.of = l.of[:last]
		return err
	}
	if last > 0 {
		l.of[last-1].to = l.now.Add(1)
	}
	return nil
}

// during gives what there may have been between two moments, the last first.
func (l *timeline[V]) during(from, to uint64) (out []span[V]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.of) - 1; i >= 0 && l.of[i].to >= from; i-- {
		if l.of[i].from <= to {
			out = append(out, l.of[i])
		}
	}
	return out
}

// verdict is what an agent is told of an action.
type verdict int

const (
	hidden verdict = iota
	refused
	permitted
)

// moving is a world of files that move between places with other rules, while the
// rules change.
type moving struct {
	*world
	worlds []policy.Facts
	engine []*policy.Engine // one for each, that remembers nothing
	now    atomic.Uint64
	rules  timeline[int]                // which world
	paths  map[string]*timeline[string] // file -> its path
	nodes  map[string]backend.NodeID
	views  map[string]*view.View
	asked  atomic.Int64
	swaps  atomic.Int64
	moves  atomic.Int64
	mixed  atomic.Int64 // answers during which there was more than one state
	failed atomic.Bool
}

const (
	movingHome = "/agents/web/"
	movingWork = "/agents/web/workspace/"
)

// movingWorlds are rules of all kinds that depend on where a file stands, or end.
func movingWorlds() (out []policy.Facts) {
	add := func(access policy.AccessMode, s policy.Settings, grants ...policy.Grant) {
		f := facts()
		web := f.Agents["web"]
		web.Access = access
		f.Agents["web"] = web
		f.Settings = s
		for i, g := range grants {
			g.ID = fmt.Sprintf("g%d-%d", len(out), i)
			f.Grants = append(f.Grants, g)
		}
		out = append(out, f)
	}
	own := policy.NameRule{Name: "*.key", Agent: "web", Under: movingWork + "keys"}
	all := policy.NameRule{Name: "*.KEY", Under: movingWork + "keys"}
	grant := func(agent, path, right string) policy.Grant {
		return policy.Grant{Agent: agent, Path: path, Right: right, Expires: time.Now().Add(time.Hour)}
	}
	add(policy.ReadWrite, policy.Settings{})
	add(policy.ReadOnly, policy.Settings{}, grant("mate", movingWork+"given", "read"))
	add(policy.ReadWrite, policy.Settings{Rules: []policy.NameRule{own}}, grant("mate", movingWork+"given", "write"), grant("guest", movingWork+"given", "read"))
	add(policy.NoAccess, policy.Settings{Rules: []policy.NameRule{all}}, grant("guest", movingWork+"given", "write"))
	add(policy.ReadWrite, policy.Settings{Rules: []policy.NameRule{{Name: "*.key", Agent: "mate"}}},
		grant("mate", strings.TrimSuffix(movingWork, "/"), "read"), grant("mate", movingHome+"caches", "read"))
	add(policy.ReadOnly, policy.Settings{Rules: []policy.NameRule{all, own},
		Exceptions: []policy.NameException{{Name: "z.key", Under: movingWork + "keys/e"}}}, grant("guest", movingHome+"notes", "write"))
	return out
}

func newMoving(t *testing.T) *moving {
	m := &moving{world: newWorld(t), worlds: movingWorlds(), paths: map[string]*timeline[string]{}, nodes: map[string]backend.NodeID{},
		views: map[string]*view.View{}}
	m.rules.now = &m.now
	for i := range m.worlds {
		e, err := policy.New(nil)
		if err == nil {
			err = e.Swap(m.worlds[i])
		}
		if err != nil {
			t.Fatal(err)
		}
		m.engine = append(m.engine, e)
	}
	for _, d := range []string{"open", "given", "keys"} {
		m.mkdir(movingWork + d)
	}
	for _, file := range []string{movingHome + "notes/f", movingHome + "notes/d/g", movingWork + "open/x.key", movingWork + "given/y.txt", movingWork + "open/e/z.key"} {
		name := path.Base(file)
		m.nodes[name] = m.write(file, name)
		m.paths[name] = &timeline[string]{now: &m.now}
		if err := m.paths[name].change(file, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, agent := range []string{"gaia", "web", "boss", "mate", "guest"} {
		m.views[agent] = m.open(agent)
	}
	if err := m.swap(0); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *moving) swap(i int) error {
	return m.rules.change(i, func() error { return m.space.Publish(context.Background(), m.worlds[i]) })
}

// cedar is what Cedar says in one world of a file that stands at one path.
func (m *moving) cedar(world int, agent string, a policy.Action, file string) verdict {
	e := m.engine[world]
	p, known := e.Principal(agent, policy.ReadWrite)
	if !known {
		return hidden
	}
	r, rel, _ := policy.PlaceOf(file)
	r.Grants = p.Grants(r).At(rel)
	if r.Zone == policy.ZoneHomeFixed {
		top, _, _ := strings.Cut(rel, "/")
		r.Zone = policy.HomeZone(top)
	}
	r.Denied, r.Barred = p.NameDeniedAt(file), p.NameBarredAt(file)
	switch {
	case !e.Explain(p, policy.See, r).Allow:
		return hidden
	case !e.Explain(p, a, r).Allow:
		return refused
	}
	return permitted
}

// ask puts one question to the door, and compares: the answer must be Cedar's for
// rules and a place that there were at one moment between call and return.
func (m *moving) ask(agent, file string, a policy.Action) error {
	v, node := m.views[agent], m.nodes[file]
	from := m.now.Add(1)
	var err error
	switch a {
	case policy.See:
		_, err = v.Getattr(nil, node)
	case policy.Read:
		_, err = v.Open(nil, node, view.OpenFlags{Read: true})
	case policy.Write:
		_, err = v.Open(nil, node, view.OpenFlags{Write: true})
	}
	to := m.now.Add(1)
	got := permitted
	switch {
	case errors.Is(err, backend.NotFound):
		got = hidden
	case errors.Is(err, backend.Denied):
		got = refused
	case err != nil:
		return err
	}
	var could []string
	for _, rules := range m.rules.during(from, to) {
		for _, at := range m.paths[file].during(from, to) {
			if max(rules.from, at.from) > min(rules.to, at.to) {
				continue
			}
			want := m.cedar(rules.v, agent, a, at.v)
			if want == got {
				m.asked.Add(1)
				if len(could) > 0 {
					m.mixed.Add(1)
				}
				return nil
			}
			could = append(could, fmt.Sprintf("%s in world %d: %v", at.v, rules.v, want))
		}
	}
	return fmt.Errorf("%s %v %s: %v (%v), where Cedar says %v", agent, a, file, got, err, could)
}

// at is where a file stands. Only its mover may ask.
func (m *moving) at(file string) string {
	of := m.paths[file].of
	return of[len(of)-1].v
}

// rename moves what is called name, the file or a directory that it is in, to
// another directory, and notes where the file is then.
func (m *moving) rename(file, name, dir string) error {
	old := m.at(file)
	top := old[:strings.LastIndex(old, "/"+name)]
	from, into := m.node(top), m.node(dir)
	return m.moved(m.paths[file].change(dir+strings.TrimPrefix(old, top), func() error {
		return m.gaia.Rename(nil, from, name, into, name, 0)
	}))
}

// exchange has two files take each other's place and name.
func (m *moving) exchange(a, b string) error {
	x, y := m.at(a), m.at(b)
	from, into := m.node(path.Dir(x)), m.node(path.Dir(y))
	return m.moved(m.paths[a].change(y, func() error {
		return m.paths[b].change(x, func() error {
			return m.gaia.Rename(nil, from, path.Base(x), into, path.Base(y), view.Exchange)
		})
	}))
}

// moved counts a move. One that rules refuse is none.
func (m *moving) moved(err error) error {
	if errors.Is(err, backend.Denied) {
		return nil
	}
	if err == nil {
		m.moves.Add(1)
	}
	return err
}

// TestCacheIsCedarWhileFilesMove: askers of five agents ask of files by their
// nodes while these files, and directories with others in them, are moved and
// exchanged between places with other rules (zones of a home, what is granted,
// where names are denied to all and to one), and while modes, grants and rules come
// and go. Each answer is Cedar's, without any cache, for a state that there was.
func TestCacheIsCedarWhileFilesMove(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	m := newMoving(t)
	asks, swaps, moves := int64(40_000), int64(150), int64(2000)
	if testing.Short() {
		asks, swaps, moves = 2000, 12, 100
	}
	end := waits.In(time.Minute)
	enough := func() bool {
		return m.failed.Load() || m.asked.Load() >= asks && m.swaps.Load() >= swaps && m.moves.Load() >= moves || end.Passed()
	}
	var wg sync.WaitGroup
	loop := func(n uint64, step func(rnd *rand.Rand) error) {
		rnd := rand.New(rand.NewPCG(seed, n))
		wg.Go(func() {
			for !enough() {
				if err := step(rnd); err != nil {
					t.Error(err)
					m.failed.Store(true)
				}
			}
		})
	}
	loop(1, func(rnd *rand.Rand) error {
		m.swaps.Add(1)
		err := m.swap(rnd.IntN(len(m.worlds)))
		time.Sleep(time.Duration(rnd.IntN(int(time.Millisecond))))
		return err
	})
	m.movers(loop)
	agents, files := []string{"gaia", "web", "boss", "mate", "guest"}, []string{"f", "g", "x.key", "y.txt", "z.key"}
	for n := range uint64(4) {
		loop(100+n, func(rnd *rand.Rand) error {
			return m.ask(agents[rnd.IntN(len(agents))], files[rnd.IntN(len(files))], policy.Action(rnd.IntN(3)))
		})
	}
	wg.Wait()
	t.Logf("%d answers, %d of them true of a state that was not the last; %d changes of rules, %d moves", m.asked.Load(), m.mixed.Load(), m.swaps.Load(), m.moves.Load())
	if !t.Failed() && end.Passed() {
		t.Errorf("not done in a minute: %d answers, %d changes of rules, %d moves", m.asked.Load(), m.swaps.Load(), m.moves.Load())
	}
}

// movers start those that move files: one for each, so that what a timeline has
// last is where the file is.
func (m *moving) movers(loop func(n uint64, step func(rnd *rand.Rand) error)) {
	homes, works := []string{"notes", "caches", "skills"}, []string{"open", "given", "keys"}
	one := func(rnd *rand.Rand, top string, dirs []string) string { return top + dirs[rnd.IntN(len(dirs))] }
	loop(2, func(rnd *rand.Rand) error { return m.rename("f", "f", one(rnd, movingHome, homes)) })
	loop(3, func(rnd *rand.Rand) error { return m.rename("g", "d", one(rnd, movingHome, homes)) })
	loop(4, func(rnd *rand.Rand) error { return m.rename("z.key", "e", one(rnd, movingWork, works)) })
	loop(5, func(rnd *rand.Rand) error {
		if rnd.IntN(2) == 0 {
			return m.exchange("x.key", "y.txt")
		}
		file := []string{"x.key", "y.txt"}[rnd.IntN(2)]
		return m.rename(file, path.Base(m.at(file)), one(rnd, movingWork, works))
	})
}
