package server

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
)

// TestAnUnmountedMountIsForgotten: not at once, and not one that is there again.
func TestAnUnmountedMountIsForgotten(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.server.forget = 50 * time.Millisecond
	mount := func() {
		t.Helper()
		if _, err := f.client.Mount(t.Context(), control.MountSpec{Agent: "a", Dir: "/m"}); err != nil {
			t.Fatal(err)
		}
	}
	recorded := func() int { return len(f.server.Registry.Mounts()) }
	mount()
	gone := f.mounts.take("/m")
	if recorded() != 1 {
		t.Error("forgotten before it is known to be gone")
	}
	gone()
	if recorded() != 0 {
		t.Errorf("still recorded: %v", f.server.Registry.Mounts())
	}
	// Mounted again meanwhile, by hand: the record is the new one's.
	mount()
	gone = f.mounts.take("/m")
	mount()
	gone()
	if recorded() != 1 {
		t.Error("the mount that took its place is forgotten")
	}
	// A daemon that stops keeps the record for the next.
	gone = f.mounts.take("/m")
	f.server.once.Do(func() { close(f.server.done) })
	gone()
	if recorded() != 1 {
		t.Error("forgotten by a daemon that stops")
	}
}

// TestAMountWithoutAConnectionIsRemembered: nobody unmounted it, and the list says so.
func TestAMountWithoutAConnectionIsRemembered(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	if _, err := f.client.Mount(ctx, control.MountSpec{Agent: "a", Dir: "/m"}); err != nil {
		t.Fatal(err)
	}
	f.mounts.end("/m")(false)
	ms, err := f.client.Mounts(ctx)
	if err != nil || len(ms) != 1 || !strings.Contains(ms[0].State, "its connection was ended") {
		t.Errorf("%+v, %v", ms, err)
	}
	if _, err := f.client.Mount(ctx, control.MountSpec{Agent: "a", Dir: "/m"}); err != nil {
		t.Fatal(err)
	}
	if ms, err := f.client.Mounts(ctx); err != nil || len(ms) != 1 || ms[0].State != stateUp {
		t.Errorf("made anew: %+v, %v", ms, err)
	}
}

// TestACoveredMountStays, and stays recorded.
func TestACoveredMountStays(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	if _, err := f.client.Mount(t.Context(), control.MountSpec{Agent: "a", Dir: "/m"}); err != nil {
		t.Fatal(err)
	}
	f.mounts.covered = true
	for _, force := range []bool{false, true} {
		_, err := f.client.Unmount(t.Context(), "/m", force)
		if control.KindOf(err) != control.KindConflict || !contains(err, "tmpfs") {
			t.Errorf("force %v: %v", force, err)
		}
	}
	if len(f.server.Registry.Mounts()) != 1 {
		t.Error("forgotten")
	}
}

// TestRestoreSaysThatTheMountIsRecorded, so that no link is followed to it.
func TestRestoreSaysThatTheMountIsRecorded(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	if _, err := f.client.Mount(t.Context(), control.MountSpec{Agent: "a", Dir: "/m"}); err != nil {
		t.Fatal(err)
	}
	if f.mounts.up["/m"].Recorded {
		t.Error("a new mount")
	}
	g := newFixtureOn(t, f.store.Reopen())
	g.server.Restore(t.Context())
	if !g.mounts.up["/m"].Recorded {
		t.Error("one that comes back")
	}
}

// TestWhoARunIs: not root, not in root's group, and nobody with access none.
func TestWhoARunIs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may name who a command runs as")
	}
	f := newFixture(t)
	f.soul("a")
	id := func(n uint32) *uint32 { return &n }
	for name, c := range map[string]struct {
		spec control.RunSpec
		kind control.Kind
	}{
		"root":                  {control.RunSpec{Agent: "a", UID: id(0), GID: id(0)}, control.KindDenied},
		"root's uid":            {control.RunSpec{Agent: "a", UID: id(0), GID: id(7)}, control.KindDenied},
		"root's group":          {control.RunSpec{Agent: "a", UID: id(7), GID: id(0)}, control.KindDenied},
		"own uid, root's group": {control.RunSpec{Agent: "a", GID: id(0)}, control.KindDenied},
		"no uid":                {control.RunSpec{Agent: "a", UID: id(noID)}, control.KindInvalid},
		"no gid":                {control.RunSpec{Agent: "a", UID: id(7), GID: id(noID)}, control.KindInvalid},
	} {
		if h, err := f.client.StartRun(t.Context(), c.spec); control.KindOf(err) != c.kind {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	none := "none"
	if _, err := f.client.SetAgent(t.Context(), "a", control.AgentChange{Access: &none}); err != nil {
		t.Fatal(err)
	}
	_, err := f.client.StartRun(t.Context(), control.RunSpec{Agent: "a", UID: id(7), GID: id(7)})
	if control.KindOf(err) != control.KindDenied || !contains(err, "access none", "warren agent set a --access rw") {
		t.Errorf("access none: %v", err)
	}
}
