package tree

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
)

// wreck is a store with one of each, and the numbers of its parts.
type wreck struct {
	t    *testing.T
	s    *mem.Store
	vol  backend.VolumeID
	inos map[string]backend.Ino
}

func newWreck(t *testing.T) *wreck {
	t.Helper()
	w := &wreck{t: t, s: mem.New(mem.Options{}), inos: map[string]backend.Ino{}}
	tr := w.open()
	defer tr.Close()
	info, _, err := tr.CreateVolume(t.Context(), VolumeSpec{Label: Label{Kind: KindProject, Owner: "p"}, Parent: tr.Root(), Name: "p", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	w.vol = info.ID
	err = tr.With(w.vol, func(tx *Txn) error {
		mk := func(parent backend.Ino, name string, typ backend.FileType, data []byte) backend.Ino {
			spec := CreateSpec{Type: typ, Mode: 0o644}
			if typ == backend.TypeSymlink {
				spec.Target = "t"
			}
			a, err := tx.Create(parent, name, spec)
			if err != nil {
				t.Fatal(err)
			}
			if len(data) > 0 {
				if _, err := tx.Write(a.Node.Ino(), data, 0); err != nil {
					t.Fatal(err)
				}
			}
			w.inos[name] = a.Node.Ino()
			return a.Node.Ino()
		}
		d := mk(backend.RootIno, "d", backend.TypeDir, nil)
		e := mk(d, "e", backend.TypeDir, nil)
		mk(e, "deep", backend.TypeRegular, []byte("deep"))
		mk(backend.RootIno, "empty", backend.TypeDir, nil)
		small := mk(backend.RootIno, "small", backend.TypeRegular, []byte("small"))
		big := mk(d, "big", backend.TypeRegular, bytes.Repeat([]byte("big!"), 40_000))
		mk(d, "other", backend.TypeRegular, bytes.Repeat([]byte("other"), 2000))
		mk(backend.RootIno, "link", backend.TypeSymlink, nil)
		for _, name := range []string{"hard1", "hard2"} {
			if _, err := tx.Link(small, d, name); err != nil {
				return err
			}
		}
		c := mk(backend.RootIno, "copy", backend.TypeRegular, nil)
		if _, err := tx.CopyRange(big, 0, c, 0, 1<<20); err != nil {
			return err
		}
		return tx.SetXattr(small, "user.a", []byte("v"), false, false)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *wreck) open() *Tree {
	w.t.Helper()
	tr, err := Open(w.t.Context(), Options{Store: w.s, Content: mem.Content{}})
	if err != nil {
		w.t.Fatal(err)
	}
	return tr
}

// files lists everything with what it holds.
func (w *wreck) files() map[string]string {
	w.t.Helper()
	tr := w.open()
	defer tr.Close()
	out := map[string]string{}
	var walk func(tx *Txn, dir backend.Ino, path string)
	walk = func(tx *Txn, dir backend.Ino, path string) {
		list, err := tx.List(dir)
		if err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		for _, e := range list {
			a, err := tx.Attr(e.Node.Ino())
			if err != nil {
				w.t.Fatalf("%s/%s: %v", path, e.Name, err)
			}
			text := fmt.Sprintf("%d %o %d %d", a.Type, a.Mode, a.Nlink, a.Size)
			xs, err := tx.ListXattr(e.Node.Ino())
			text += fmt.Sprint(xs, err)
			if a.Type == backend.TypeRegular {
				// Read gives the lock back: a Txn of its own.
				b := make([]byte, a.Size)
				if _, err := readAlone(tr, e.Node, b); err != nil {
					text += err.Error()
				}
				text += fmt.Sprintf(" %.20q %x", b, crcOf(b))
			}
			out[path+"/"+e.Name] = text
			if a.IsDir() {
				walk(tx, e.Node.Ino(), path+"/"+e.Name)
			}
		}
	}
	snap := func() error { return tr.With(w.vol, func(tx *Txn) error { walk(tx, backend.RootIno, ""); return nil }) }
	if err := snap(); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// readAlone reads by the store itself: the caller has the volume's lock.
func readAlone(t *Tree, n backend.NodeID, p []byte) (int, error) {
	err := t.store.View(bg, func(kv backend.Tx) error {
		b, err := kv.Get(inodeKey(n.Volume(), n.Ino()))
		if err != nil {
			return err
		}
		rec, err := decodeRecord(n.Volume(), n.Ino(), b)
		if err != nil {
			return err
		}
		return scanExtents(kv, n.Volume(), n.Ino(), 0, 1<<62, func(e *extent) error {
			if rec.extents.void(e) {
				return nil
			}
			return copyExtent(t.content, kv, e, 0, p)
		})
	})
	return len(p), err
}

func crcOf(b []byte) (sum uint32) {
	for _, c := range b {
		sum = sum*31 + uint32(c)
	}
	return sum
}

// do changes keys behind the tree's back.
func (w *wreck) do(fn func(kv backend.Tx) error) {
	w.t.Helper()
	if _, err := w.s.Update(w.t.Context(), fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wreck) problems() []string {
	w.t.Helper()
	var out []string
	err := Check(w.t.Context(), w.s, mem.Content{}, CheckOptions{Content: true}, func(p Problem) { out = append(out, p.String()) })
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// change rewrites an inode's record.
func (w *wreck) change(name string, fn func(r *record)) func(kv backend.Tx) error {
	return func(kv backend.Tx) error {
		key := inodeKey(w.vol, w.inos[name])
		if name == "" {
			key = inodeKey(w.vol, backend.RootIno)
		}
		b, err := kv.Get(key)
		if err != nil {
			return err
		}
		r, err := decodeRecord(w.vol, w.inos[name], b)
		if err != nil {
			return err
		}
		fn(&r)
		return kv.Set(key, r.encode(nil))
	}
}

func (w *wreck) firstExtent(kv backend.Tx, name string) (key []byte, e extent) {
	p := appendIno(nil, famExtent, w.vol, w.inos[name])
	err := kv.Scan(p, backend.PrefixEnd(p), func(k, b []byte) error {
		key = bytes.Clone(k)
		var err error
		if e, err = decodeExtentKey(k, b); err != nil {
			return err
		}
		e.inline = bytes.Clone(e.inline)
		return backend.ErrStop
	})
	if err != nil || key == nil {
		w.t.Fatalf("%s has no extent: %v", name, err)
	}
	return key, e
}

// damages breaks each invariant in turn. gone are paths that are not there
// afterwards or differ; found says what is in lost+found instead.
var damages = map[string]struct {
	do          func(w *wreck) func(kv backend.Tx) error
	gone, found []string
}{
	"link count too high":                          {do: func(w *wreck) func(backend.Tx) error { return w.change("small", func(r *record) { r.nlink = 9 }) }},
	"link count too low":                           {do: func(w *wreck) func(backend.Tx) error { return w.change("small", func(r *record) { r.nlink = 1 }) }},
	"link count 0 of a directory with names in it": {do: func(w *wreck) func(backend.Tx) error { return w.change("d", func(r *record) { r.nlink = 0 }) }},
	"first back-link wrong": {do: func(w *wreck) func(backend.Tx) error {
		return w.change("small", func(r *record) { r.link = Link{99, "x"} })
	}},
	"first back-link missing": {do: func(w *wreck) func(backend.Tx) error { return w.change("deep", func(r *record) { r.link = Link{} }) }},
	"back-link missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Delete(linkKey(w.vol, w.inos["small"], Link{w.inos["d"], "hard1"}))
		}
	}},
	"back-link too many": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(linkKey(w.vol, w.inos["deep"], Link{w.inos["d"], "no"}), []byte{1, 1})
		}
	}},
	"back-link twice": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(linkKey(w.vol, w.inos["deep"], Link{w.inos["e"], "deep"}), []byte{1, 1})
		}
	}},
	"back-link malformed": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(append(appendIno(nil, famLink, w.vol, w.inos["deep"]), 1, 2), []byte{1, 1})
		}
	}},
	"back-link of nothing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(linkKey(w.vol, 999, Link{w.inos["e"], "zz"}), []byte{1, 1}) }
	}},
	"name missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(direntKey(w.vol, w.inos["d"], "big")) }
	}, gone: []string{"/d/big"}, found: []string{"big!"}},
	"one of several names missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(direntKey(w.vol, w.inos["d"], "hard1")) }
	}, gone: []string{"/d/hard1", "/d/hard2", "/small"}},
	"name of a directory missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(direntKey(w.vol, w.inos["d"], "e")) }
	}, gone: []string{"/d/e", "/d/e/deep"}, found: []string{"deep"}},
	"name leads nowhere": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(direntKey(w.vol, w.inos["d"], "ghost"), dent{ino: 4242, typ: backend.TypeRegular}.encode(nil, 1))
		}
	}},
	"name damaged": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(direntKey(w.vol, w.inos["d"], "hard1"), []byte("garbage")) }
	}},
	"name of wrong type": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(direntKey(w.vol, w.inos["d"], "big"), dent{ino: w.inos["big"], typ: backend.TypeSymlink}.encode(nil, 1))
		}
	}},
	"name in a file": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(direntKey(w.vol, w.inos["big"], "x"), dent{ino: w.inos["deep"], typ: backend.TypeRegular}.encode(nil, 1))
		}
	}},
	"second name of a directory": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(direntKey(w.vol, backend.RootIno, "again"), dent{ino: w.inos["e"], typ: backend.TypeDir}.encode(nil, 1))
		}
	}},
	"name of a volume that is none": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(direntKey(w.vol, backend.RootIno, "vol"), dent{ino: 1, vol: 77, typ: backend.TypeDir}.encode(nil, 1))
		}
	}},
	"volume shown nowhere": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(w.shownAt(kv)) }
	}},
	"another's name in the place of a volume": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			key := w.shownAt(kv)
			return kv.Set(key, dent{ino: 2, typ: backend.TypeDir}.encode(nil, 1))
		}
	}},
	"circle of directories": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			if err := kv.Delete(direntKey(w.vol, backend.RootIno, "d")); err != nil {
				return err
			}
			return kv.Set(direntKey(w.vol, w.inos["e"], "d"), dent{ino: w.inos["d"], typ: backend.TypeDir}.encode(nil, 1))
		}
	}, gone: []string{"/d", "/d/e", "/d/e/deep", "/d/big", "/d/other", "/d/hard1", "/d/hard2"}, found: []string{"deep", "big!", "other", "small"}},
	"inode missing, file": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(inodeKey(w.vol, w.inos["big"])) }
	}, gone: []string{"/d/big"}},
	"inode damaged, file without a name left": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			if err := kv.Delete(direntKey(w.vol, w.inos["d"], "big")); err != nil {
				return err
			}
			return kv.Set(inodeKey(w.vol, w.inos["big"]), []byte("garbage"))
		}
	}, gone: []string{"/d/big"}, found: []string{"big!"}},
	"inode missing, directory": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(inodeKey(w.vol, w.inos["e"])) }
	}, gone: []string{"/d/e"}},
	"inode damaged, empty directory": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(inodeKey(w.vol, w.inos["empty"]), []byte{9}) }
	}, gone: []string{"/empty"}},
	"inode missing, symlink": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(inodeKey(w.vol, w.inos["link"])) }
	}, gone: []string{"/link"}},
	"root directory missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(inodeKey(w.vol, backend.RootIno)) }
	}},
	"entries miscounted":   {do: func(w *wreck) func(backend.Tx) error { return w.change("d", func(r *record) { r.entries = 77 }) }},
	"bytes miscounted":     {do: func(w *wreck) func(backend.Tx) error { return w.change("big", func(r *record) { r.bytes = 3 }) }},
	"xattrs miscounted":    {do: func(w *wreck) func(backend.Tx) error { return w.change("small", func(r *record) { r.xattrs = 3 }) }},
	"highest extent wrong": {do: func(w *wreck) func(backend.Tx) error { return w.change("big", func(r *record) { r.extents.high = 3 }) }},
	"generation wrong": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			key, e := w.firstExtent(kv, "big")
			e.gen = 9
			return kv.Set(key, e.encode(nil))
		}
	}},
	"size too small": {do: func(w *wreck) func(backend.Tx) error { return w.change("big", func(r *record) { r.size = 3 }) }},
	"xattr of nothing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(xattrKey(w.vol, 777, "user.x"), []byte{1, 1, 0}) }
	}},
	"xattr damaged": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(xattrKey(w.vol, w.inos["small"], "user.a"), []byte{7}) }
	}, gone: []string{"/small", "/d/hard1", "/d/hard2"}},
	"to reclaim, but alive": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(todoKey(w.vol, w.inos["big"]), []byte{1}) }
	}},
	"to reclaim, but nothing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(todoKey(w.vol, 777), []byte{1}) }
	}},
	"extent damaged": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			key, _ := w.firstExtent(kv, "other")
			return kv.Set(key, []byte("garbage"))
		}
	}, gone: []string{"/d/other"}, found: []string{"other"}}, // its content is found again
	"extent key malformed": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(append(appendIno(nil, famExtent, w.vol, w.inos["deep"]), 1), []byte{1})
		}
	}},
	"extents overlap": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			e := extent{start: 1, end: 9, inline: []byte("LAPPING!")}
			return kv.Set(extentKey(w.vol, w.inos["deep"], 9), e.encode(nil))
		}
	}, found: []string{"LAPPING!"}},
	"extent of a directory": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			e := extent{start: 0, end: 5, inline: []byte("INDIR")}
			return kv.Set(extentKey(w.vol, w.inos["e"], 5), e.encode(nil))
		}
	}, found: []string{"INDIR"}},
	"extent of nothing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			e := extent{start: 0, end: 5, inline: []byte("STRAY")}
			return kv.Set(extentKey(w.vol, 5555, 5), e.encode(nil))
		}
	}, found: []string{"STRAY"}},
	"shared count missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(sharedKey(w.shared(kv))) }
	}},
	"shared count wrong": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(sharedKey(w.shared(kv)), []byte{9}) }
	}},
	"shared count of nothing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(sharedKey(1234), []byte{2}) }
	}},
	"shared count malformed": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set([]byte{famShared, 1}, []byte{2}) }
	}},
	"content without extent": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(backend.ContentKey(uint64(w.vol)<<40|9999), []byte("CONTENT"))
		}
	}, found: []string{"CONTENT"}},
	"counters missing": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Delete(appendVol(nil, famUsage, w.vol)) }
	}},
	"counters damaged": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(appendVol(nil, famUsage, w.vol), []byte("x")) }
	}},
	"counters wrong": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error {
			return kv.Set(appendVol(nil, famUsage, w.vol), usage{bytes: 1, inodes: 1, nextIno: 2, nextContent: 1}.encode(nil, 1))
		}
	}},
	"quota damaged": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(appendVol(nil, famQuota, w.vol), []byte("x")) }
	}},
	"malformed inode key": {do: func(w *wreck) func(backend.Tx) error {
		return func(kv backend.Tx) error { return kv.Set(append(appendVol(nil, famInode, w.vol), 1), []byte("x")) }
	}},
}

