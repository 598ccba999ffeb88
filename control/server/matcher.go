package server

import (
	"bytes"
	"context"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/warrenfs/warren/control"
)

// maxPattern bounds a pattern, in bytes.
const maxPattern = 4096

// matcher knows what is looked for. It may be used by several goroutines; each
// needs a finder of its own.
type matcher struct {
	re stoppable
	// prog passes over most lines that do not match, many times faster than re;
	// nil: there is none.
	prog *program
	// needs are texts of which every match has one, if some are known that are
	// worth looking for: nothing is faster.
	needs [][]byte
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
	m := &matcher{re: newStoppable(re, tree), prog: newProgram(tree)}
	m.plain = tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 && !slices.Contains(tree.Rune, '\n')
	if set := needed(tree.Simplify()); m.plain || m.prog == nil || len(set) <= maxRaced && shortest(set) >= minRaced {
		for _, n := range set {
			m.needs = append(m.needs, []byte(n))
		}
	}
	m.text, m.line = has(tree, syntax.OpBeginText, syntax.OpEndText), has(tree, syntax.OpEndLine)
	return m, nil
}

// To look for texts is faster than to run a program if they are few, and long
// enough to be rare.
const (
	maxRaced = 3
	minRaced = 3
)

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

// literal gives the text of a literal; none where case does not matter.
func literal(r *syntax.Regexp) string {
	if r.Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(r.Rune)
}

// finder looks for a matcher's lines in one text after the other. It is used by
// one goroutine.
type finder struct {
	ctx  context.Context // when it ends, what is found is nothing to go by
	m    *matcher
	scan *scanner
	at   []int // where each of needs is next; len(text): nowhere
}

func (m *matcher) finder(ctx context.Context) *finder {
	return &finder{ctx: ctx, m: m, scan: newScanner(m.prog), at: make([]int, len(m.needs))}
}

// lines calls found with the bounds of every line of text that matches, and of
// the match in it, until it says no.
func (f *finder) lines(text []byte, found func(from, to, at int) bool) {
	for i := range f.at {
		f.at[i] = -1
	}
	m := f.m
	each := m.text || m.line && bytes.Contains(text, []byte("\r\n"))
	for pos := 0; pos < len(text); {
		at := f.next(text, pos, each)
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
			continue
		}
		if len(m.needs) > 0 {
			if may, known := f.scan.next(line, 0); known && may < 0 {
				continue
			}
		}
		if loc := m.re.find(f.ctx, line); loc != nil && !found(from, from+len(line), from+loc[0]) {
			return
		}
	}
}

// next finds where, from pos on, the next line that may match has something of a
// match; -1: nowhere. pos is where a line begins. A line that matches is never
// passed over.
func (f *finder) next(text []byte, pos int, each bool) int {
	if len(f.m.needs) == 0 {
		if at, known := f.scan.next(text, pos); known {
			return at
		}
		if each {
			return pos
		}
		// A match in a line is one of the whole text too, and the first of those is
		// found.
		loc := f.m.re.find(f.ctx, text[pos:])
		if loc == nil {
			return -1
		}
		return pos + loc[0]
	}
	first := len(text)
	for i, need := range f.m.needs {
		if f.at[i] < pos {
			f.at[i] = len(text)
			if j := bytes.Index(text[pos:], need); j >= 0 {
				f.at[i] = pos + j
			}
		}
		first = min(first, f.at[i])
	}
	if first == len(text) {
		return -1
	}
	return first
}
