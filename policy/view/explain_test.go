package view_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// explained is what explain says of a request: a name that is not there may be
// made where create says so.
func (w *world) explained(agent string, a policy.Action, path string) bool {
	w.t.Helper()
	x, err := w.space.Explain(agent, a, path)
	if err != nil && !errors.Is(err, backend.NotFound) {
		w.t.Fatalf("explain %s %v %s: %v", agent, a, path, err)
	}
	return err == nil && x.Allow
}

// tried does it, as far as the view lets it, and undoes it.
func (w *world) tried(v *view.View, a policy.Action, path string) bool {
	w.t.Helper()
	cut := strings.LastIndexByte(path, '/')
	dirPath, name := path[:max(cut, 1)], path[cut+1:]
	f, err := v.Find(path, false)
	if a == policy.See || err != nil && a != policy.Create {
		return err == nil
	}
	switch a {
	case policy.Read:
		_, err = v.Open(nil, f.Attr.Node, view.OpenFlags{Read: true})
	case policy.Write:
		if f.Attr.IsDir() {
			_, err = v.Setattr(nil, f.Attr.Node, backend.SetAttr{Mtime: &f.Attr.Mtime})
			break
		}
		_, err = v.Open(nil, f.Attr.Node, view.OpenFlags{Write: true})
	case policy.Create:
		var dir backend.Attr
		if dir, err = v.Resolve(dirPath); err != nil {
			return false
		}
		if _, err = v.Mknod(nil, dir.Node, name, backend.TypeRegular, 0o644, 0); err == nil {
			w.ok(w.gaia.Unlink(nil, dir.Node, name), "undo create "+path)
		}
	case policy.Remove:
		if err = v.Unlink(nil, f.Dir, name); err == nil {
			_, err = w.gaia.WriteFile(path, []byte("x"), 0o644)
			w.ok(err, "undo remove "+path)
		}
	}
	if err != nil && !errors.Is(err, backend.Denied) && !errors.Is(err, backend.NotFound) && !errors.Is(err, backend.ReadOnly) {
		w.t.Errorf("%v %s: %v", a, path, err)
	}
	return err == nil
}

// TestExplainAgreesWithTheView: on 10,000 random requests, with grants, deny-list,
// exceptions and access modes that change.
func TestExplainAgreesWithTheView(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 6))
	w := newWorld(t)
	var files, dirs []string
	for _, base := range []string{"/agents/web/workspace", "/agents/web/notes", "/agents/kid/scratch", "/agents/ro/workspace", "/agents/none/workspace",
		"/users/ada", "/users/bob", "/projects/site", "/projects/bobs", "/workspaces/default"} {
		dirs = append(dirs, base)
		for _, rel := range []string{"p/site/f", "p/site/css/g", "p/sitex/f", "q/h", "top"} {
			w.write(base+"/"+rel, "x")
			files = append(files, base+"/"+rel)
		}
		dirs = append(dirs, base+"/p", base+"/p/site", base+"/p/site/css", base+"/q")
	}
	w.facts.Settings.Exceptions = []policy.NameException{{Name: ".env", Under: "/"}}
	w.publish()
	for _, dir := range []string{"/agents/web/workspace/p/site", "/users/ada", "/projects/site"} {
		w.write(dir+"/.env", "x")
		files = append(files, dir+"/.env")
	}
	files = append(files, "/agents/web/soul.md", "/agents/web/session.md")
	dirs = append(dirs, "/agents", "/users", "/projects", "/workspaces", "/agents/web", "/agents/we", "/agents/webb", "/agents/web/skills")
	agents := []string{"gaia", "lim", "boss", "web", "kid", "mate", "guest", "conc", "ro", "none", "we"}
	allowed, requests := 0, 0
	for range 50 {
		w.randomRights(rnd, agents, slices.Concat(files, dirs))
		views := map[string]*view.View{}
		for _, a := range agents {
			views[a] = w.open(a)
		}
		for range 260 {
			agent, a := agents[rnd.IntN(len(agents))], policy.Action(rnd.IntN(5))
			path := files[rnd.IntN(len(files))]
			switch {
			case a == policy.Create:
				path = dirs[rnd.IntN(len(dirs))] + "/" + []string{"new", ".env", ".ENV", "new.txt"}[rnd.IntN(4)]
				if _, err := w.gaia.Resolve(path); err == nil || strings.Count(path, "/") == 2 { // in /projects only mkdir makes something
					continue
				}
			case a == policy.Remove && strings.HasSuffix(path, ".env"): // could not be put back
				continue
			case a == policy.See && rnd.IntN(2) == 0:
				path = dirs[rnd.IntN(len(dirs))]
			}
			want := w.explained(agent, a, path)
			if got := w.tried(views[agent], a, path); got != want {
				t.Fatalf("%s %v %s: the view says %v, explain %v\ngrants %+v\nagents %+v\nsettings %+v", agent, a, path, got, want, w.facts.Grants, w.facts.Agents, w.facts.Settings)
			}
			requests++
			if want {
				allowed++
			}
		}
	}
	if requests < 10_000 || allowed < requests/10 || allowed > requests*9/10 {
		t.Errorf("%d of %d allowed: too few, or too one-sided to tell anything", allowed, requests)
	}
}

// randomRights publishes other grants, access modes and exceptions.
func (w *world) randomRights(rnd *rand.Rand, agents, paths []string) {
	w.t.Helper()
	f := facts()
	for _, key := range agents[1:] {
		a := f.Agents[key]
		if rnd.IntN(8) == 0 {
			a.Access = policy.AccessMode(rnd.IntN(3))
		}
		f.Agents[key] = a
	}
	for i := range 8 {
		g := policy.Grant{ID: fmt.Sprint("g", i), Agent: agents[rnd.IntN(len(agents))], Path: paths[rnd.IntN(len(paths))],
			Right: []string{"read", "write"}[rnd.IntN(2)], Expires: time.Now()}
		if _, _, ok := policy.PlaceOf(g.Path); ok && f.Agents[g.Agent].Role != policy.Shared {
			f.Grants = append(f.Grants, g)
		}
	}
	for _, under := range []string{"/", "/users", "/agents/web/workspace/p", "/projects/site"} {
		if rnd.IntN(4) == 0 {
			f.Settings.Exceptions = append(f.Settings.Exceptions, policy.NameException{Name: ".env", Under: under})
		}
	}
	w.facts = f
	w.publish()
}
