package policy

import (
	"path"
	"slices"
	"strings"
)

// DefaultDenyNames is the name deny-list of a store that sets none.
func DefaultDenyNames() []string {
	return []string{".env", ".env.local", "id_rsa", "id_ed25519", ".netrc"}
}

// names is a compiled deny-list with its exceptions. It is immutable.
type names struct {
	literal    map[string]string // lower case -> as it was written
	globs      []glob
	exceptions []exception
	longest    int // bytes of the longest literal; longer names need no map

	rules  []nameRule            // for everybody, under a path
	own    map[string][]nameRule // by agent
	byPath bool                  // it depends on where a name stands
}

type glob struct{ lower, written string }

type exception struct {
	name  string // lower-case glob
	under string // "/a/b", without the last slash; "" is the whole tree
}

// nameRule denies names under a path.
type nameRule struct {
	lower, written string
	under          string // as in exception
}

func compileNames(s Settings) *names {
	deny := s.DenyNames
	if deny == nil {
		deny = DefaultDenyNames()
	}
	n := &names{literal: map[string]string{}}
	for _, g := range deny {
		lower := strings.ToLower(g)
		if strings.ContainsAny(g, `*?[\`) {
			n.globs = append(n.globs, glob{lower, g})
			continue
		}
		n.literal[lower] = g
		n.longest = max(n.longest, len(lower))
	}
	for _, x := range s.Exceptions {
		n.exceptions = append(n.exceptions, exception{strings.ToLower(x.Name), cleanUnder(x.Under)})
	}
	for _, x := range s.Rules {
		r := nameRule{strings.ToLower(x.Name), x.Name, cleanUnder(x.Under)}
		n.byPath = n.byPath || r.under != ""
		if x.Agent == "" {
			n.rules = append(n.rules, r)
			continue
		}
		if n.own == nil {
			n.own = map[string][]nameRule{}
		}
		n.own[x.Agent] = append(n.own[x.Agent], r)
	}
	n.byPath = n.byPath || len(n.exceptions) > 0
	return n
}

// cleanUnder is a tree path without a slash at its end; "" is the whole tree.
func cleanUnder(p string) string { return strings.TrimSuffix(path.Clean("/"+p), "/") }

// judgeRules tells whether a rule that holds everywhere has the name, or else
// whether one does that holds under a path.
func judgeRules(rules []nameRule, lower string) (denied, byPath bool) {
	for i := range rules {
		if ok, err := path.Match(rules[i].lower, lower); !ok || err != nil {
			continue
		}
		if rules[i].under == "" {
			return true, false
		}
		byPath = true
	}
	return false, byPath
}

// rulesHold tells whether a rule holds for the file at a tree path.
func rulesHold(rules []nameRule, file string) bool {
	if len(rules) == 0 {
		return false
	}
	lower := strings.ToLower(path.Base(file))
	for i := range rules {
		if ok, err := path.Match(rules[i].lower, lower); ok && err == nil && isUnder(file, rules[i].under) {
			return true
		}
	}
	return false
}

// isUnder tells whether file is below the directory under.
func isUnder(file, under string) bool {
	rest, ok := strings.CutPrefix(file, under)
	return ok && len(rest) > 1 && rest[0] == '/'
}

// separates tells whether what holds below the path under may hold otherwise for
// what is below a directory, once that is at to instead of from.
func separates(under, from, to string) bool {
	if under == "" {
		return false
	}
	reaches := func(dir string) bool { return strings.HasPrefix(under, dir+"/") }
	covers := func(dir string) bool { return dir == under || isUnder(dir, under) }
	return reaches(from) || reaches(to) || covers(from) != covers(to)
}

// judge tells of a name whether it is denied to everybody, as far as that does
// not depend on where it stands.
func (n *names) judge(name string) (denied, byPath bool) {
	if _, denied = n.denied(name); !denied && len(n.rules) > 0 {
		denied, byPath = judgeRules(n.rules, strings.ToLower(name))
	}
	return denied, byPath || denied && len(n.exceptions) > 0
}

// deniedAt tells whether the file at a tree path is denied to everybody.
func (n *names) deniedAt(file string) bool {
	_, denied := n.denied(path.Base(file))
	return (denied || rulesHold(n.rules, file)) && !n.excepted(file)
}

// list gives the deny-list as it was written, sorted.
func (n *names) list() []string {
	var out []string
	for _, w := range n.literal {
		out = append(out, w)
	}
	for _, g := range n.globs {
		out = append(out, g.written)
	}
	slices.Sort(out)
	return out
}

// denied finds the entry of the deny-list that name, one component, meets.
func (n *names) denied(name string) (string, bool) {
	if len(n.globs) == 0 && len(name) > 2*n.longest+4 { // ToLower may change the length a little
		return "", false
	}
	lower := strings.ToLower(name)
	if w, ok := n.literal[lower]; ok {
		return w, true
	}
	for _, g := range n.globs {
		if ok, err := path.Match(g.lower, lower); ok && err == nil {
			return g.written, true
		}
	}
	return "", false
}

// excepted tells whether the name of the file at tree path file may be used
// there in spite of the deny-list.
func (n *names) excepted(file string) bool {
	if len(n.exceptions) == 0 {
		return false
	}
	lower := strings.ToLower(path.Base(file))
	for _, x := range n.exceptions {
		if !isUnder(file, x.under) {
			continue
		}
		if ok, err := path.Match(x.name, lower); ok && err == nil {
			return true
		}
	}
	return false
}
