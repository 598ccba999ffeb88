package view_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy/view"
)

// TestPutWritesInPlace: a file with several names stays one file, also where it is
// written through a symlink; one that is replaced keeps its content under its other
// names. Small, in two steps, and where the old content is in more extents than one
// update moves.
func TestPutWritesInPlace(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace/"
	w.mkdir(base + "a")
	w.mkdir(base + "b")
	for _, size := range []int{0, 3, 2<<20 + 5, 1 << 20} {
		for _, pieces := range []int{1, 700, 4000} {
			first := w.write(base+"a/first", "old")
			w.ok(w.tree.With(first.Volume(), func(tx *tree.Txn) error {
				for i := range pieces - 1 {
					if _, err := tx.Write(first.Ino(), []byte{byte(i)}, uint64(i+1)<<13>>(i%2)); err != nil {
						return err
					}
				}
				return nil
			}), "write in pieces")
			old, _, err := v.ReadFile(base+"a/first", -1)
			w.ok(err, "read")
			a, err := w.gaia.Link(nil, first, w.node(base+"b"), "second")
			w.ok(err, "link")
			w.symlink(base+"via", "b/second")
			for i, path := range []string{"b/second", "via"} {
				text := bytes.Repeat([]byte{byte('a' + i)}, size)
				f, err := v.Put(base+path, bytes.NewReader(text), 0)
				if err != nil || f.Path != base+"b/second" || f.Name != "second" || f.Dir != w.node(base+"b") || f.Attr.Node != first || f.Attr.Btime != a.Btime {
					t.Fatalf("%s, %d bytes over %d pieces: %+v, %v", path, size, pieces, f, err)
				}
				for _, name := range []string{"a/first", "b/second"} {
					if got, a, err := v.ReadFile(base+name, -1); err != nil || !bytes.Equal(got, text) || a.Node != first || a.Nlink != 2 {
						t.Errorf("%s: %s has %d bytes, %+v, %v", path, name, len(got), a, err)
					}
				}
				old = text
			}
			text := bytes.Repeat([]byte("r"), size)
			f, err := v.ReplaceHere(base+"b/second", bytes.NewReader(text), 0, view.Cond{})
			if err != nil || f.Attr.Node == first || f.Attr.Btime != a.Btime || f.Attr.Nlink != 1 || f.Attr.Size != uint64(size) {
				t.Errorf("replaced: %+v, %v", f, err)
			}
			if got, a, err := v.ReadFile(base+"a/first", -1); err != nil || !bytes.Equal(got, old) || a.Nlink != 1 {
				t.Errorf("the other name of what was replaced has %d bytes, %+v, %v", len(got), a, err)
			}
			for _, name := range []string{"a/first", "b/second", "via"} {
				w.ok(w.gaia.Remove(base+name, false), "remove")
			}
		}
	}
}

// TestPutKeeps a file's extended attributes, mode and owner, in a directory the
// view may write and in place.
func TestPutKeeps(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	for _, path := range []string{"/agents/web/workspace/f", "/agents/web/session.md"} {
		if _, err := w.gaia.Resolve(path); err != nil {
			w.write(path, "old")
		}
		node := w.node(path)
		mode, uid, gid := uint32(0o640), uint32(77), uint32(78)
		_, err := w.gaia.Setattr(nil, node, backend.SetAttr{Mode: &mode, UID: &uid, GID: &gid})
		w.ok(err, "chown")
		w.ok(w.gaia.SetXattr(nil, node, "user.mime", []byte("text/x"), false, false), "setxattr")
		if path != "/agents/web/session.md" { // that is not gaia's making
			w.ok(w.gaia.SetXattr(nil, node, "security.capability", []byte("c"), false, false), "setxattr")
		}
		f, err := v.Put(path, strings.NewReader("new"), 0)
		if err != nil || f.Attr.Mode != mode || f.Attr.UID != uid || f.Attr.GID != gid {
			t.Fatalf("%s: %+v, %v", path, f, err)
		}
		if value, err := w.gaia.GetXattr(nil, f.Attr.Node, "user.mime"); err != nil || string(value) != "text/x" {
			t.Errorf("%s: user.mime is %q, %v", path, value, err)
		}
		names, err := w.gaia.ListXattr(nil, f.Attr.Node)
		if f.Attr.Node != node || err != nil || path != "/agents/web/session.md" && slices.Contains(names, "security.capability") {
			t.Errorf("%s: %v, %v", path, names, err)
		}
	}
}

