package workspace

import "fmt"

// maxTOMLDepth bounds the parts of keys, lists and inline tables that stand in each
// other. The decoder keeps the whole name of each level, so that memory goes with the
// square of the depth, and its calls go as deep.
const maxTOMLDepth = 16

var errTooDeep = fmt.Errorf("it goes too deep: at most %d parts of keys, lists and tables stand in each other", maxTOMLDepth)

// checkTOML refuses a text that its decoder would spend too much on. What is no TOML
// is the decoder's to refuse: it reads no further than to the first mistake.
func checkTOML(text string) error {
	var open []int               // what each list or table that is open adds to the depth
	depth, parts, key := 0, 0, 0 // key: parts of the one whose value comes
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '#':
			i = skipLine(text, i)
			continue
		case '"', '\'':
			i = skipString(text, i)
			continue
		case '.':
			parts++
		case '[', '{':
			open = append(open, key+parts+1)
			depth, parts, key = depth+key+parts+1, 0, 0
		case ']', '}':
			if n := len(open); n > 0 {
				depth, open = depth-open[n-1], open[:n-1]
			}
			parts, key = 0, 0
		case '=':
			parts, key = 0, parts
		case '\n', '\r', ',':
			parts, key = 0, 0
		}
		if depth+parts >= maxTOMLDepth {
			return errTooDeep
		}
		i++
	}
	return nil
}

func skipLine(text string, i int) int {
	for i < len(text) && text[i] != '\n' && text[i] != '\r' {
		i++
	}
	return i
}

// skipString gives what is behind the string that begins at i.
func skipString(text string, i int) int {
	quote := text[i]
	run := func(at, most int) (n int) {
		for n < most && at+n < len(text) && text[at+n] == quote {
			n++
		}
		return n
	}
	n := run(i, 3)
	i += n
	if n == 2 { // an empty one
		return i
	}
	for i < len(text) {
		switch c := text[i]; {
		case c == '\\' && quote == '"':
			i++
		case n == 1 && (c == '\n' || c == '\r'): // a mistake
			return i
		case c == quote && run(i, n) == n:
			if n == 3 {
				return i + run(i, 5) // two that belong to it may stand before its end
			}
			return i + 1
		}
		i++
	}
	return i
}
