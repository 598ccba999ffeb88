package server

import (
	"regexp"
	"strings"
)

// globs choose files. Those without a ! say what is wanted, if there are any;
// those with one say what is left out, with all below it.
type globs struct {
	want, leave []glob
}

// glob is one pattern: about names, or about paths below the directory that is
// searched.
type glob struct {
	re   *regexp.Regexp
	path bool
}

// maxGlob bounds a pattern, maxGlobs their number.
const (
	maxGlob  = 1000
	maxGlobs = 100
)

func parseGlobs(patterns []string) (g globs, err error) {
	if len(patterns) > maxGlobs {
		return g, invalid("there are more than %d globs", maxGlobs)
	}
	for _, p := range patterns {
		text, leave := strings.CutPrefix(p, "!")
		text = strings.TrimPrefix(strings.TrimSuffix(text, "/"), "./")
		one := glob{path: strings.Contains(text, "/")}
		text = strings.TrimPrefix(text, "/")
		if text == "" || len(text) > maxGlob {
			return g, invalid("glob %q is none", p)
		}
		if one.re, err = regexp.Compile(`(?s)\A` + globRegexp(text) + `\z`); err != nil {
			return g, invalid("glob %q: %v", p, err)
		}
		if leave {
			g.leave = append(g.leave, one)
		} else {
			g.want = append(g.want, one)
		}
	}
	return g, nil
}

// globRegexp translates a glob. * and ? stop at slashes, ** does not; [a-z] and
// {a,b} are as in a shell; a backslash takes the next character as it is.
func globRegexp(p string) string {
	var out strings.Builder
	depth := 0 // of braces
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(p[i:], "**/") && (i == 0 || p[i-1] == '/'):
				out.WriteString(`(?:.*/)?`)
				i += 2
			case strings.HasPrefix(p[i:], "**"):
				out.WriteString(`.*`)
				i++
			default:
				out.WriteString(`[^/]*`)
			}
		case '/':
			if p[i:] == "/**" { // the directory itself too
				out.WriteString(`(?:/.*)?`)
				i += 2
				continue
			}
			out.WriteByte('/')
		case '?':
			out.WriteString(`[^/]`)
		case '[':
			set, n := globSet(p[i:])
			out.WriteString(set)
			i += n - 1
		case '{':
			out.WriteString(`(?:`)
			depth++
		case '}', ',':
			if depth == 0 {
				out.WriteString(regexp.QuoteMeta(string(c)))
			} else if c == ',' {
				out.WriteByte('|')
			} else {
				out.WriteByte(')')
				depth--
			}
		case '\\':
			if i+1 < len(p) {
				i++
			}
			out.WriteString(regexp.QuoteMeta(p[i : i+1]))
		default:
			if c >= 0x80 {
				out.WriteByte(c) // a byte of a longer character
			} else {
				out.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
	}
	return out.String()
}

// globSet translates a set that p starts with, of n bytes; a [ that nothing
// closes is itself.
func globSet(p string) (set string, n int) {
	end := strings.IndexByte(p[1:], ']')
	if end == 0 { // []x]: the first ] is a member
		if next := strings.IndexByte(p[2:], ']'); next >= 0 {
			end = next + 1
		}
	}
	if end <= 0 {
		return `\[`, 1
	}
	body, n := p[1:1+end], end+2
	not := ""
	if body[0] == '!' || body[0] == '^' {
		not, body = "^", body[1:]
	}
	quote := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`)
	return "[" + not + quote.Replace(body) + "]", n
}

func (g glob) matches(name, path string) bool {
	if g.path {
		return g.re.MatchString(path)
	}
	return g.re.MatchString(name)
}

// file tells whether a file is to be looked into.
func (g *globs) file(name, path string) bool {
	wanted := len(g.want) == 0
	for _, w := range g.want {
		wanted = wanted || w.matches(name, path)
	}
	return wanted && !g.left(name, path)
}

// left tells whether a file or directory is left out.
func (g *globs) left(name, path string) bool {
	for _, l := range g.leave {
		if l.matches(name, path) {
			return true
		}
	}
	return false
}