// TestPutOfABrokenBody changes nothing, and says what broke it.
func TestPutOfABrokenBody(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	path := "/agents/web/workspace/f"
	w.write(path, "old")
	broken := errors.New("broken")
	for _, before := range []int{0, 10, 3 << 20} {
		body := iotest.DataErrReader(&prefixed{left: before, then: iotest.ErrReader(broken)})
		if _, err := v.Put(path, body, 0); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", before, err)
		}
		if text, _, err := v.ReadFile(path, -1); err != nil || string(text) != "old" {
			t.Errorf("after %d bytes: the file has %d bytes, %v", before, len(text), err)
		}
	}
}

// prefixed is some bytes and then another reader.
type prefixed struct {
	left int
	then interface{ Read([]byte) (int, error) }
}

func (p *prefixed) Read(b []byte) (int, error) {
	if p.left == 0 {
		return p.then.Read(b)
	}
	n := min(len(b), p.left)
	p.left -= n
	return n, nil
}

// TestSlashAtTheEnd means a directory, as in POSIX.
func TestSlashAtTheEnd(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	base := "/agents/web/workspace/"
	w.write(base+"f", "x")
	w.mkdir(base + "d")
	_, _, err := v.ReadFile(base+"f/", -1)
	w.kind(err, backend.NotDir, "read")
	_, err = v.Put(base+"f/", strings.NewReader("y"), 0)
	w.kind(err, backend.NotDir, "put")
	_, err = v.Put(base+"new/", strings.NewReader("y"), 0)
	w.kind(err, backend.IsDir, "put of a new file")
	w.kind(v.Remove(base+"f/", false), backend.NotDir, "remove")
	w.kind(v.Remove(base+"f/", true), backend.NotDir, "remove all")
	w.ok(v.Remove(base+"d/", false), "remove a directory")
	if _, err := v.Resolve(base + "f"); err != nil {
		t.Errorf("the file: %v", err)
	}
}

// TestPutThroughADanglingLink makes what the link leads to, as open(2) with
// O_CREAT does, if the view may; the link stays.
func TestPutThroughADanglingLink(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	const base = "/agents/web/workspace/"
	w.mkdir(base + "d")
	cases := map[string]struct {
		target, made string // tree path of what is made; "" if kind
		kind         backend.Kind
	}{
		"plain":    {"new1", base + "new1", 0},
		"relative": {"d/../d/new2", base + "d/new2", 0},
		"absolute": {"/warren" + base + "d/new3", base + "d/new3", 0},
		"to link":  {"second", base + "d/new4", 0},
		"second":   {"d/new4", base + "d/new4", 0}, // one of the two makes it
		"no dir":   {"none/new", "", backend.NotFound},
		"host":     {"/tmp/new", "", backend.NotFound},
		"hidden":   {"/warren/agents/guest/workspace/new", "", backend.NotFound},
		"denied":   {".env", "", backend.Denied},
		"fixed":    {"../new", "", backend.Denied},
		"loop":     {"loop", "", backend.Loop},
		"a dir":    {"d", "", backend.IsDir},
	}
	nodes := map[string]backend.NodeID{}
	for link, c := range cases {
		nodes[link] = w.symlink(base+link, c.target)
	}
	for link, c := range cases {
		f, err := v.Put(base+link, strings.NewReader("through "+link), 0)
		if c.made == "" {
			w.kind(err, c.kind, "put through "+link)
		} else if w.ok(err, "put through "+link); f.Path != c.made {
			t.Errorf("%s: made %s, want %s", link, f.Path, c.made)
		} else if b, _, err := v.ReadFile(c.made, -1); err != nil || string(b) != "through "+link {
			t.Errorf("%s: %s has %q, %v", link, c.made, b, err)
		}
		at, err := v.Find(base+link, false)
		if err != nil || at.Attr.Node != nodes[link] || at.Attr.Type != backend.TypeSymlink {
			t.Errorf("%s: the link is not what it was: %+v, %v", link, at, err)
		}
	}
}

// TestReplaceLeavesNothingWhereARightEnds: a file is replaced in one step, so that no
// other name of it stays in a directory that leaves a grant meanwhile.
func TestReplaceLeavesNothingWhereARightEnds(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "write")
	v := w.open("guest")
	w.hub.mu.Lock()
	w.hub.sent = func() { w.revoke("g1") }
	w.hub.mu.Unlock()
	_, err := v.ReplaceHere(granted+"/index.html", strings.NewReader("new"), 0, view.Cond{})
	if text, _, rerr := w.gaia.ReadFile(granted+"/index.html", -1); rerr != nil || (string(text) == "new") != (err == nil) {
		t.Errorf("the write ended with %v, and the file has %q, %v", err, text, rerr)
	}
	w.kind(second(v.Resolve(granted)), backend.NotFound, "the grant has ended")
	list, err := w.gaia.List(nil, w.node(granted))
	w.ok(err, "list")
	for _, e := range list {
		if strings.HasPrefix(e.Name, ".warren-") {
			t.Errorf("%s stays", e.Name)
		}
	}
}
