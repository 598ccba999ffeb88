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
}

type glob struct{ lower, written string }

type exception struct {
	name  string // lower-case glob
	under string // "/a/b", without the last slash; "" is the whole tree
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
		under := path.Clean("/" + x.Under)
		if under == "/" {
			under = ""
		}
		n.exceptions = append(n.exceptions, exception{strings.ToLower(x.Name), under})
	}
	return n
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
		rest, under := strings.CutPrefix(file, x.under)
		if !under || rest == "" || rest[0] != '/' {
			continue
		}
		if ok, err := path.Match(x.name, lower); ok && err == nil {
			return true
		}
	}
	return false
}
