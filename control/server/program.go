package server

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// program is a pattern as a machine over the bytes of a line. It takes every line
// that the pattern matches, and few others: characters beyond ASCII are told apart
// by ranges of their bytes, and what is no UTF-8 passes for any that the pattern
// takes as U+FFFD.
type program struct {
	nodes   []node
	start   int32
	begins  bool        // it asks where a line begins
	words   bool        // it asks where words begin or end
	class   [256]uint16 // bytes of one class are never told apart
	classes int         // of bytes; the end of the text is one more
	sample  []int       // a byte of each class; atEnd for the end
}

// atEnd stands for the end of the text where a byte is meant.
const atEnd = 256

// node is one place of a program. What can be reached without a byte, by split
// and look, is reached at once.
type node struct {
	kind     nodeKind
	lo, hi   byte           // nodeByte: what is taken
	look     syntax.EmptyOp // nodeLook: what must hold here
	out, alt int32          // where it goes on
}

type nodeKind uint8

const (
	nodeFail  nodeKind = iota
	nodeByte           // takes one byte
	nodeSplit          // goes on at out and at alt
	nodeLook           // goes on at out where look holds
	nodeMatch
)

// maxNodes bounds a program; a pattern that needs more has none.
const maxNodes = 20000

// newProgram makes the program of a pattern, or nil.
func newProgram(tree *syntax.Regexp) *program {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil || len(prog.Inst) > maxNodes {
		return nil
	}
	p := &program{nodes: make([]node, len(prog.Inst)), start: int32(prog.Start)}
	for i := range prog.Inst {
		in := &prog.Inst[i]
		n := node{out: int32(in.Out)}
		switch in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			n.kind, n.alt = nodeSplit, int32(in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			n.kind, n.alt = nodeSplit, n.out
		case syntax.InstMatch:
			n.kind = nodeMatch
		case syntax.InstEmptyWidth:
			n.kind, n.look = nodeLook, syntax.EmptyOp(in.Arg)
			p.begins = p.begins || n.look&(syntax.EmptyBeginLine|syntax.EmptyBeginText) != 0
			p.words = p.words || n.look&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			p.takes(i, in)
			continue
		}
		p.nodes[i] = n
	}
	if len(p.nodes) > maxNodes {
		return nil
	}
	p.classify()
	return p
}

// takes makes node i take the characters of an instruction.
func (p *program) takes(i int, in *syntax.Inst) {
	var heads []int32
	set := runes(in)
	for k := 0; k+1 < len(set) && len(p.nodes) <= maxNodes; k += 2 {
		heads = p.span(heads, set[k], set[k+1], int32(in.Out))
	}
	// Of several heads a chain of splits is made, which ends in the last of them.
	for len(heads) > 2 {
		last := len(heads) - 1
		heads[last-1] = p.add(node{kind: nodeSplit, out: heads[last-1], alt: heads[last]})
		heads = heads[:last]
	}
	switch len(heads) {
	case 1:
		p.nodes[i] = p.nodes[heads[0]]
	case 2:
		p.nodes[i] = node{kind: nodeSplit, out: heads[0], alt: heads[1]}
	}
}

func (p *program) add(n node) int32 {
	p.nodes = append(p.nodes, n)
	return int32(len(p.nodes) - 1)
}

// runes lists what an instruction takes, as pairs of a first and a last one.
func runes(in *syntax.Inst) []rune {
	switch {
	case in.Op == syntax.InstRuneAny || in.Op == syntax.InstRuneAnyNotNL:
		return []rune{0, unicode.MaxRune}
	case len(in.Rune) != 1:
		return in.Rune
	}
	r := in.Rune[0]
	out := []rune{r, r}
	if in.Op == syntax.InstRune && syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			out = append(out, f, f)
		}
	}
	return out
}

