package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/control"
)

// put writes a file and gives its etag.
func (f *fixture) put(agent, path, text string) string {
	f.t.Helper()
	n, err := f.client.Write(f.t.Context(), agent, path, strings.NewReader(text), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return n.Etag
}

// get reads a whole file.
func (f *fixture) get(agent, path string) string {
	f.t.Helper()
	var b strings.Builder
	if err := f.client.Read(f.t.Context(), agent, path, &b); err != nil {
		f.t.Fatal(err)
	}
	return b.String()
}

// wantPart is what a piece of text must be, straight from the definition.
func wantPart(text string, p control.Part) (data string, offset, line, lines int) {
	if p.Line == 0 {
		from := min(int(p.Offset), len(text))
		to := min(from+int(p.Length), len(text))
		return text[from:to], int(p.Offset), 0, 0
	}
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	if p.Line > len(all) {
		return "", len(text), len(all) + 1, len(all)
	}
	for _, l := range all[:p.Line-1] {
		offset += len(l)
	}
	n := 0
	for i, l := range all[p.Line-1:] {
		if i == p.Lines && p.Lines > 0 {
			break
		}
		if n+len(l) > int(p.Length) {
			if i == 0 {
				n = int(p.Length)
			}
			break
		}
		n += len(l)
	}
	data = text[offset : offset+n]
	if offset+len(data) == len(text) {
		lines = len(all)
	}
	return data, offset, p.Line, lines
}

// TestPieces: parts of files by bytes and by lines, against the definition.
func TestPieces(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "\n", "x", "x\n", "x\ny", "\n\n\n", "a\r\nb\r\n", strings.Repeat("long line "+strings.Repeat("x", 90)+"\n", 25000)}
	for range 10 {
		var b strings.Builder
		for range r.IntN(40) {
			b.WriteString(strings.Repeat("ab\n", r.IntN(3)) + strings.Repeat("é", r.IntN(20)))
		}
		texts = append(texts, b.String())
	}
	for i, text := range texts {
		etag := f.put("a", "f", text)
		for range 25 {
			p := control.Part{Offset: uint64(r.IntN(len(text) + 3)), Length: uint64(1 + r.IntN(len(text)+20))}
			if r.IntN(2) == 0 {
				p = control.Part{Line: 1 + r.IntN(strings.Count(text, "\n")+3), Lines: r.IntN(6), Length: p.Length}
			}
			got, err := f.client.ReadPiece(t.Context(), "a", "f", p)
			if err != nil {
				t.Fatalf("text %d, %+v: %v", i, p, err)
			}
			data, offset, line, lines := wantPart(text, p)
			if string(got.Data) != data || int(got.Offset) != offset || got.Line != line || got.Lines != lines {
				t.Errorf("text %d, %+v: %.60q at %d, line %d of %d; want %.60q at %d, line %d of %d", i, p,
					got.Data, got.Offset, got.Line, got.Lines, data, offset, line, lines)
			}
			if got.Etag != etag || got.Size != uint64(len(text)) || got.Path != "/agents/a/workspace/f" || got.Mode != "0644" {
				t.Errorf("text %d: %+v, want etag %s and size %d", i, got, etag, len(text))
			}
		}
	}
	for _, q := range []string{"offset=x", "offset=-1", "length=0", "length=99999999", "line=0", "line=1&offset=1", "lines=2", "line=1&lines=0"} {
		if code, text, _ := f.send("GET", "/v1/fs/content?agent=a&path=f&"+q, nil); code != 400 {
			t.Errorf("%s: %d %s", q, code, text)
		}
	}
}

