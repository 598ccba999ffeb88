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
	// need is a piece of text that every match has, if one is known: to look for
	// it is many times cheaper than to run re.
	need []byte
	// plain: need is all there is to a match.
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
	m := &matcher{re: re, need: []byte(needed(tree.Simplify()))}
	m.plain = tree.Op == syntax.OpLiteral && len(m.need) == len(string(tree.Rune)) && !bytes.Contains(m.need, newline)
	m.text, m.line = has(tree, syntax.OpBeginText, syntax.OpEndText), has(tree, syntax.OpEndLine)
	return m, nil
}

// has tells whether one of ops is in r.
func has(r *syntax.Regexp, ops ...syntax.Op) bool {
	return slices.Contains(ops, r.Op) || slices.ContainsFunc(r.Sub, func(sub *syntax.Regexp) bool { return has(sub, ops...) })
}

// needed gives the longest text that every match of r has in it; "" if none is
// known.
func needed(r *syntax.Regexp) string {
	switch r.Op {
	case syntax.OpLiteral:
		return literal(r)
	case syntax.OpCapture, syntax.OpPlus:
		return needed(r.Sub[0])
	case syntax.OpRepeat:
		if r.Min > 0 {
			return needed(r.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range r.Sub {
			if s := needed(sub); len(s) > len(best) {
				best = s
			}
		}
		return best
	}
	return ""
}

// literal gives the text of a literal, or where case does not matter its longest
// run without letters.
func literal(r *syntax.Regexp) string {
	text := string(r.Rune)
	if r.Flags&syntax.FoldCase == 0 {
		return text
	}
	best := ""
	for _, run := range strings.FieldsFunc(text, func(c rune) bool { return c >= utf8.RuneSelf || 'a' <= c|0x20 && c|0x20 <= 'z' }) {
		if len(run) > len(best) {
			best = run
		}
	}
	return best
}

// lines calls found with the bounds of every line of text that matches, and of
// the match in it, until it says no.
func (m *matcher) lines(text []byte, found func(from, to, at int) bool) {
	each := len(m.need) == 0 && (m.text || m.line && bytes.Contains(text, []byte("\r\n")))
	for pos := 0; pos < len(text); {
		at := 0
		if !each {
			at = m.next(text[pos:])
		}
		if at < 0 {
			return
		}
		at += pos
		if at == len(text) && text[at-1] == '\n' {
			return // after the last line
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

// next finds where the next line that may match has something of a match; -1:
// nowhere. A line that matches is never passed over: its match is one of the
// whole text too, and the first of those is found.
func (m *matcher) next(text []byte) int {
	if len(m.need) > 0 {
		return bytes.Index(text, m.need)
	}
	loc := m.re.FindIndex(text)
	if loc == nil {
		return -1
	}
	return loc[0]
}
