package view_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy/view"
)

// kernel is an Observer that notes what it is told, and a Revoker.
type kernel struct {
	w       *world
	mu      sync.Mutex
	log     []string
	attrs   map[string]backend.Attr // of the last event of its name
	revoked []view.Revocation
	// locked: each event must come with the lock of the volume of the node held.
	locked bool
}

func (k *kernel) note(what string, node backend.NodeID, a *backend.Attr) {
	if k.locked && !lockHeld(k.w.tree, node.Volume(), 3*time.Millisecond) {
		k.w.t.Errorf("%s came without the volume's lock", what)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, what)
	if a != nil {
		if k.attrs == nil {
			k.attrs = map[string]backend.Attr{}
		}
		k.attrs[what] = *a
	}
}

func (k *kernel) Entry(parent backend.NodeID, name string, a *backend.Attr) {
	k.note("entry "+name, a.Node, a)
}
func (k *kernel) Negative(parent backend.NodeID, name string) { k.note("negative "+name, parent, nil) }
func (k *kernel) Attr(a *backend.Attr)                        { k.note("attr", a.Node, a) }
func (k *kernel) Listing(dir backend.NodeID)                  { k.note("listing", dir, nil) }
func (k *kernel) Opened(a *backend.Attr, write bool) {
	k.note(fmt.Sprintf("opened %v", write), a.Node, a)
}

func (k *kernel) Holds(node backend.NodeID) bool { return k.w.hub.InUse(node) }

func (k *kernel) Revoked(r view.Revocation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.revoked = append(k.revoked, r)
}

func (k *kernel) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.log
	k.log = nil
	return out
}

func (k *kernel) takeRevoked() []view.Revocation {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.revoked
	k.revoked = nil
	return out
}

// lockHeld tells whether a volume's lock cannot be had within a time.
func lockHeld(t *tree.Tree, vol backend.VolumeID, within time.Duration) bool {
	got := make(chan struct{})
	go func() {
		t.With(vol, func(*tree.Txn) error { return nil })
		close(got)
	}()
	select {
	case <-got:
		return false
	case <-time.After(within):
		return true
	}
}

