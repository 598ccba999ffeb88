package fusefs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// attempt does an action by system calls at a path of a mount, and undoes it by
// the orchestrator's view.
func attempt(t *testing.T, gaia *view.View, dir string, a policy.Action, p string) bool {
	t.Helper()
	open := func(flags int) error {
		f, err := os.OpenFile(dir+p, flags, 0o644)
		if err == nil {
			if flags == os.O_RDONLY {
				_, err = f.Read(make([]byte, 1))
			}
			err = errors.Join(err, f.Close())
		}
		return err
	}
	var err error
	switch a {
	case policy.See:
		_, err = os.Lstat(dir + p)
	case policy.Read:
		err = open(os.O_RDONLY)
	case policy.Write:
		err = open(os.O_WRONLY)
	case policy.Create:
		if err = open(os.O_WRONLY | os.O_CREATE | os.O_EXCL); err == nil {
			must(t, gaia.Remove(p, false))
		}
	case policy.Remove:
		if err = os.Remove(dir + p); err == nil {
			_, undo := gaia.WriteFile(p, []byte("x"), 0o644)
			must(t, undo)
		}
	}
	if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EACCES) {
		t.Errorf("%v %s: %v", a, p, err)
	}
	return err == nil
}

// TestExplainAgreesWithTheMount: on 10,000 random triples of agent, action and
// path, by system calls in mounts that stay while grants, access modes, members
// and exceptions change under them.
func TestExplainAgreesWithTheMount(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 6))
	s := newStack(t, memDriver)
	s.watch(4 * time.Minute)
	agents := []string{"gaia", "web", "other"}
	facts := func() policy.Facts {
		f := testFacts()
		f.Projects = map[string]map[string]string{"site": {}}
		return f
	}
	s.publish(facts())
	_, err := s.space.EnsureVolume(t.Context(), view.VolumeSpec{Label: view.Label{Kind: view.KindProject, Owner: "site"}})
	must(t, err)
	gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(t, err)
	var files, dirs []string
	for _, base := range []string{workDir, "/agents/web/scratch", "/agents/other/workspace", "/users/ada", "/projects/site"} {
		for _, f := range []string{"top", "p/a/f", "p/a/in/g", "p/ab/f"} {
			must(t, gaia.MkdirAll(path.Dir(base+"/"+f), 0o755))
			_, err := gaia.WriteFile(base+"/"+f, []byte("x"), 0o644)
			must(t, err)
			files = append(files, base+"/"+f)
		}
		dirs = append(dirs, base, base+"/p", base+"/p/a", base+"/p/a/in", base+"/p/ab")
	}
	mounts := map[string]string{}
	for _, a := range agents {
		mounts[a] = s.mount(a, Config{Agent: a, Root: "/"})
	}
	worlds, each := 100, 100
	if testing.Short() {
		worlds = 8
	}
	allowed, asked := 0, 0
	for range worlds {
		f := facts()
		randomRights(rnd, &f, append(append([]string{}, files...), dirs...))
		s.publish(f)
		for range each {
			agent, a, p := agents[rnd.IntN(len(agents))], policy.Action(rnd.IntN(5)), files[rnd.IntN(len(files))]
			switch {
			case a == policy.Create:
				p = dirs[rnd.IntN(len(dirs))] + "/" + []string{"new", ".env", ".Env"}[rnd.IntN(3)]
			case a == policy.See && rnd.IntN(2) == 0:
				p = dirs[rnd.IntN(len(dirs))]
			}
			x, err := s.space.Explain(agent, a, p)
			if err != nil && !errors.Is(err, backend.NotFound) {
				t.Fatal(err)
			}
			want := err == nil && x.Allow
			if got := attempt(t, gaia, mounts[agent], a, p); got != want {
				t.Fatalf("%s %v %s: the mount says %v, explain %v by %+v\nfacts %+v", agent, a, p, got, want, x.Rules, f)
			}
			asked++
			if want {
				allowed++
			}
		}
	}
	if allowed < asked/10 || allowed > asked*9/10 {
		t.Errorf("%d of %d allowed: too one-sided to tell anything", allowed, asked)
	}
}

// randomRights puts other grants, modes, members and exceptions into f.
func randomRights(rnd *rand.Rand, f *policy.Facts, paths []string) {
	right := func() string { return []string{"read", "write"}[rnd.IntN(2)] }
	for _, key := range []string{"web", "other"} {
		a := f.Agents[key]
		if rnd.IntN(5) == 0 {
			a.Access = policy.AccessMode(rnd.IntN(3))
		}
		if rnd.IntN(3) == 0 {
			f.Projects["site"][key] = right()
		}
		f.Agents[key] = a
		for i := range rnd.IntN(4) {
			f.Grants = append(f.Grants, policy.Grant{ID: fmt.Sprint(key, i), Agent: key, Path: paths[rnd.IntN(len(paths))], Right: right(),
				Expires: time.Now().Add(time.Hour)})
		}
	}
	for _, under := range []string{"/", "/projects/site", workDir + "/p/a"} {
		if rnd.IntN(4) == 0 {
			f.Settings.Exceptions = append(f.Settings.Exceptions, policy.NameException{Name: ".env", Under: under})
		}
	}
}