// shownAt is the key of the name that the volume stands under.
func (w *wreck) shownAt(kv backend.Tx) []byte {
	b, err := kv.Get(volumeKey(w.vol))
	if err != nil {
		w.t.Fatal(err)
	}
	rec, err := decodeVolume(w.vol, b)
	if err != nil {
		w.t.Fatal(err)
	}
	return direntKey(rec.Parent.Volume(), rec.Parent.Ino(), rec.Name)
}

func (w *wreck) shared(kv backend.Tx) (id uint64) {
	if err := SharedContent(kv, func(i uint64) { id = i }); err != nil || id == 0 {
		w.t.Fatalf("nothing is shared: %v", err)
	}
	return id
}

// TestRepairMendsEachInvariant: what was broken is clean afterwards, everything
// else is as it was, what lost its place is in lost+found, and a second repair
// has nothing to do.
func TestRepairMendsEachInvariant(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		d := damages[name]
		t.Run(name, func(t *testing.T) {
			w := newWreck(t)
			if p := w.problems(); len(p) > 0 {
				t.Fatalf("before: %v", p)
			}
			before := w.files()
			w.do(d.do(w))
			if len(w.problems()) == 0 {
				t.Fatal("Check finds nothing wrong")
			}
			var did []string
			if err := Repair(t.Context(), w.s, mem.Content{}, CheckOptions{}, func(p Problem) { did = append(did, p.String()) }); err != nil {
				t.Fatal(err)
			}
			if len(did) == 0 {
				t.Error("nothing was told")
			}
			if p := w.problems(); len(p) > 0 {
				t.Fatalf("after repair: %v\nit did: %v", p, strings.Join(did, "\n"))
			}
			after := w.files()
			lost := ""
			for p, text := range after {
				if strings.HasPrefix(p, "/lost+found/") {
					lost += text + "\n"
				} else if before[p] != text && p != "/lost+found" && !slices.Contains(d.gone, p) {
					t.Errorf("%s: was %q, is %q", p, before[p], text)
				}
			}
			for p := range before {
				if _, ok := after[p]; !ok && !slices.Contains(d.gone, p) {
					t.Errorf("%s is gone\nit did: %s", p, strings.Join(did, "\n"))
				}
			}
			for _, want := range d.found {
				if !strings.Contains(lost, want) {
					t.Errorf("lost+found has no %q:\n%s\nit did: %s", want, lost, strings.Join(did, "\n"))
				}
			}
			if len(d.found) == 0 && lost != "" {
				t.Errorf("lost+found: %s", lost)
			}
			err := Repair(t.Context(), w.s, mem.Content{}, CheckOptions{}, func(p Problem) { t.Errorf("again: %v", p) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRepairLeavesASoundStoreAlone: not a key changes.
func TestRepairLeavesASoundStoreAlone(t *testing.T) {
	w := newWreck(t)
	before := w.keys()
	if err := Repair(t.Context(), w.s, mem.Content{}, CheckOptions{}, func(p Problem) { t.Error(p) }); err != nil {
		t.Fatal(err)
	}
	if after := w.keys(); !maps.Equal(before, after) {
		t.Error("keys changed")
	}
}

func (w *wreck) keys() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	err := w.s.View(context.Background(), func(kv backend.Tx) error {
		return kv.Scan(nil, nil, func(k, v []byte) error { out[string(k)] = string(v); return nil })
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// TestRepairLeavesDamagedContent: it stays an error, and Check still tells of it.
func TestRepairLeavesDamagedContent(t *testing.T) {
	w := newWreck(t)
	w.do(func(kv backend.Tx) error {
		_, e := w.firstExtent(kv, "other")
		return kv.Set(backend.ContentKey(e.ref.ID), []byte("damaged"))
	})
	if err := Repair(t.Context(), w.s, mem.Content{}, CheckOptions{}, func(p Problem) { t.Error(p) }); err != nil {
		t.Fatal(err)
	}
	if p := w.problems(); len(p) != 1 || !strings.Contains(p[0], "extent") {
		t.Errorf("%v", p)
	}
}

// TestRepairOfRandomDamage: keys deleted and values replaced or cut at random,
// many at once. What repair leaves is only what it says it leaves.
func TestRepairOfRandomDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	for round := range rounds {
		w := newWreck(t)
		all := w.keys()
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(k string) bool { return k[0] == famMeta || k[0] == famVolume })
		var hit []string
		w.do(func(kv backend.Tx) error {
			hit = hit[:0]
			for range 1 + rng.IntN(8) {
				k := names[rng.IntN(len(names))]
				v := []byte(all[k])
				var err error
				switch what := rng.IntN(4); {
				case what == 0:
					err = kv.Delete([]byte(k))
				case what == 1 && len(v) > 0:
					err = kv.Set([]byte(k), v[:rng.IntN(len(v))])
				case what == 2 && len(v) > 0:
					v = bytes.Clone(v)
					v[rng.IntN(len(v))] ^= 1 << rng.IntN(8)
					err = kv.Set([]byte(k), v)
				default:
					err = kv.Set([]byte(k), []byte("garbage"))
				}
				if err != nil {
					return err
				}
				hit = append(hit, fmt.Sprintf("%c %x", k[0], k[1:]))
			}
			return nil
		})
		var did []string
		if err := Repair(t.Context(), w.s, mem.Content{}, CheckOptions{}, func(p Problem) { did = append(did, p.String()) }); err != nil {
			t.Fatal(err)
		}
		for _, p := range w.problems() {
			if !strings.Contains(p, "content ") || !strings.Contains(p, "extent [") {
				t.Errorf("round %d: %s\nhit: %s\ndid: %s", round, p, strings.Join(hit, ", "), strings.Join(did, "\n"))
			}
		}
		if t.Failed() {
			return
		}
		w.files() // it opens, and everything can be listed
	}
}