// TestTellsObserver: what each method tells the mount's memory, under the
// volume's lock, and that it tells nothing when it fails.
func TestTellsObserver(t *testing.T) {
	w := newWorld(t)
	k := &kernel{w: w, locked: true}
	v := w.openWith(view.Options{Agent: "web", Observer: k})
	s := w.stage("/agents/web/workspace", 0)
	excl := view.OpenFlags{Read: true, Write: true}
	for _, c := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"lookup", func() error { return second(v.Lookup(nil, s.dir, "f")) }, []string{"entry f"}},
		{"lookup of a volume", func() error { return second(v.Lookup(nil, w.node("/agents/web"), "workspace")) }, []string{"entry workspace"}},
		{"lookup in /", func() error { return second(v.Lookup(nil, w.node("/"), "agents")) }, []string{"entry agents"}},
		{"lookup of what is not there", func() error {
			w.kind(second(v.Lookup(nil, s.dir, "nope")), backend.NotFound, "lookup")
			return nil
		}, []string{"negative nope"}},
		{"lookup of what is hidden", func() error {
			w.kind(second(v.Lookup(nil, w.node("/agents"), "guest")), backend.NotFound, "lookup")
			return nil
		}, []string{"negative guest"}},
		{"lookup in what is hidden", func() error {
			w.kind(second(v.Lookup(nil, w.node("/agents/guest"), "soul.md")), backend.NotFound, "lookup")
			return nil
		}, nil},
		{"getattr", func() error { return second(v.Getattr(nil, s.file)) }, []string{"attr"}},
		{"chown -1 -1", func() error { return second(v.Setattr(nil, s.file, backend.SetAttr{})) }, []string{"attr"}},
		{"chmod", func() error {
			m := uint32(0o600)
			return second(v.Setattr(nil, s.file, backend.SetAttr{Mode: &m}))
		}, []string{"attr"}},
		{"list", func() error { return second(v.List(nil, s.dir)) }, []string{"listing"}},
		{"open", func() error { return second(v.Open(nil, s.file, view.OpenFlags{Read: true})) }, []string{"opened false"}},
		{"open to write", func() error { return second(v.Open(nil, s.file, excl)) }, []string{"opened true"}},
		{"create", func() error { return second3(v.Create(nil, s.dir, "c", 0o644, true, excl)) }, []string{"entry c", "opened true"}},
		{"create existing", func() error { return second3(v.Create(nil, s.dir, "c", 0o644, false, view.OpenFlags{Read: true})) }, []string{"entry c", "opened false"}},
		{"create excl", func() error {
			w.kind(second3(v.Create(nil, s.dir, "c", 0o644, true, excl)), backend.Exist, "create")
			return nil
		}, nil},
		{"mkdir", func() error { return second(v.Mkdir(nil, s.dir, "m", 0o755)) }, []string{"entry m"}},
		{"mknod", func() error { return second(v.Mknod(nil, s.dir, "n", backend.TypeSocket, 0o755, 0)) }, []string{"entry n"}},
		{"symlink", func() error { return second(v.Symlink(nil, s.dir, "y", "f")) }, []string{"entry y"}},
		{"link", func() error { return second(v.Link(nil, s.file, s.dir, "k")) }, []string{"entry k"}},
		{"tmpfile", func() error {
			a, err := v.Tmpfile(nil, s.dir, 0o644)
			w.space.Dropped(a.Node)
			return err
		}, nil},
		{"read", func() error { return second(v.Read(nil, s.file, make([]byte, 4), 0)) }, nil},
		{"write", func() error { return second(v.Write(nil, s.file, []byte("x"), 0)) }, nil},
		{"unlink", func() error { return v.Unlink(nil, s.dir, "k") }, nil},
		{"resolve", func() error { return second(v.Resolve("/agents/web/soul.md")) }, nil},
		{"refused", func() error {
			w.kind(v.Unlink(nil, w.node("/agents/web"), "soul.md"), backend.Denied, "unlink")
			return nil
		}, nil},
	} {
		k.take()
		w.ok(c.do(), c.name)
		if got := k.take(); !slices.Equal(got, c.want) {
			t.Errorf("%s tells %q, want %q", c.name, got, c.want)
		}
	}
	// What it is told is what is answered.
	a, err := v.Getattr(nil, s.file)
	if err != nil || k.attrs["attr"] != a {
		t.Errorf("told %+v, answered %+v, %v", k.attrs["attr"], a, err)
	}
}