// TestConditions: what an etag, no_clobber and append mean, and what a refusal
// tells.
func TestConditions(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	one := f.put("a", "f", "one")
	write := func(text string, w control.Writing) (control.Node, error) {
		return f.client.WriteIf(t.Context(), "a", "f", strings.NewReader(text), w)
	}
	two, err := write("two", control.Writing{IfMatch: one, Mode: 0o755})
	if err != nil || two.Mode != "0755" {
		t.Fatalf("%+v, %v", two, err)
	}
	for _, w := range []control.Writing{{IfMatch: one}, {IfMatch: one, Append: true}, {NoClobber: true}, {NoClobber: true, Append: true}} {
		_, err := write("bad", w)
		var e *control.Error
		if !errors.As(err, &e) || e.Kind != control.KindConflict {
			t.Errorf("%+v: %v", w, err)
		} else if w.IfMatch != "" && e.Details["etag"] != two.Etag {
			t.Errorf("%+v: details %v, want etag %s", w, e.Details, two.Etag)
		}
	}
	three, err := write("+", control.Writing{IfMatch: two.Etag, Append: true})
	if err != nil || three.Size != 4 || three.Mode != "0755" || f.get("a", "f") != "two+" {
		t.Errorf("%+v, %v, %q", three, err, f.get("a", "f"))
	}
	st, err := f.client.Stat(t.Context(), "a", "f", false)
	if err != nil || st.Etag != three.Etag {
		t.Errorf("%+v, %v", st, err)
	}
	ls, err := f.client.List(t.Context(), "a", ".")
	if err != nil || len(ls) != 1 || ls[0].Etag != three.Etag {
		t.Errorf("%+v, %v", ls, err)
	}
	if err := f.client.ReadIf(t.Context(), "a", "f", one, &strings.Builder{}); control.KindOf(err) != control.KindConflict {
		t.Errorf("read: %v", err)
	}
	if _, err := f.client.ReadPiece(t.Context(), "a", "f", control.Part{IfMatch: one}); control.KindOf(err) != control.KindConflict {
		t.Errorf("read a piece: %v", err)
	}
	if _, err := f.client.WriteIf(t.Context(), "a", "none", strings.NewReader("x"), control.Writing{IfMatch: one}); control.KindOf(err) != control.KindNotFound {
		t.Errorf("a match where nothing is: %v", err)
	}
	if n, err := f.client.WriteIf(t.Context(), "a", "new", strings.NewReader("x"), control.Writing{Append: true, NoClobber: true}); err != nil || n.Size != 1 {
		t.Errorf("append to a new file: %+v, %v", n, err)
	}
}

// TestListPages: pages put together are the whole, whatever the limit.
func TestListPages(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for i := range 23 {
		f.put("a", fmt.Sprintf("d%02d", i), "")
	}
	for _, limit := range []int{1, 5, 23, 24, 1000} {
		after, names := "", []string{}
		for {
			page, err := f.client.ListPage(t.Context(), "a", ".", after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range page {
				names = append(names, n.Name)
				after = n.Name
			}
			if len(page) < limit {
				break
			}
		}
		if len(names) != 23 || names[0] != "d00" || names[22] != "d22" {
			t.Errorf("limit %d: %v", limit, names)
		}
	}
	if code, _, _ := f.send("GET", "/v1/fs/list?agent=a&path=.&limit=0", nil); code != 400 {
		t.Errorf("limit 0: %d", code)
	}
}

// TestEdit is the table of edits.
func TestEdit(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	one := func(from, to string) []control.Replacement { return []control.Replacement{{Old: from, New: to}} }
	for _, c := range []struct {
		name, text string
		edits      []control.Replacement
		want       string
		kind       control.Kind
		matches    float64
	}{
		{"one", "a\nb\nc\n", one("b", "B"), "a\nB\nc\n", "", 0},
		{"over lines", "a\nb\nc\n", one("a\nb\n", ""), "c\n", "", 0},
		{"not there", "a\n", one("b", "c"), "", control.KindConflict, 0},
		{"twice", "aa\na", one("a", "b"), "", control.KindConflict, 3},
		{"all", "aa\na", []control.Replacement{{Old: "a", New: "bb", All: true}}, "bbbb\nbb", "", 0},
		{"one after the other", "a", []control.Replacement{{Old: "a", New: "b"}, {Old: "b", New: "c"}}, "c", "", 0},
		{"all or none", "a", []control.Replacement{{Old: "a", New: "b"}, {Old: "x", New: "c"}}, "", control.KindConflict, 0},
		{"CRLF kept", "a\r\nb\r\nc\r\n", one("a\nb\n", "x\ny\n"), "x\r\ny\r\nc\r\n", "", 0},
		{"CRLF said", "a\r\nb\r\n", one("a\r\n", "x\r\n"), "x\r\nb\r\n", "", 0},
		{"mixed ends", "a\r\nb\n", one("b\n", "c\n"), "a\r\nc\n", "", 0},
		{"no end", "a\nb", one("b", "c"), "a\nc", "", 0},
		{"bytes", "\xff\x00a", one("a", "b"), "\xff\x00b", "", 0},
		{"nothing to look for", "a", one("", "b"), "", control.KindInvalid, 0},
		{"nothing to do", "a", one("a", "a"), "", control.KindInvalid, 0},
		{"no edits", "a", nil, "", control.KindInvalid, 0},
	} {
		n, err := f.client.Write(t.Context(), "a", "f", strings.NewReader(c.text), 0o751)
		if err != nil {
			t.Fatal(err)
		}
		e := control.Edit{Agent: "a", Path: "f", Edits: c.edits, DryRun: true}
		dry, derr := f.client.Edit(t.Context(), e)
		if got := f.get("a", "f"); got != c.text {
			t.Errorf("%s: a dry run has written %q", c.name, got)
		}
		e.DryRun = false
		got, err := f.client.Edit(t.Context(), e)
		if c.kind != "" {
			var e *control.Error
			if !errors.As(err, &e) || e.Kind != c.kind || derr == nil || derr.Error() != err.Error() {
				t.Errorf("%s: %v, dry %v", c.name, err, derr)
			} else if c.kind == control.KindConflict && e.Details["matches"] != c.matches {
				t.Errorf("%s: %v", c.name, e.Details)
			}
			if got := f.get("a", "f"); got != c.text {
				t.Errorf("%s: refused, and written %q", c.name, got)
			}
			continue
		}
		if err != nil || derr != nil || f.get("a", "f") != c.want || got.Mode != "0751" || got.Etag == n.Etag || dry.Etag != n.Etag {
			t.Errorf("%s: %q, %+v, %v, dry %+v, %v", c.name, f.get("a", "f"), got, err, dry, derr)
		}
		if dry.Diff != got.Diff || c.name != "bytes" && patched(t, c.text, got.Diff) != c.want {
			t.Errorf("%s: diff\n%s\ndry run's\n%s", c.name, got.Diff, dry.Diff)
		}
	}
	f.put("a", "f", "x")
	if _, err := f.client.Edit(t.Context(), control.Edit{Agent: "a", Path: "f", Edits: one("x", "y"), IfMatch: "old"}); control.KindOf(err) != control.KindConflict {
		t.Errorf("another etag: %v", err)
	}
}

// TestEditsAreNotLost: many edit one file, each its own line, while others add
// to its end.
func TestEditsAreNotLost(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	const writers, steps = 5, 10
	var text strings.Builder
	for i := range writers {
		fmt.Fprintf(&text, "<%d:0>\n", i)
	}
	f.put("a", "f", text.String())
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range steps {
				e := control.Edit{Agent: "a", Path: "f", Edits: []control.Replacement{{Old: fmt.Sprintf("<%d:%d>", i, n), New: fmt.Sprintf("<%d:%d>", i, n+1)}}}
				for {
					_, err := f.client.Edit(t.Context(), e)
					var c *control.Error
					if errors.As(err, &c) && c.Kind == control.KindConflict && c.Details["matches"] == nil {
						continue // others were faster too often
					}
					if err != nil {
						t.Errorf("writer %d, step %d: %v", i, n, err)
					}
					break
				}
			}
		})
	}
	all.Wait()
	want := strings.ReplaceAll(text.String(), ":0>", fmt.Sprintf(":%d>", steps))
	if got := f.get("a", "f"); got != want {
		t.Errorf("%q", got)
	}
}

