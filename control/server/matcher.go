package server

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warrenfs/warren/control"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 4096

// matcher finds the lines of a text that match. It may be used by several
// goroutines.
type matcher struct {
	re *regexp.Regexp
	// needs are texts of which every match has one, if some are known: to look for
	// them is many times cheaper than to run re.
	needs [][]byte
	// fold: needs are in lower case, and are looked for in a copy of the text that has
	// its ASCII letters so.
	fold bool
	// plain: the one of needs is all there is to a match.
	plain bool
	// text and line: re asks for the beginning or end of the text, or for the end
	// of a line. A search in the whole text would then pass over lines that match
	// by themselves: all, or those that end with CRLF.
	text, line bool
}

func newMatcher(c *control.Search) (*matcher, error) {
	p := c.Pattern
	if p == "" || len(p) > maxPattern {
		return nil, invalid("search: for what? the pattern has 1 to %d bytes", maxPattern)
	}
	if c.Literal {
		p = regexp.QuoteMeta(p)
	}
	flags := "(?m)"
	if c.IgnoreCase {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + p)
	if err != nil {
		return nil, invalid("pattern: %v", err)
	}
	tree, err := syntax.Parse(flags+p, syntax.Perl)
	if err != nil {
		return nil, invalid("pattern: %v", err)
	}
	m := &matcher{re: re, fold: folds(tree)}
	for _, n := range needed(tree.Simplify()) {
		b := []byte(n)
		if m.fold {
			lower(b, b)
		}
		m.needs = append(m.needs, b)
	}
	m.plain = !m.fold && tree.Op == syntax.OpLiteral && !slices.Contains(tree.Rune, '\n')
	m.text, m.line = has(tree, syntax.OpBeginText, syntax.OpEndText), has(tree, syntax.OpEndLine)
	return m, nil
}

// folds tells whether the case of some letter in r does not matter.
func folds(r *syntax.Regexp) bool {
	return r.Op == syntax.OpLiteral && r.Flags&syntax.FoldCase != 0 || slices.ContainsFunc(r.Sub, folds)
}

// lower copies src to dst with its ASCII letters in lower case.
func lower(dst, src []byte) {
	for i, c := range src {
		dst[i] = lowered[c]
	}
}

// lowered maps bytes to what they are with ASCII letters in lower case.
var lowered = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] |= 0x20
		}
	}
	return t
}()

// has tells whether one of ops is in r.
func has(r *syntax.Regexp, ops ...syntax.Op) bool {
	return slices.Contains(ops, r.Op) || slices.ContainsFunc(r.Sub, func(sub *syntax.Regexp) bool { return has(sub, ops...) })
}

// maxNeeds bounds how many texts are looked for.
const maxNeeds = 16

// needed gives texts of which every match of r has one; none if none are known.
// Of several such sets it takes the one whose shortest text is longest.
func needed(r *syntax.Regexp) []string {
	switch r.Op {
	case syntax.OpLiteral:
		if text := literal(r); text != "" {
			return []string{text}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(r.Sub[0])
	case syntax.OpRepeat:
		if r.Min > 0 {
			return needed(r.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range r.Sub {
			if set := needed(sub); shortest(set) > shortest(best) {
				best = set
			}
		}
		return best
	case syntax.OpAlternate:
		var union []string
		for _, sub := range r.Sub {
			set := needed(sub)
			if len(set) == 0 || len(union)+len(set) > maxNeeds {
				return nil
			}
			union = append(union, set...)
		}
		return union
	}
	return nil
}

// shortest is the length of the shortest of a set's texts, 0 of none.
func shortest(set []string) int {
	n := 0
	for i, s := range set {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}

// literal gives the text of a literal, or where case does not matter its longest
// run of ASCII that only ASCII is the other case of: K is also the Kelvin sign's
// and S the long s's.
func literal(r *syntax.Regexp) string {
	text := string(r.Rune)
	if r.Flags&syntax.FoldCase == 0 {
		return text
	}
	best := ""
	for _, run := range strings.FieldsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf || c|0x20 == 'k' || c|0x20 == 's' }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

// lines calls found with the bounds of every line of text that matches, and of
// the match in it, until it says no.
func (m *matcher) lines(text []byte, found func(from, to, at int) bool) {
	c := m.candidates(text)
	for pos := 0; pos < len(text); {
		at := c.next(pos)
		if at < 0 || at == len(text) && text[at-1] == '\n' { // after the last line
			return
		}
		from := bytes.LastIndexByte(text[:at], '\n') + 1
		to := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			to = at + i
		}
		pos = to + 1
		line := bytes.TrimSuffix(text[from:to], []byte("\r"))
		if m.plain {
			if !found(from, from+len(line), at) {
				return
			}
		} else if loc := m.re.FindIndex(line); loc != nil && !found(from, from+len(line), from+loc[0]) {
			return
		}
	}
}

// candidates finds where the lines of a text may match.
type candidates struct {
	m    *matcher
	text []byte // what is looked in
	each bool   // every line may
	at   []int  // where each of needs is next; len(text): nowhere
}

func (m *matcher) candidates(text []byte) candidates {
	c := candidates{m: m, text: text, at: make([]int, len(m.needs))}
	c.each = len(m.needs) == 0 && (m.text || m.line && bytes.Contains(text, []byte("\r\n")))
	if m.fold && len(m.needs) > 0 {
		c.text = make([]byte, len(text))
		lower(c.text, text)
	}
	for i := range c.at {
		c.at[i] = -1
	}
	return c
}

// next finds where, from pos on, the next line that may match has something of a
// match; -1: nowhere. A line that matches is never passed over: its match is one of
// the whole text too, and the first of those is found.
func (c *candidates) next(pos int) int {
	if c.each {
		return pos
	}
	if len(c.m.needs) == 0 {
		loc := c.m.re.FindIndex(c.text[pos:])
		if loc == nil {
			return -1
		}
		return pos + loc[0]
	}
	first := len(c.text)
	for i, need := range c.m.needs {
		if c.at[i] < pos {
			c.at[i] = len(c.text)
			if j := bytes.Index(c.text[pos:], need); j >= 0 {
				c.at[i] = pos + j
			}
		}
		first = min(first, c.at[i])
	}
	if first == len(c.text) {
		return -1
	}
	return first
}