// TestTellsNotifier: changes are collected under the lock, with the observer
// they came through, and sent after the lock is dropped and before the method
// returns.
func TestTellsNotifier(t *testing.T) {
	w := newWorld(t)
	k := &kernel{w: w}
	v := w.openWith(view.Options{Agent: "web", Observer: k})
	s := w.stage("/agents/web/workspace", 0)
	w.hub.inside = func() {
		if !lockHeld(w.tree, s.dir.Volume(), 3*time.Millisecond) {
			t.Error("collected without the lock")
		}
	}
	defer func() { w.hub.inside = nil }()
	size := uint64(3)
	for _, c := range []struct {
		name string
		do   func() error
		want []view.ChangeKind
	}{
		{"create", func() error { return second3(v.Create(nil, s.dir, "c", 0o644, true, view.OpenFlags{Write: true})) }, []view.ChangeKind{view.EntryAdded}},
		{"mkdir", func() error { return second(v.Mkdir(nil, s.dir, "m", 0o755)) }, []view.ChangeKind{view.EntryAdded}},
		{"link", func() error { return second(v.Link(nil, s.file, s.dir, "k")) }, []view.ChangeKind{view.EntryAdded, view.AttrChanged}},
		{"unlink", func() error { return v.Unlink(nil, s.dir, "k") }, []view.ChangeKind{view.EntryRemoved, view.AttrChanged}},
		{"rename", func() error { return v.Rename(nil, s.dir, "c", s.sub, "c", 0) }, []view.ChangeKind{view.EntryRemoved, view.EntryAdded, view.AttrChanged}},
		{"write", func() error { return second(v.Write(nil, s.file, []byte("x"), 0)) }, []view.ChangeKind{view.DataChanged}},
		{"append", func() error { return second(v.Append(nil, s.file, []byte("x"))) }, []view.ChangeKind{view.DataChanged}},
		{"truncate", func() error { return second(v.Setattr(nil, s.file, backend.SetAttr{Size: &size})) }, []view.ChangeKind{view.DataChanged}},
		{"open to truncate", func() error { return second(v.Open(nil, s.file, view.OpenFlags{Truncate: true})) }, []view.ChangeKind{view.DataChanged}},
		{"setxattr", func() error { return v.SetXattr(nil, s.file, "user.q", nil, false, false) }, []view.ChangeKind{view.AttrChanged}},
		{"rmdir", func() error { return v.Rmdir(nil, s.dir, "m") }, []view.ChangeKind{view.EntryRemoved}},
		{"getattr", func() error { return second(v.Getattr(nil, s.file)) }, nil},
		{"read", func() error { return second(v.Read(nil, s.file, make([]byte, 4), 0)) }, nil},
	} {
		w.hub.reset()
		w.ok(c.do(), c.name)
		log, sets := w.hub.events()
		wantLog := []string{"collect", "send"}
		if c.want == nil {
			wantLog = nil
		}
		if !slices.Equal(log, wantLog) {
			t.Errorf("%s: %v, want %v", c.name, log, wantLog)
			continue
		}
		var got []view.ChangeKind
		for _, set := range sets {
			for _, x := range set {
				got = append(got, x.Kind)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s changes %v, want %v", c.name, got, c.want)
		}
	}
	w.hub.reset()
	_, err := w.gaia.Write(nil, s.file, []byte("x"), 0)
	w.ok(err, "write")
	_, err = v.Write(nil, s.file, []byte("x"), 0)
	w.ok(err, "write")
	if by := w.hub.by; len(by) != 2 || by[0] != nil || by[1] != view.Observer(k) {
		t.Errorf("came through %v", by)
	}
}

// unlocked is a Pending that looks whether the volume can be locked.
type unlockedSend struct {
	w   *world
	vol backend.VolumeID
}

func (u unlockedSend) Send() {
	if lockHeld(u.w.tree, u.vol, 10*time.Second) {
		u.w.t.Error("sent with the lock held")
	}
}

type sendHub struct{ unlockedSend }

func (h sendHub) Collect(view.Observer, []view.Change) view.Pending { return h.unlockedSend }
func (h sendHub) InUse(backend.NodeID) bool                         { return false }

func TestSendsUnlocked(t *testing.T) {
	w := newWorld(t)
	s := w.stage("/agents/web/workspace", 0)
	w.space.SetNotifier(sendHub{unlockedSend{w, s.dir.Volume()}})
	_, err := w.gaia.Write(nil, s.file, []byte("x"), 0)
	w.ok(err, "write")
	w.ok(w.gaia.Rename(nil, s.dir, "f", s.dir, "g", 0), "rename")
}

// TestPublishIsAtOnce runs under -race: from the moment Publish returns, no
// operation goes by the old facts, however many are under way.
func TestPublishIsAtOnce(t *testing.T) {
	w := newWorld(t)
	v := w.openWith(view.Options{Agent: "web", Observer: &kernel{w: w}})
	site := w.node("/projects/site")
	f := w.write("/projects/site/f", "f")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("x%d-%d", i, n)
				for _, err := range []error{
					second3(v.Create(nil, site, name, 0o644, true, view.OpenFlags{Write: true})),
					second(v.Write(nil, f, []byte("x"), 0)),
					second(v.Lookup(nil, w.tree.Root(), "projects")),
					v.Unlink(nil, site, name),
				} {
					if err != nil && backend.KindOf(err) != backend.NotFound {
						t.Error(err)
					}
				}
			}
		})
	}
	for range 15 {
		delete(w.facts.Projects["site"], "web")
		w.publish()
		list, err := w.gaia.List(nil, site)
		w.ok(err, "list")
		time.Sleep(time.Millisecond)
		again, err := w.gaia.List(nil, site)
		w.ok(err, "list")
		if !slices.Equal(names(list), names(again)) {
			t.Fatalf("something was made or removed after the right was gone: %v, %v", names(list), names(again))
		}
		if _, err := v.Write(nil, f, []byte("y"), 0); backend.KindOf(err) != backend.NotFound {
			t.Fatalf("write after the right was gone: %v", err)
		}
		w.facts.Projects["site"]["web"] = "write"
		w.publish()
		if _, err := v.Write(nil, f, []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}
