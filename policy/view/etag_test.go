package view_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestEtagChangesWithContent: whatever changes a file's content, through any
// view, leaves another etag; reading does not.
func TestEtagChangesWithContent(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	const path = "/agents/web/workspace/f"
	node := w.write(path, "one")
	seen := map[string]string{}
	check := func(after string) {
		t.Helper()
		got, err := v.Etag(w.node(path))
		if err != nil || got == "" {
			t.Fatalf("after %s: %q, %v", after, got, err)
		}
		if was := seen[got]; was != "" {
			t.Errorf("the etag after %s is that after %s", after, was)
		}
		seen[got] = after
		if again, err := v.Etag(w.node(path)); err != nil || again != got {
			t.Errorf("after %s: asked again, %q, %v", after, again, err)
		}
	}
	check("making it")
	for i := range 50 {
		_, err := w.gaia.Write(nil, node, []byte("one"), 0)
		w.ok(err, "write")
		check(fmt.Sprint("writing the same, ", i))
	}
	_, err := v.Append(nil, node, []byte("x"))
	w.ok(err, "append")
	check("append")
	size := uint64(1)
	_, err = v.Setattr(nil, node, backend.SetAttr{Size: &size})
	w.ok(err, "truncate")
	check("truncate")
	past := backend.Time(1)
	_, err = v.Setattr(nil, node, backend.SetAttr{Mtime: &past, Ctime: &past})
	w.ok(err, "utimens")
	check("setting times")
	w.ok(v.Fallocate(nil, node, 0, 1, 0x3), "punch")
	check("punch")
	_, err = v.WriteFile(path, []byte("one"), 0)
	w.ok(err, "replace")
	check("replace")
	w.ok(v.Remove(path, false), "remove")
	w.write(path, "one")
	check("making it again")
	if e, err := v.Etag(w.node("/agents/web/workspace")); err != nil || e != "" {
		t.Errorf("a directory's: %q, %v", e, err)
	}
}

// TestPutIf: a write whose condition does not hold changes nothing and leaves
// nothing behind, where a file is replaced and where it is written in place.
func TestPutIf(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	put := func(path, text string, c view.Cond) (string, error) {
		f, etag, err := v.PutIf(path, strings.NewReader(text), 0, c)
		if err == nil {
			if now, err := v.Etag(f.Attr.Node); err != nil || now != etag {
				t.Errorf("%s: told %q, is %q, %v", path, etag, now, err)
			}
			if got, _, err := v.ReadFile(path, -1); err != nil || string(got) != text {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
		return etag, err
	}
	for _, path := range []string{"/agents/web/workspace/f", "/agents/web/session.md"} {
		if _, err := w.gaia.Resolve(path); err != nil {
			if _, err := put(path, "x", view.Cond{Match: "none"}); !errors.Is(err, backend.NotFound) {
				t.Errorf("%s: a match where nothing is: %v", path, err)
			}
			_, err = put(path, "first", view.Cond{Absent: true})
			w.ok(err, "put "+path)
		}
		one, err := put(path, "one", view.Cond{})
		w.ok(err, "put")
		two, err := put(path, "two", view.Cond{Match: one})
		w.ok(err, "put with its etag")
		for _, c := range []view.Cond{{Match: one}, {Match: "x"}} {
			if _, err := put(path, "bad", c); !errors.Is(err, backend.Conflict) {
				t.Errorf("%s, %+v: %v", path, c, err)
			}
			if _, _, err := v.AppendFile(path, []byte("bad"), 0, c); !errors.Is(err, backend.Conflict) {
				t.Errorf("%s, append, %+v: %v", path, c, err)
			}
		}
		if _, err := put(path, "bad", view.Cond{Absent: true}); !errors.Is(err, backend.Exist) {
			t.Errorf("%s: absent: %v", path, err)
		}
		_, three, err := v.AppendFile(path, []byte("+"), 0, view.Cond{Match: two})
		w.ok(err, "append")
		if got, _, err := v.ReadFile(path, -1); err != nil || string(got) != "two+" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		buf := make([]byte, 10)
		n, a, etag, err := v.ReadAt(w.node(path), buf, 1)
		if err != nil || string(buf[:n]) != "wo+" || a.Size != 4 || etag != three {
			t.Errorf("%s: %q, %d, %q, %v", path, buf[:n], a.Size, etag, err)
		}
	}
	names, err := v.Children(w.node("/agents/web/workspace"))
	if err != nil || len(names) != 1 {
		t.Errorf("left behind: %+v, %v", names, err)
	}
}

// TestPutIfCounts: many writers that read, add one and write if nobody was
// faster count every step.
func TestPutIfCounts(t *testing.T) {
	w := newWorld(t)
	const path, writers, steps = "/agents/web/workspace/n", 6, 25
	w.write(path, "0")
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			v := w.open("web")
			for done := 0; done < steps; {
				buf := make([]byte, 20)
				n, _, etag, err := v.ReadAt(w.node(path), buf, 0)
				if errors.Is(err, backend.NotFound) {
					continue // replaced between finding and reading
				}
				count, cerr := strconv.Atoi(string(buf[:n]))
				if err != nil || cerr != nil {
					t.Errorf("read: %v, %v", err, cerr)
					return
				}
				_, _, err = v.PutIf(path, strings.NewReader(strconv.Itoa(count+1)), 0, view.Cond{Match: etag})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, backend.Conflict) && !errors.Is(err, backend.NotFound):
					t.Errorf("write: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	if got, _, err := w.gaia.ReadFile(path, -1); err != nil || string(got) != strconv.Itoa(writers*steps) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAppendFileWhole: what several append at once, in pieces bigger than one
// write of the tree, stands there unmixed.
func TestAppendFileWhole(t *testing.T) {
	w := newWorld(t)
	const path, size = "/agents/web/workspace/log", backend.MaxPutBytes + 100
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			v := w.open("web")
			_, _, err := v.AppendFile(path, []byte(strings.Repeat(string(rune('a'+i)), size)), 0, view.Cond{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, _, err := w.gaia.ReadFile(path, -1)
	if err != nil || len(got) != 4*size {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i := 0; i < len(got); i += size {
		if n := strings.Count(string(got[i:i+size]), string(got[i])); n != size {
			t.Errorf("piece %d is mixed", i/size)
		}
	}
}

// TestChildrenNoteNothing: a walk sees what listing sees, tells what may be read,
// and leaves no denial.
func TestChildrenNoteNothing(t *testing.T) {
	w := newWorld(t)
	v := w.open("web")
	w.write("/agents/web/workspace/a", "text")
	w.mkdir("/agents/web/workspace/.d")
	before := len(w.space.Denials("web"))
	got, err := v.Children(w.node("/agents/web/workspace"))
	if err != nil || len(got) != 2 || got[1].Name != "a" || !got[1].Readable || got[1].Size != 4 || got[0].Readable {
		t.Errorf("%+v, %v", got, err)
	}
	for _, dir := range []string{"/", "/agents", "/agents/web", "/users"} {
		ch, err := v.Children(w.node(dir))
		if err != nil {
			continue
		}
		list, err := v.List(nil, w.node(dir))
		if err != nil || len(list) != len(ch) {
			t.Errorf("%s: %d children, %d names, %v", dir, len(ch), len(list), err)
		}
	}
	if after := len(w.space.Denials("web")); after != before {
		t.Errorf("%d denials", after-before)
	}
}