// span adds nodes that take the characters from lo to hi and go on at out, and
// gives their heads besides the given ones.
func (p *program) span(heads []int32, lo, hi rune, out int32) []int32 {
	if lo <= utf8.RuneError && utf8.RuneError <= hi {
		heads = append(heads, p.add(node{kind: nodeByte, lo: utf8.RuneSelf, hi: 0xff, out: out}))
	}
	from := rune(0)
	for _, last := range []rune{0x7f, 0x7ff, 0xffff, unicode.MaxRune} { // of so many bytes
		if a, z := max(lo, from), min(hi, last); a <= z {
			heads = append(heads, p.bytes(a, z, out))
		}
		from = last + 1
	}
	return heads
}

// bytes adds nodes that take the characters from lo to hi, of equal length, and
// maybe some that begin as these do.
func (p *program) bytes(lo, hi rune, out int32) int32 {
	a, z := utf8Bytes(lo), utf8Bytes(hi)
	same := 0
	for same < len(a)-1 && a[same] == z[same] {
		same++
	}
	for i := len(a) - 1; i >= 0; i-- {
		n := node{kind: nodeByte, lo: a[i], hi: z[i], out: out}
		if i > same {
			n.lo, n.hi = 0x80, 0xbf
		}
		out = p.add(n)
	}
	return out
}

// utf8Bytes encodes a rune; a surrogate, which no text has, as its bits would be.
func utf8Bytes(r rune) []byte {
	if utf8.ValidRune(r) {
		return utf8.AppendRune(nil, r)
	}
	return []byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f}
}

// classify finds out which bytes are never told apart.
func (p *program) classify() {
	var begins [atEnd + 1]bool // a class, at this byte
	mark := func(lo, hi byte) { begins[lo], begins[int(hi)+1] = true, true }
	mark('\n', '\n')
	mark('\r', '\r')
	if p.words {
		mark('0', '9')
		mark('A', 'Z')
		mark('_', '_')
		mark('a', 'z')
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.kind == nodeByte {
			mark(n.lo, n.hi)
		}
	}
	p.sample = []int{0}
	for b := range p.class {
		if b > 0 && begins[b] {
			p.sample = append(p.sample, b)
		}
		p.class[b] = uint16(len(p.sample) - 1)
	}
	p.classes = len(p.sample)
	p.sample = append(p.sample, atEnd)
}

// holds tells which questions about a place have the answer yes, between what
// came before it and byte b.
func (p *program) holds(begin, wordBefore bool, b int) syntax.EmptyOp {
	op := syntax.EmptyNoWordBoundary
	if wordBefore != isWord(b) {
		op = syntax.EmptyWordBoundary
	}
	if begin {
		op |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if b == '\n' || b == '\r' || b == atEnd {
		op |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	return op
}

func isWord(b int) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}

// reached is a set of nodes that is filled again and again.
type reached struct {
	p     *program
	seen  []uint32 // in which turn a node was reached
	turn  uint32
	stack []int32
	work  int // nodes that were looked at, ever
}

func newReached(p *program) *reached { return &reached{p: p, seen: make([]uint32, len(p.nodes))} }

// begin empties the set.
func (r *reached) begin() {
	if r.turn++; r.turn == 0 {
		clear(r.seen)
		r.turn = 1
	}
}

// from adds what is reached from node at without a byte, where op holds, and
// calls found with what is there: nodes that take a byte, that match, and those
// that look for what does not hold.
func (r *reached) from(at int32, op syntax.EmptyOp, found func(i int32, n *node)) {
	r.stack = append(r.stack[:0], at)
	for len(r.stack) > 0 {
		last := len(r.stack) - 1
		i := r.stack[last]
		r.stack = r.stack[:last]
		r.work++
		if r.seen[i] == r.turn {
			continue
		}
		r.seen[i] = r.turn
		switch n := &r.p.nodes[i]; {
		case n.kind == nodeSplit:
			r.stack = append(r.stack, n.alt, n.out)
		case n.kind == nodeLook && n.look&^op == 0:
			r.stack = append(r.stack, n.out)
		case n.kind != nodeFail:
			found(i, n)
		}
	}
}
