package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/scripts/waits"
)

// found makes a search and gives path:line:text of what it finds.
func (f *fixture) found(s control.Search) ([]string, control.Searched) {
	f.t.Helper()
	out := []string{}
	sum, err := f.client.Search(f.t.Context(), s, func(m control.Match) error {
		out = append(out, fmt.Sprintf("%s:%d:%s", strings.TrimPrefix(m.Path, "/agents/a/workspace/"), m.Line, m.Text))
		return nil
	})
	if err != nil {
		f.t.Fatalf("%+v: %v", s, err)
	}
	return out, sum
}

// TestSearch is the table of what is looked into and what is told.
func TestSearch(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for name, text := range map[string]string{
		"one.go": "package one\nfunc One() {}\n", "two.txt": "One\ntwo\r\nOne two\r\n", "sub/deep/three.go": "// One\n", "sub/x.txt": "x",
		".hidden/h.go": "One\n", "bin": "One\x00", "node_modules/m.go": "One\n", "big": strings.Repeat("One\n", 2<<20+1), "empty": "",
	} {
		if i := strings.LastIndexByte(name, '/'); i > 0 {
			if _, err := f.client.MakeDir(t.Context(), control.MakeDir{Agent: "a", Path: name[:i], Parents: true}); err != nil {
				t.Fatal(err)
			}
		}
		f.put("a", name, text)
	}
	f.link("a", "one.go", "one.link")
	for _, c := range []struct {
		s    control.Search
		want string
	}{
		{control.Search{Pattern: `func \w+`}, "one.go:2:func One() {} one.link:2:func One() {}"},
		{control.Search{Pattern: `^One$`, Globs: []string{"*.txt"}}, "two.txt:1:One"},
		{control.Search{Pattern: `two$`, Globs: []string{"*.txt"}}, "two.txt:2:two two.txt:3:One two"},
		{control.Search{Pattern: `One`, Globs: []string{"*.go"}}, "node_modules/m.go:1:One one.go:2:func One() {} sub/deep/three.go:1:// One"},
		{control.Search{Pattern: `One`, Globs: []string{"*.go", "!node_modules"}}, "one.go:2:func One() {} sub/deep/three.go:1:// One"},
		{control.Search{Pattern: `One`, Globs: []string{"*.go", "!node_modules/**", "!sub/*/*"}}, "one.go:2:func One() {}"},
		{control.Search{Pattern: `One`, Globs: []string{"sub/**"}}, "sub/deep/three.go:1:// One"},
		{control.Search{Pattern: `One`, Globs: []string{"**/three.{go,txt}"}}, "sub/deep/three.go:1:// One"},
		{control.Search{Pattern: `One`, Globs: []string{"t[h-w]?.txt"}}, "two.txt:1:One two.txt:3:One two"},
		{control.Search{Pattern: `One`, Hidden: true, Globs: []string{"h.go"}}, ".hidden/h.go:1:One"},
		{control.Search{Pattern: `one`, IgnoreCase: true, Paths: []string{"two.txt"}}, "two.txt:1:One two.txt:3:One two"},
		{control.Search{Pattern: `{}`, Literal: true, Paths: []string{"one.go"}}, "one.go:2:func One() {}"},
		{control.Search{Pattern: `One`, Paths: []string{"sub", "two.txt"}, PerFile: 1}, "sub/deep/three.go:1:// One two.txt:1:One"},
		{control.Search{Pattern: `nothing like it`}, ""},
	} {
		c.s.Agent = "a"
		got, sum := f.found(c.s)
		if strings.Join(got, " ") != c.want || sum.Matches != len(got) {
			t.Errorf("%+v: %q, want %s; %+v", c.s, got, c.want, sum)
		}
	}
	_, sum := f.found(control.Search{Agent: "a", Pattern: "One"})
	if want := (control.Searched{Files: 6, Matched: 5, Matches: 6, Binary: 1, Big: 1}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}
	got, sum := f.found(control.Search{Agent: "a", Pattern: "One", Limit: 2})
	if len(got) != 2 || !sum.Truncated {
		t.Errorf("limit 2: %q, %+v", got, sum)
	}
	for _, body := range []string{`{"agent":"a","pattern":"("}`, `{"agent":"a","pattern":""}`, `{"agent":"a","pattern":"x","context":21}`, `{"agent":"a","pattern":"x","context":-1}`,
		`{"agent":"a","pattern":"x","limit":10001}`, `{"agent":"a","pattern":"x","globs":["!"]}`, `{"agent":"a","pattern":"x","globs":["[z-a]"]}`, `{"agent":"a","pattern":"x","paths":[""]}`} {
		if code, text, _ := f.send("POST", "/v1/fs/search", strings.NewReader(body)); code != 400 {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}

// TestSearchContext: the lines around a match, at the ends of a file too.
func TestSearchContext(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.put("a", "f", "1\n2\r\nx3\r\n4\n\n6\nx7")
	var got []string
	_, err := f.client.Search(t.Context(), control.Search{Agent: "a", Pattern: "x", Context: 2}, func(m control.Match) error {
		got = append(got, fmt.Sprintf("%q|%s|%q", m.Before, m.Text, m.After))
		return nil
	})
	want := []string{`["1" "2"]|x3|["4" ""]`, `["" "6"]|x7|[]`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestSearchHides: what another agent has is not there, whether it exists or not;
// what may not be read is left out.
func TestSearchHides(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.soul("b")
	f.put("b", "secret", "needle\n")
	if err := f.client.AllowName(t.Context(), control.NameException{Name: ".env", Under: "/agents/a/workspace"}); err != nil {
		t.Fatal(err)
	}
	f.put("a", ".env", "needle\n")
	if err := f.client.DisallowName(t.Context(), control.NameException{Name: ".env", Under: "/agents/a/workspace"}); err != nil {
		t.Fatal(err)
	}
	f.put("a", "mine", "needle\n")
	for _, paths := range [][]string{{"/"}, {"/agents"}, nil} {
		got, sum := f.found(control.Search{Agent: "a", Pattern: "needle", Paths: paths, Hidden: true})
		if strings.Join(got, " ") != "mine:1:needle" || sum.Denied != 1 {
			t.Errorf("%v: %q, %+v", paths, got, sum)
		}
	}
	var texts [2]string
	for i, path := range []string{"/agents/b/workspace/secret", "/agents/b/workspace/nothing"} {
		_, err := f.client.Search(t.Context(), control.Search{Agent: "a", Pattern: "x", Paths: []string{path}}, nil)
		if control.KindOf(err) != control.KindNotFound {
			t.Errorf("%s: %v", path, err)
			continue
		}
		texts[i] = strings.ReplaceAll(err.Error(), path, "PATH")
	}
	if texts[0] != texts[1] {
		t.Errorf("hidden: %q, absent: %q", texts[0], texts[1])
	}
}

// TestSearchFindsEveryLine: random patterns in random texts find the lines that
// match one by one.
func TestSearchFindsEveryLine(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	atoms := []string{"a", "b", "ab", "k", "S", ".", `\w`, `\s`, "[ab]", "(a|bk)", "^", "$", `\b`, "é", "a?", "b*", "(ab)+", "x{2}", "a{1,2}", `\A`, `\z`, `\B`, `\.`, ",-", "(?i:aB)", "(?i)x", "bSa", "(ab|k|x)", "|S", "|ab|", "(?i:k|bb|é)"}
	pieces := []string{"a", "b", "ab", "k", "S", "s", "K", " ", "é", "xx", ".", ",-", "\n", "\n", "\r\n", "\u212a"}
	for i := range 3000 {
		var text, pattern strings.Builder
		for range r.IntN(30) {
			text.WriteString(pieces[r.IntN(len(pieces))])
		}
		for range 1 + r.IntN(4) {
			pattern.WriteString(atoms[r.IntN(len(atoms))])
		}
		c := control.Search{Pattern: pattern.String(), IgnoreCase: r.IntN(2) == 0}
		m, err := newMatcher(&c)
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, m, text.String(), fmt.Sprintf("case %d, %+v", i, c))
	}
}

// sameLines fails unless m finds in a text what its regular expression finds in
// its lines, one by one.
func sameLines(t *testing.T, m *matcher, text, what string) {
	t.Helper()
	var want, got []string
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for _, l := range lines {
		l = strings.TrimSuffix(l, "\r")
		if loc := m.re.re.FindStringIndex(l); loc != nil {
			want = append(want, fmt.Sprint(l, loc[0]))
		}
	}
	b := []byte(text)
	f := m.finder(t.Context())
	for range 2 { // the second time with all that was learned
		got = got[:0]
		f.lines(b, func(from, to, at int) bool { got = append(got, fmt.Sprint(string(b[from:to]), at-from)); return true })
		if !slices.Equal(got, want) {
			t.Fatalf("%s in %.2000q: %q, want %q", what, b, got, want)
		}
	}
}

// TestSearchOfManyStates: a pattern whose states are too many to be remembered
// finds what it should, whether they are forgotten and made again or given up,
// and so does one that is too big for a program.
func TestSearchOfManyStates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	mixed := func(n, gap int) string {
		var text strings.Builder
		for i := range n {
			text.WriteByte("ab"[r.IntN(2)])
			if i%97 == 0 {
				text.WriteString("\xc3\xa9\n")
			}
			if i%97 == 50 {
				text.WriteString(strings.Repeat("c", gap))
			}
		}
		return text.String()
	}
	dense, sparse := mixed(1<<16, 0), mixed(1<<16, 6000)
	for _, c := range []struct {
		pattern, text string
		off, full     bool
	}{
		{`a[ab]{18}é`, dense, true, true},
		{`a[ab]{18}é`, sparse, false, true},
		{`b[ab]{3}é$`, dense, false, false},
		{`a\pL{900}\pL{900}|baba`, dense, true, false},
	} {
		if testing.Short() && len(c.text) > 1<<20 {
			continue
		}
		m, err := newMatcher(&control.Search{Pattern: c.pattern})
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, m, c.text, c.pattern)
		f := m.finder(t.Context())
		f.lines([]byte(c.text), func(_, _, _ int) bool { return true })
		if f.scan.off != c.off || (f.scan.forgot > 0) != c.full {
			t.Errorf("%s in %d bytes: off %v, forgot %d times", c.pattern, len(c.text), f.scan.off, f.scan.forgot)
		}
	}
}

// FuzzSearch: any pattern finds in any text what its lines match one by one.
func FuzzSearch(f *testing.F) {
	f.Add(`a|\bb$`, "ab\r\nb\n", false)
	f.Add(`[^a-y]{2}\x{2028}|[\x{800}-\x{fffd}]`, "\xff\xe2\x80\xa8z", true)
	f.Add(`(?s:k.+?)\Bs|\A\z|^x*`, "\u212a\u017f\n\n", true)
	f.Fuzz(func(t *testing.T, pattern, text string, fold bool) {
		if len(text) > 4096 || len(pattern) > 64 {
			return
		}
		if m, err := newMatcher(&control.Search{Pattern: pattern, IgnoreCase: fold}); err == nil {
			sameLines(t, m, text, pattern)
		}
	})
}

// TestSearchEnds: a client that gives up ends the search.
func TestSearchEnds(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for i := range 200 {
		f.put("a", fmt.Sprint("f", i), strings.Repeat("needle\n", 3000))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := f.client.Search(ctx, control.Search{Agent: "a", Pattern: "needle", Limit: 10000, Context: 20}, func(control.Match) error {
			cancel()
			return nil
		})
		done <- err
	}()
	select {
	case err := <-done:
		if control.KindOf(err) != control.KindInterrupted {
			t.Errorf("%v", err)
		}
	case <-waits.After(t, time.Minute):
		t.Fatal("it goes on")
	}
}
