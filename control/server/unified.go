package server

import (
	"bytes"
	"fmt"
	"strings"
)

// unified gives the difference between two texts in the unified format, with
// three lines of context; cut tells that it has more than limit bytes and its
// last hunks are left out.
func unified(name string, a, b []byte, limit int) (diff string, cut bool) {
	if bytes.Equal(a, b) {
		return "", false
	}
	x, y := splitLines(a), splitLines(b)
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	spans := compare(x, y)
	for len(spans) > 0 {
		n := 1
		for n < len(spans) && spans[n].a0-spans[n-1].a1 <= 2*contextLines {
			n++
		}
		h := hunk(x, y, spans[:n])
		if out.Len()+len(h) > limit {
			return out.String(), true
		}
		out.WriteString(h)
		spans = spans[n:]
	}
	return out.String(), false
}

const contextLines = 3

// span says that lines [a0, a1) of one text are lines [b0, b1) of the other.
type span struct{ a0, a1, b0, b1 int }

// hunk writes spans that stand close together.
func hunk(x, y [][]byte, spans []span) string {
	first, last := spans[0], spans[len(spans)-1]
	before := min(contextLines, first.a0)
	after := min(contextLines, len(x)-last.a1)
	a0, a1, b0, b1 := first.a0-before, last.a1+after, first.b0-before, last.b1+after
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", lineRange(a0, a1), lineRange(b0, b1))
	at := a0
	for _, s := range spans {
		writeLines(&out, ' ', x[at:s.a0])
		writeLines(&out, '-', x[s.a0:s.a1])
		writeLines(&out, '+', y[s.b0:s.b1])
		at = s.a1
	}
	writeLines(&out, ' ', x[at:a1])
	return out.String()
}

// lineRange writes lines [from, to), counted from 0, as a hunk's head does.
func lineRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprintf("%d", from+1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func writeLines(out *strings.Builder, mark byte, lines [][]byte) {
	for _, l := range lines {
		out.WriteByte(mark)
		out.Write(l)
		if !bytes.HasSuffix(l, newline) {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func splitLines(b []byte) [][]byte {
	lines := bytes.SplitAfter(b, newline)
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return lines
}

// maxSteps bounds the work of comparing: texts that differ in more lines than
// that are told as one change from the first to the last difference.
const maxSteps = 300

// compare finds the lines that differ: the shortest script, by Myers' algorithm
// between what both have at their beginnings and ends.
func compare(x, y [][]byte) []span {
	head := 0
	for head < len(x) && head < len(y) && bytes.Equal(x[head], y[head]) {
		head++
	}
	tail := 0
	for tail < len(x)-head && tail < len(y)-head && bytes.Equal(x[len(x)-1-tail], y[len(y)-1-tail]) {
		tail++
	}
	a, b := x[head:len(x)-tail], y[head:len(y)-tail]
	spans := script(a, b)
	for i := range spans {
		s := &spans[i]
		s.a0, s.a1, s.b0, s.b1 = s.a0+head, s.a1+head, s.b0+head, s.b1+head
	}
	return spans
}

// script is Myers' greedy search; ends[d] keeps how far each diagonal got in d
// steps, for the way back.
func script(a, b [][]byte) []span {
	if len(a) == 0 || len(b) == 0 {
		return []span{{0, len(a), 0, len(b)}}
	}
	reach := map[int]int{1: 0}
	var ends []map[int]int
	for d := 0; d <= min(len(a)+len(b), maxSteps); d++ {
		now := make(map[int]int, d+1)
		for k := -d; k <= d; k += 2 {
			i := reach[k-1] + 1
			if k == -d || k != d && reach[k-1] < reach[k+1] {
				i = reach[k+1]
			}
			for i < len(a) && i-k < len(b) && bytes.Equal(a[i], b[i-k]) {
				i++
			}
			now[k] = i
			if i >= len(a) && i-k >= len(b) {
				return wayBack(append(ends, now), len(a), len(b))
			}
		}
		ends = append(ends, now)
		reach = now
	}
	return []span{{0, len(a), 0, len(b)}}
}

// wayBack turns how far the diagonals got into spans, in order.
func wayBack(ends []map[int]int, i, j int) []span {
	var out []span // from the last to the first
	for d := len(ends) - 1; d > 0; d-- {
		k := i - j
		last := ends[d-1]
		down := k == -d || k != d && last[k-1] < last[k+1] // a line of b was added
		pi, pk := last[k-1], k-1
		if down {
			pi, pk = last[k+1], k+1
		}
		pj := pi - pk
		s := span{pi, pi + 1, pj, pj}
		if down {
			s = span{pi, pi, pj, pj + 1}
		}
		if n := len(out); n > 0 && out[n-1].a0 == s.a1 && out[n-1].b0 == s.b1 {
			out[n-1].a0, out[n-1].b0 = s.a0, s.b0
		} else {
			out = append(out, s)
		}
		i, j = pi, pj
	}
	for l, r := 0, len(out)-1; l < r; l, r = l+1, r-1 {
		out[l], out[r] = out[r], out[l]
	}
	return out
}
