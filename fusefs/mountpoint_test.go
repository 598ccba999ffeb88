package fusefs

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

// TestMountpointIsTheOneChecked: who moves directories while the daemon mounts
// does not choose where. The mount is refused and nothing stays mounted.
func TestMountpointIsTheOneChecked(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	if s.hub.helper() {
		t.Skip("fusermount3 checks for itself")
	}
	dir, victim := filepath.Join(s.dir, "own", "x"), filepath.Join(s.dir, "victim", "x")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.MkdirAll(victim, 0o755))
	cfg := &Config{Dir: dir}
	p, err := prepareMountpoint(cfg, true, slog.New(slog.DiscardHandler))
	must(t, err)
	defer p.close()
	must(t, os.Rename(filepath.Dir(dir), filepath.Join(s.dir, "moved")))
	must(t, os.Symlink(filepath.Dir(victim), filepath.Dir(dir)))
	call := mountCall{dir: dir, at: fdPath(p.bare), over: p.over, source: "warren:x"}
	got, err := call.do()
	if backend.KindOf(err) != backend.Stale {
		t.Errorf("mounted as %d, %v", got, err)
	}
	table, err := mountTable()
	must(t, err)
	for _, e := range table {
		if e.Dir == victim || e.Dir == filepath.Join(s.dir, "moved", "x") {
			t.Errorf("mounted at %s", e.Dir)
		}
	}
	if _, err := prepareMountpoint(cfg, true, slog.New(slog.DiscardHandler)); backend.KindOf(err) != backend.Denied {
		t.Errorf("through a link: %v", err)
	}
}

// TestExactMountpoint follows no link, where another mount does.
func TestExactMountpoint(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	must(t, os.MkdirAll(filepath.Join(s.dir, "real", "m"), 0o755))
	must(t, os.Symlink("real", filepath.Join(s.dir, "link")))
	cfg := Config{Agent: "gaia", Dir: filepath.Join(s.dir, "link", "m"), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Exact: true}
	if m, err := s.hub.Mount(context.Background(), cfg); backend.KindOf(err) != backend.Denied {
		t.Fatalf("mounted at %v, %v", m, err)
	}
	cfg.Exact = false
	m, err := s.hub.Mount(context.Background(), cfg)
	must(t, err)
	if want := filepath.Join(s.dir, "real", "m"); m.Dir() != want {
		t.Errorf("mounted at %s, want %s", m.Dir(), want)
	}
	must(t, m.Unmount(context.Background(), true))
	cfg.Dir, cfg.Exact = m.Dir(), true
	m, err = s.hub.Mount(context.Background(), cfg)
	must(t, err)
	must(t, m.Unmount(context.Background(), true))
	if !m.Taken() {
		t.Error("an unmounted mount was not taken out of the tree")
	}
}

// TestMountpointBelongsToTheMountsUser, or to the daemon's.
func TestMountpointBelongsToTheMountsUser(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	if os.Geteuid() != 0 {
		t.Skip("only root can give directories away")
	}
	for _, c := range []struct {
		name   string
		owner  int
		uid    uint32
		refuse bool
	}{
		{"theirs", 4321, 4321, false},
		{"the daemon's", 0, 4321, false},
		{"another's", 4322, 4321, true},
		{"another's, for the daemon's user", 4322, 0, false},
	} {
		dir := filepath.Join(s.dir, "of")
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chown(dir, c.owner, c.owner))
		m, err := s.hub.Mount(context.Background(), Config{Agent: "gaia", Dir: dir, UID: c.uid, GID: c.uid})
		switch {
		case err == nil:
			must(t, m.Unmount(context.Background(), true))
			if c.refuse {
				t.Errorf("%s: mounted", c.name)
			}
		case !c.refuse || backend.KindOf(err) != backend.Denied:
			t.Errorf("%s: %v", c.name, err)
		}
		must(t, os.Remove(dir))
	}
}

// TestUnreadableMountpoint: the error names the directory, not how it was looked for.
func TestUnreadableMountpoint(t *testing.T) {
	if err := isEmpty("/some/where", -1); err == nil || !strings.Contains(err.Error(), "/some/where") || strings.Contains(err.Error(), "/proc") {
		t.Errorf("%v", err)
	}
}