// patched applies a unified diff, and checks what it takes away.
func patched(t *testing.T, text, diff string) string {
	t.Helper()
	old := splitLines([]byte(text))
	var out strings.Builder
	at := 0
	lines := strings.SplitAfter(diff, "\n")
	for i := 2; i < len(lines); i++ {
		l := lines[i]
		if l == "" {
			break
		}
		body := l[1:]
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], `\`) {
			body = strings.TrimSuffix(body, "\n")
		}
		switch l[0] {
		case '@':
			var from, n int
			head := strings.Split(l, " ")[1]
			if _, err := fmt.Sscanf(head, "-%d,%d", &from, &n); err != nil {
				n = 1
			}
			if n > 0 {
				from--
			}
			for ; at < from; at++ {
				out.Write(old[at])
			}
		case ' ', '-':
			if string(old[at]) != body {
				t.Errorf("the diff has %q where the text has %q", body, old[at])
			}
			if l[0] == ' ' {
				out.Write(old[at])
			}
			at++
		case '+':
			out.WriteString(body)
		}
	}
	for ; at < len(old); at++ {
		out.Write(old[at])
	}
	return out.String()
}

// TestUnified: of random texts the diff leads from one to the other.
func TestUnified(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 400 {
		var a, b strings.Builder
		for range r.IntN(60) {
			l := fmt.Sprintln(r.IntN(12))
			if r.IntN(6) > 0 {
				a.WriteString(l)
			}
			if r.IntN(6) > 0 {
				b.WriteString(l)
			}
		}
		x, y := a.String(), b.String()
		if r.IntN(3) == 0 {
			x = strings.TrimSuffix(x, "\n")
		}
		diff, cut := unified("f", []byte(x), []byte(y), 1<<20)
		if cut || (diff == "") != (x == y) || diff != "" && patched(t, x, diff) != y {
			t.Fatalf("case %d: %q to %q:\n%s", i, x, y, diff)
		}
	}
	long := strings.Repeat("x\n", 5000)
	if diff, cut := unified("f", []byte(long), []byte(strings.Repeat("y\n", 5000)), 1<<20); cut || strings.Count(diff, "\n-") < 4990 {
		t.Errorf("%d bytes, %v", len(diff), cut)
	}
	if diff, cut := unified("f", []byte(long), []byte("y\n"), 100); !cut || len(diff) > 100 {
		t.Errorf("%d bytes, %v", len(diff), cut)
	}
}
