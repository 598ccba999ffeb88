package server

import (
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// maxUnstopped bounds a match that cannot be stopped, in instructions times bytes: the
// longest that package regexp may go on for is some seconds then.
const maxUnstopped = 1 << 28

// stoppable matches so that it ends with a context: what an agent asks for may be
// a pattern of 100,000 instructions in a line of megabytes, and that would go on for
// hours after everybody who wanted it is gone.
type stoppable struct {
	re   *regexp.Regexp
	size int // instructions
}

func newStoppable(re *regexp.Regexp, tree *syntax.Regexp) stoppable {
	s := stoppable{re: re, size: 1}
	if prog, err := syntax.Compile(tree.Simplify()); err == nil {
		s.size = len(prog.Inst)
	}
	return s
}

// find is FindIndex. When ctx has ended it gives anything.
func (s stoppable) find(ctx context.Context, text []byte) []int {
	if len(text) < maxUnstopped/s.size {
		return s.re.FindIndex(text)
	}
	return s.re.FindReaderIndex(&stoppableRunes{ctx: ctx, text: text})
}

// stoppableRunes are the runes of a text, until ctx ends.
type stoppableRunes struct {
	ctx  context.Context
	text []byte
	n    uint
}

// ReadRune implements io.RuneReader.
func (r *stoppableRunes) ReadRune() (rune, int, error) {
	r.n++
	if len(r.text) == 0 || r.n%16 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRune(r.text)
	r.text = r.text[size:]
	return c, size, nil
}
