package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

func TestMountsAreForTheCallerAndRecorded(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	m, err := f.client.Mount(ctx, control.MountSpec{Agent: "a", Dir: "/m"})
	if err != nil || m.UID != uint32(os.Geteuid()) || m.GID != uint32(os.Getegid()) || m.Root != "/" || m.Access != "rw" {
		t.Fatalf("%+v, %v", m, err)
	}
	uid, gid := uint32(7), uint32(8)
	if _, err := f.client.Mount(ctx, control.MountSpec{Agent: "a", Dir: "/n", Access: "ro", UID: &uid, GID: &gid, AllowOther: true}); err != nil {
		t.Fatal(err)
	}
	got := f.mounts.up["/n"]
	if got.View.UID != 7 || got.View.GID != 8 || got.View.Access != view.ReadOnly || !got.AllowOther {
		t.Errorf("%+v", got)
	}
	// A failure is told and not recorded.
	f.mounts.fail = backend.NotEmpty
	if _, err := f.client.Mount(ctx, control.MountSpec{Agent: "a", Dir: "/o"}); control.KindOf(err) != control.KindConflict {
		t.Errorf("%v", err)
	}
	f.mounts.fail = nil
	if ms, _ := f.client.Mounts(ctx); len(ms) != 2 {
		t.Errorf("%+v", ms)
	}

	// The next daemon mounts them again; what does not come back says why.
	g := newFixtureOn(t, f.store.Reopen())
	g.mounts.up["/n"] = Mounting{}
	g.server.Restore(ctx)
	if got := g.mounts.up["/m"]; got.View.Agent != "a" {
		t.Errorf("after a restart: %+v", g.mounts.up)
	}
	ms, err := g.client.Mounts(ctx)
	if err != nil || len(ms) != 2 || ms[0].State != "up" || ms[1].State != "busy" {
		t.Errorf("after a restart: %+v, %v", ms, err)
	}
	g.mounts.busy["/m"] = true
	if _, err := g.client.Unmount(ctx, "/m", false); control.KindOf(err) != control.KindConflict {
		t.Errorf("a busy mount: %v", err)
	}
	if _, err := g.client.Unmount(ctx, "/m", true); err != nil {
		t.Error(err)
	}
	g.mounts.elsewhere = true // as a bind mount keeps /n
	if got, err := g.client.Unmount(ctx, "/n", false); err != nil || !strings.Contains(got.Note, ErrElsewhere.Error()) {
		t.Errorf("a mount that is in use elsewhere: %+v, %v", got, err)
	}
	if ms, err := g.client.Mounts(ctx); err != nil || len(ms) != 0 {
		t.Errorf("after its unmount: %+v, %v", ms, err)
	}
	if _, err := g.client.Unmount(ctx, "/n", true); err != nil {
		t.Errorf("by force, though it is forgotten: %v", err)
	}
	if _, err := g.client.Unmount(ctx, "/n", true); control.KindOf(err) != control.KindNotFound {
		t.Errorf("once more: %v", err)
	}
	if err := g.client.RemoveAgent(ctx, "a"); err != nil {
		t.Error(err)
	}
	if up := g.mounts.Mounted(); len(up) != 0 {
		t.Errorf("mounts of a removed agent: %v", up)
	}
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := waits.In(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if end.Passed() {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func startRun(t *testing.T, f *fixture, ctx context.Context) *control.Hold {
	t.Helper()
	uid := uint32(4321)
	spec := control.RunSpec{Agent: "a", UID: &uid}
	if os.Geteuid() != 0 {
		spec.UID = nil
	}
	h, err := f.client.StartRun(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestARunLivesAsLongAsItIsHeld: however the holder goes, the mount goes.
func TestARunLivesAsLongAsItIsHeld(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	nothing := func() bool {
		left, _ := filepath.Glob(filepath.Join(f.server.Daemon.Runtime, "runs", "*"))
		return len(f.mounts.Mounted()) == 0 && len(left) == 0
	}
	for name, end := range map[string]func(*control.Hold, context.CancelFunc){
		"ended":     func(h *control.Hold, _ context.CancelFunc) { _ = f.client.EndRun(t.Context(), h.Run.ID) },
		"hung up":   func(h *control.Hold, _ context.CancelFunc) { h.Close() },
		"cancelled": func(_ *control.Hold, cancel context.CancelFunc) { cancel() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		h := startRun(t, f, ctx)
		if len(f.mounts.Mounted()) != 1 || h.Run.Agent.Key != "a" || h.Run.Dir != f.mounts.Mounted()[0] {
			t.Fatalf("%s: %+v, mounted %v", name, h.Run, f.mounts.Mounted())
		}
		fi, err := os.Stat(filepath.Dir(h.Run.Dir))
		if err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: the directory above: %v, %v", name, fi.Mode(), err)
		}
		if ms, err := f.client.Mounts(t.Context()); err != nil || len(ms) != 1 || !ms[0].Run {
			t.Errorf("%s: %+v, %v", name, ms, err)
		}
		end(h, cancel)
		if name == "ended" && !nothing() {
			t.Error("ended: the mount is still there when EndRun returns")
		}
		eventually(t, name, nothing)
		h.Gone()
		cancel()
		h.Close()
	}
	if err := f.client.EndRun(t.Context(), "nosuch"); err != nil {
		t.Errorf("ending a run that is gone: %v", err)
	}
	if ms := f.server.Registry.Mounts(); len(ms) != 0 {
		t.Errorf("runs were recorded: %v", ms)
	}
}

// TestAMountOfARunIsNoMount that could be unmounted; and one that somebody else took
// away leaves nothing.
func TestAMountOfARunIsNoMount(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	h := startRun(t, f, t.Context())
	defer h.Close()
	if _, err := f.client.Unmount(t.Context(), h.Run.Dir, true); control.KindOf(err) != control.KindNotFound {
		t.Errorf("unmounted: %v", err)
	}
	f.mounts.end(h.Run.Dir)
	if err := f.client.EndRun(t.Context(), h.Run.ID); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(f.server.Daemon.Runtime, "runs", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRemovingAnAgentEndsItsRuns(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	h := startRun(t, f, t.Context())
	defer h.Close()
	if err := f.client.RemoveAgent(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	h.Gone() // returns: the daemon ended it
	if up := f.mounts.Mounted(); len(up) != 0 {
		t.Errorf("still mounted: %v", up)
	}
}

func TestARunThatCannotBeMountedLeavesNothing(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.mounts.fail = errors.New("boom")
	uid := uint32(os.Geteuid())
	if uid == 0 {
		uid = 4321
	}
	if _, err := f.client.StartRun(t.Context(), control.RunSpec{Agent: "a", UID: &uid}); control.KindOf(err) != control.KindFailed {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(f.server.Daemon.Runtime, "runs", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestRunNamesWhatIsInTheWay: what stands where a command's HOME or /tmp is to
// be is named, with what to do about it.
func TestRunNamesWhatIsInTheWay(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	v, err := f.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(4321)
	spec := control.RunSpec{Agent: "a", UID: &uid}
	if os.Geteuid() != 0 {
		spec.UID = nil
	}
	ways := map[string]func(dir backend.NodeID, name string) error{
		"a link to nothing":   func(d backend.NodeID, n string) error { _, err := v.Symlink(nil, d, n, "nothing"); return err },
		"a link to somewhere": func(d backend.NodeID, n string) error { _, err := v.Symlink(nil, d, n, ".."); return err },
		"a link to a file": func(d backend.NodeID, n string) error {
			_, err := v.Symlink(nil, d, n, "/agents/a/soul.md")
			return err
		},
		"a link to itself": func(d backend.NodeID, n string) error { _, err := v.Symlink(nil, d, n, n); return err },
	}
	for _, path := range []string{"/agents/a/caches/home", "/agents/a/scratch/tmp"} {
		ways["a file"] = func(backend.NodeID, string) error { _, err := v.WriteFile(path, nil, 0o644); return err }
		dir, name, err := v.ResolveParent(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, do := range ways {
			_ = v.Rmdir(nil, dir.Node, name) // what an earlier run made
			if err := do(dir.Node, name); err != nil {
				t.Fatal(err)
			}
			h, err := f.client.StartRun(t.Context(), spec)
			switch {
			case what == "a link to somewhere" && name == "home":
				if err != nil {
					t.Errorf("HOME is %s: %v", what, err)
				} else {
					h.Close()
				}
			case control.KindOf(err) != control.KindInvalid || !contains(err, path, "warren fs rm"):
				t.Errorf("%s is %s: %v", path, what, err)
			}
			if err := v.Unlink(nil, dir.Node, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	startRun(t, f, t.Context()).Close()
}

// TestMountFollowsItsRoot: a mount shows a directory, not a path: it is listed
// by the path the directory has now, and comes back there. One that is gone
// gives way to what has its path.
func TestMountFollowsItsRoot(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	v, err := f.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	const work = "/agents/a/workspace/"
	for _, dir := range []string{"app", "other"} {
		if err := v.MkdirAll(work+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.Mount(t.Context(), control.MountSpec{Agent: "a", Dir: "/" + dir, Root: work + dir}); err != nil {
			t.Fatal(err)
		}
	}
	up, err := v.Resolve(work)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Rename(nil, up.Node, "app", up.Node, "renamed", 0); err != nil {
		t.Fatal(err)
	}
	if err := v.Rmdir(nil, up.Node, "other"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"app", "other"} { // new ones under the old names
		if err := v.MkdirAll(work+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"/app": work + "renamed", "/other": work + "other"}
	listed := func(f *fixture) {
		t.Helper()
		ms, err := f.client.Mounts(t.Context())
		if err != nil || len(ms) != len(want) {
			t.Fatalf("%+v, %v", ms, err)
		}
		for _, m := range ms {
			if m.Root != want[m.Dir] || m.State != "up" {
				t.Errorf("%s is listed as %s of %s, want %s", m.Dir, m.State, m.Root, want[m.Dir])
			}
		}
	}
	listed(f)
	g := newFixtureOn(t, f.store.Reopen())
	g.server.Restore(t.Context())
	for dir, root := range want {
		if got := g.mounts.up[dir].View.Root; got != root {
			t.Errorf("%s comes back at %q, want %s", dir, got, root)
		}
	}
	listed(g)
}
