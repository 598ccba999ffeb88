package workspace_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// dated is a registry whose clock can be put forward, and the tree's with it.
type dated struct {
	*world
	t    *testing.T
	past time.Duration // added to both clocks: it has passed
	set  time.Duration // added to the wall clock alone
	v    *view.View
	c    *workspace.Collector
}

func newDated(t *testing.T) *dated {
	d, start := &dated{t: t}, time.Now()
	now := func() time.Time { return time.Now().Add(d.past + d.set) }
	var err error
	d.world, err = openWith(t, mem.New(mem.Options{}), tree.Options{Clock: func() backend.Time { return backend.TimeOf(now()) }}, workspace.Options{Clock: uptime.New(now, func() time.Duration { return time.Since(start) + d.past })})
	if err != nil {
		t.Fatal(err)
	}
	d.addSoul(t, "a")
	if d.v, err = d.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID}); err != nil {
		t.Fatal(err)
	}
	d.c = &workspace.Collector{Registry: d.reg, Door: d.space}
	return d
}

func (d *dated) write(paths ...string) {
	d.t.Helper()
	for _, p := range paths {
		err := d.v.MkdirAll("/agents/a/"+p[:strings.LastIndexByte(p, '/')], 0o755)
		if err == nil {
			_, err = d.v.WriteFile("/agents/a/"+p, []byte("content"), 0o644)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// left tells which of paths are still there.
func (d *dated) left(paths ...string) (out []string) {
	for _, p := range paths {
		if _, err := d.v.Find("/agents/a/"+p, false); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (d *dated) collect() workspace.Collected {
	d.t.Helper()
	got, err := d.c.Collect(d.t.Context(), false)
	if err != nil || got.Failed != 0 {
		d.t.Errorf("%+v, %v", got, err)
	}
	return got
}

var (
	scratch     = []string{"scratch/f", "scratch/d/e/f", "scratch/tmp/f"}
	caches      = []string{"caches/pip/f", "caches/home/.cache/go/f"}
	screenshots = []string{"workspace/screenshots/f.png", "workspace/app/screenshots/f.png"}
	kept        = []string{"caches/home/.profile", "caches/home/work/f", "workspace/f", "workspace/app/f", "workspace/app/deep/screenshots/f", "notes/f", "memory/f"}
)

// TestScratchIsCollectedByAge: what nobody changed for a week goes from scratch
// and from nowhere else.
func TestScratchIsCollectedByAge(t *testing.T) {
	d := newDated(t)
	all := slices.Concat(scratch, caches, screenshots, kept)
	d.write(all...)
	old := backend.TimeOf(time.Now().Add(-1000 * time.Hour))
	a, err := d.v.Resolve("/agents/a/scratch/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.v.Setattr(nil, a.Node, backend.SetAttr{Mtime: &old}); err != nil { // as tar does
		t.Fatal(err)
	}
	dir, err := d.v.Resolve("/agents/a/scratch")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.v.Symlink(nil, dir.Node, "out", "/agents/a/workspace"); err != nil {
		t.Fatal(err)
	}
	d.past = 6 * 24 * time.Hour
	if got := d.collect(); got.Removed != 0 || len(d.left(all...)) != len(all) {
		t.Errorf("after six days: %+v, %v", got, d.left(all...))
	}
	d.write("scratch/d/new")
	d.past = 7*24*time.Hour + time.Hour
	if got, err := d.c.Collect(t.Context(), true); err != nil || got.Removed != 4 || len(d.left(all...)) != len(all) {
		t.Errorf("a dry round: %+v, %v, %v", got, err, d.left(all...))
	}
	if got := d.collect(); got.Removed < 4 || got.Bytes == 0 {
		t.Errorf("after a week: %+v", got)
	}
	want := append([]string{"scratch/d/new", "scratch/tmp"}, all[len(scratch):]...)
	if got := d.left(append(want, append(scratch, "scratch/out")...)...); !slices.Equal(got, want) {
		t.Errorf("after a week: %v, want %v", got, want)
	}
	d.past = 30 * 24 * time.Hour
	d.collect()
	d.past = 60 * 24 * time.Hour
	d.collect()
	if got := d.names(t, "a", "/agents/a/scratch"); !slices.Equal(got, []string{"tmp"}) {
		t.Errorf("in the end scratch has %v", got)
	}
	d.check(t)
}

// TestRetentionRules: caches and screenshots go when it is said how old they may
// get, and scratch stays if it is said that it does.
func TestRetentionRules(t *testing.T) {
	d := newDated(t)
	all := slices.Concat(scratch, caches, screenshots, kept)
	d.write(all...)
	for kind, age := range map[string]string{"scratch": "never", "caches": "36h", "screenshots": "3d"} {
		if err := d.reg.SetRetention(t.Context(), kind, age); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range [][2]string{{"music", "3d"}, {"scratch", "3"}, {"scratch", "0s"}, {"scratch", "-3d"}, {"scratch", ""}, {"scratch", "99999999d"}} {
		if err := d.reg.SetRetention(t.Context(), bad[0], bad[1]); !errors.Is(err, backend.Invalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	d.past = 48 * time.Hour
	d.collect()
	if got, want := d.left(all...), slices.Concat(scratch, screenshots, kept); !slices.Equal(got, want) {
		t.Errorf("after two days: %v, want %v", got, want)
	}
	d.past = 100 * 24 * time.Hour
	d.collect()
	if got, want := d.left(all...), slices.Concat(scratch, kept); !slices.Equal(got, want) {
		t.Errorf("in the end: %v, want %v", got, want)
	}
	again := mustOpen(t, d.store.Reopen())
	if got := again.reg.Retention(); got["caches"] != 36*time.Hour || got["scratch"] != 0 {
		t.Errorf("after a restart: %v", got)
	}
}

// TestNewFileOfAnOldName: what takes the place of an old file meanwhile stays.
func TestNewFileOfAnOldName(t *testing.T) {
	d := newDated(t)
	d.write("scratch/f")
	dir, err := d.v.Resolve("/agents/a/scratch")
	if err != nil {
		t.Fatal(err)
	}
	before := backend.TimeOf(time.Now().Add(-time.Hour))
	if err := d.v.RemoveOlder(dir.Node, "f", false, before, nil); !errors.Is(err, backend.Conflict) {
		t.Errorf("a new file: %v", err)
	}
	if err := d.v.RemoveOlder(dir.Node, "f", false, backend.TimeOf(time.Now().Add(time.Hour)), nil); err != nil {
		t.Error(err)
	}
}

// mover is a Notifier that calls back once, when it has told of the first removal.
type mover struct{ then func() }

func (m *mover) Collect(_ view.Observer, changes []view.Change) view.Pending {
	if m.then != nil && changes[0].Kind == view.EntryRemoved {
		return m
	}
	return nil
}

func (m *mover) InUse(backend.NodeID) bool { return false }

// Send implements view.Pending.
func (m *mover) Send() {
	then := m.then
	m.then = nil
	then()
}

// TestCollectorLeavesWhatMovesAway: of a directory that is moved to where nothing is
// collected while it is collected, the rest stays.
func TestCollectorLeavesWhatMovesAway(t *testing.T) {
	for kind, c := range map[string]struct{ from, to string }{
		workspace.KeepCaches:      {"caches/models", "notes/models"},
		workspace.KeepScreenshots: {"workspace/screenshots", "workspace/kept"},
	} {
		d := newDated(t)
		m := &mover{}
		d.space.SetNotifier(m)
		d.write(c.from+"/1", c.from+"/2", c.from+"/3")
		d.past = 2 * time.Hour
		if err := d.reg.SetRetention(t.Context(), kind, "1h"); err != nil {
			t.Fatal(err)
		}
		m.then = func() {
			dir, name, err := d.v.ResolveParent("/agents/a/" + c.from)
			if err != nil {
				t.Fatal(err)
			}
			to, newName, err := d.v.ResolveParent("/agents/a/" + c.to)
			if err == nil {
				err = d.v.Rename(nil, dir.Node, name, to.Node, newName, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got, err := d.c.Collect(t.Context(), false)
		if left := d.left(c.to+"/1", c.to+"/2", c.to+"/3"); err != nil || got.Removed != 1 || got.Failed != 0 || len(left) != 2 {
			t.Errorf("%s: %+v, %v; %q is left", kind, got, err, left)
		}
	}
}
