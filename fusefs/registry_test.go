package fusefs

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// TestHiddenAdditionsTellNothing: what is added where a view does not see it
// sends its kernel nothing and drops nothing from it. Whoever sees it sees it
// at once.
func TestHiddenAdditionsTellNothing(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	web, gaia := s.mounted("web", Config{Agent: "web", Root: "/"}), s.mounted("gaia", Config{Root: "/"})
	names := []string{"/agents/extra", "/users/eve", "/projects/extra"}
	look := func(m *Mount, there bool) {
		t.Helper()
		for _, name := range names {
			if _, err := os.Lstat(m.Dir() + name); (err == nil) != there {
				t.Errorf("%s: %s is there: %v (%v)", m.Config().Agent, name, !there, err)
			}
		}
		for _, dir := range []string{"/agents", "/users"} {
			list, err := listing(m.Dir() + dir)
			must(t, err)
			if extra := slices.Contains(list, "extra") || slices.Contains(list, "eve"); extra != there {
				t.Errorf("%s lists %v in %s", m.Config().Agent, list, dir)
			}
		}
	}
	// Asked before there are any: both kernels know that the names are absent.
	for range 2 {
		look(web, false)
		look(gaia, false)
	}
	before := web.Stats()
	facts := testFacts()
	facts.Agents["extra"] = policy.Agent{Key: "extra", Role: policy.Soul, User: "eve", Parent: "gaia"}
	facts.Users["eve"] = true
	facts.Projects = map[string]map[string]string{"extra": {"extra": "write"}}
	s.publish(facts)
	labels := []view.Label{{Kind: view.KindHome, Owner: "extra"}, {Kind: view.KindWorkspace, Owner: "extra"},
		{Kind: view.KindUser, Owner: "eve"}, {Kind: view.KindProject, Owner: "extra"}}
	for _, l := range labels {
		_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: l})
		must(t, err)
	}
	look(gaia, true)
	look(web, false)
	for _, l := range []view.Label{labels[2], labels[3], labels[1], labels[0]} {
		must(t, s.space.RemoveVolume(context.Background(), l))
	}
	look(gaia, false)
	look(web, false)
	after := web.Stats()
	for _, op := range []string{"LOOKUP", "READDIR", "GETATTR"} {
		if after.Requests[op] != before.Requests[op] {
			t.Errorf("%d %s requests because of what the view does not see", after.Requests[op]-before.Requests[op], op)
		}
	}
	for _, op := range []string{"INVAL_ENTRY", "INVAL_INODE", "INC_EPOCH"} {
		if after.Notices[op] != before.Notices[op] {
			t.Errorf("%d %s because of what the view does not see", after.Notices[op]-before.Notices[op], op)
		}
	}
}

// TestVolumesComeAndGoUnderACwd: a shell that stands in a directory of volumes
// sees them come and go, the last one too.
func TestVolumesComeAndGoUnderACwd(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	facts := testFacts()
	facts.Projects = map[string]map[string]string{"site": {}}
	s.publish(facts)
	gaia := s.mount("gaia", Config{Root: "/"})
	label := view.Label{Kind: view.KindProject, Owner: "site"}
	in, err := os.Open(gaia + "/projects") // as a working directory holds it
	must(t, err)
	defer in.Close()
	for i := range 3 {
		_, err := s.space.EnsureVolume(context.Background(), view.VolumeSpec{Label: label})
		must(t, err)
		if list, err := listing(gaia + "/projects"); err != nil || len(list) != 1 {
			t.Errorf("%d: %v, %v", i, list, err)
		}
		site, err := os.Open(gaia + "/projects/site")
		must(t, err)
		must(t, s.space.RemoveVolume(context.Background(), label))
		if _, err := os.Lstat(gaia + "/projects/site"); !os.IsNotExist(err) {
			t.Errorf("%d: removed, and %v", i, err)
		}
		if list, err := listing(gaia + "/projects"); err != nil || len(list) != 0 {
			t.Errorf("%d: %v, %v", i, list, err)
		}
		site.Close()
	}
}
