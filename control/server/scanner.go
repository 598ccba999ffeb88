package server

import "slices"

// scanner runs a program over texts, one byte a step, and remembers where each
// step leads: a state is a set of the program's nodes, made when it is first
// reached. It is used by one goroutine.
type scanner struct {
	p      *program
	set    *reached
	steps  []int32 // by state, and in it by class: the next state, stepUnknown or stepFound
	states []state // by number of the state; the first is none
	index  map[string]int32
	first  int32 // at the beginning of a line
	read   int   // bytes since the memory was last emptied
	forgot int   // how often it was
	off    bool  // the states are too many: nothing is gained
}

// state is one that the scanner can be in. A step from it looks at the nodes,
// and at the start of the program besides: a match may begin anywhere.
type state struct {
	nodes       []int32
	begin, word bool // at the beginning of a line; after a character of a word
}

// What steps may have in place of a state.
const (
	stepUnknown int32 = 0
	stepFound   int32 = -1
)

const (
	// maxMemory bounds the memory of a scanner, in steps of 4 bytes.
	maxMemory = 1 << 18
	// minRead is how many bytes must have been read by the time that memory is
	// full: if they are fewer, making states takes longer than running the
	// pattern.
	minRead = 1 << 20
	// maxWork is how many nodes may be looked at to make states, and besides
	// workPerByte for each byte that was read.
	maxWork     = 1 << 22
	workPerByte = 64
)

// newScanner makes a scanner; of no program, one that is off.
func newScanner(p *program) *scanner {
	if p == nil {
		return &scanner{off: true}
	}
	s := &scanner{p: p, set: newReached(p)}
	s.empty()
	return s
}

// empty forgets all states but the first.
func (s *scanner) empty() {
	s.steps, s.states, s.index, s.read, s.set.work = s.steps[:0], nil, map[string]int32{}, 0, 0
	s.grow(state{}) // the number 0 means unknown
	s.first = s.grow(state{begin: s.p.begins})
}

// grow adds a state and gives where its steps are.
func (s *scanner) grow(st state) int32 {
	at := int32(len(s.steps))
	for range s.p.classes + 1 {
		s.steps = append(s.steps, stepUnknown)
	}
	s.states = append(s.states, st)
	return at
}

// next finds the first line from pos on, where a line begins, that may match,
// and gives a place in it, or -1. ok is false if that is not known, since s went
// off.
func (s *scanner) next(text []byte, pos int) (at int, ok bool) {
	if s.off {
		return -1, false
	}
	in, class, steps := s.first, &s.p.class, s.steps
	mark := pos
	for i := pos; i < len(text); i++ {
		to := steps[int(in)+int(class[text[i]])]
		if to <= 0 {
			if to == stepUnknown {
				s.read += i - mark
				mark = i
				if to = s.step(in, int(class[text[i]])); s.off {
					return -1, false
				}
				steps = s.steps
			}
			if to == stepFound {
				s.read += i - mark
				return i, true
			}
		}
		in = to
	}
	s.read += len(text) - mark
	if pos < len(text) && text[len(text)-1] != '\n' && s.step(in, s.p.classes) == stepFound {
		return len(text), true
	}
	return -1, !s.off
}

// step finds out where a byte of a class leads from the state at in, and
// remembers it unless memory had to be emptied for it.
func (s *scanner) step(in int32, class int) int32 {
	if to := s.steps[int(in)+class]; to != stepUnknown {
		return to
	}
	st, b := s.states[int(in)/(s.p.classes+1)], s.p.sample[class]
	op, matched := s.p.holds(st.begin, st.word, b), false
	var taken []int32
	see := func(_ int32, n *node) {
		switch {
		case n.kind == nodeMatch:
			matched = true
		case n.kind == nodeByte && b < atEnd && n.lo <= byte(b) && byte(b) <= n.hi:
			taken = append(taken, n.out)
		}
	}
	s.set.begin()
	for _, at := range st.nodes {
		s.set.from(at, op, see)
	}
	s.set.from(s.p.start, op, see)
	if s.set.work > maxWork+workPerByte*s.read {
		s.off = true
	}
	to := s.first
	switch {
	case matched:
		to = stepFound
	case b != '\n' && b != atEnd:
		var emptied bool
		if to, emptied = s.enter(taken, s.p.words && isWord(b)); emptied {
			return to
		}
	}
	s.steps[int(in)+class] = to
	return to
}

// enter gives the state that has what is reached from some nodes. emptied tells
// that no other is remembered any more.
func (s *scanner) enter(from []int32, word bool) (to int32, emptied bool) {
	next := state{word: word}
	s.set.begin()
	for _, at := range from {
		s.set.from(at, 0, func(i int32, _ *node) { next.nodes = append(next.nodes, i) })
	}
	slices.Sort(next.nodes)
	key := make([]byte, 1, 1+3*len(next.nodes))
	if word {
		key[0] = 1
	}
	for _, i := range next.nodes {
		key = append(key, byte(i), byte(i>>8), byte(i>>16))
	}
	if to, there := s.index[string(key)]; there {
		return to, false
	}
	if len(s.steps)+s.p.classes+1 > maxMemory {
		s.off = s.read < minRead
		s.forgot++
		s.empty()
		emptied = true
	}
	to = s.grow(next)
	s.index[string(key)] = to
	return to, emptied
}
