package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// modelNames tells whether the file at a tree path is denied to everybody, and to
// an agent besides: the deny-list written a second time. Patterns are plain text
// with stars.
func (f *Facts) modelNames(agent, file string) (denied, barred bool) {
	name := file[strings.LastIndexByte(file, '/')+1:]
	everywhere := f.Settings.DenyNames
	if everywhere == nil {
		everywhere = []string{".env", ".env.local", "id_rsa", "id_ed25519", ".netrc"}
	}
	denied = slices.ContainsFunc(everywhere, func(pattern string) bool { return modelMatch(pattern, name) })
	for _, r := range f.Settings.Rules {
		if !modelMatch(r.Name, name) || !strings.HasPrefix(file, strings.TrimSuffix(r.Under, "/")+"/") {
			continue
		}
		denied = denied || r.Agent == ""
		barred = barred || r.Agent == agent
	}
	for _, x := range f.Settings.Exceptions {
		if modelMatch(x.Name, name) && strings.HasPrefix(file, strings.TrimSuffix(x.Under, "/")+"/") {
			denied = false
		}
	}
	return denied, barred
}

func modelMatch(pattern, name string) bool {
	first, rest, star := strings.Cut(strings.ToLower(pattern), "*")
	name, ok := strings.CutPrefix(strings.ToLower(name), first)
	if !ok || !star {
		return ok && name == ""
	}
	for i := range len(name) + 1 {
		if modelMatch(rest, name[i:]) {
			return true
		}
	}
	return false
}

// deniesToAll tells whether any name is on the deny-list for everybody, and
// deniesTo whether any is on an agent's own: without one, nothing forbids a place
// that is said to be on it.
func (f *Facts) deniesToAll() bool {
	return f.Settings.DenyNames == nil || len(f.Settings.DenyNames) > 0 || f.deniesTo("")
}

func (f *Facts) deniesTo(agent string) bool {
	return slices.ContainsFunc(f.Settings.Rules, func(r NameRule) bool { return r.Agent == agent })
}

var (
	modelPatterns = []string{".env", "*.key", "Draft*", "a*b*c", "*", "id_rsa", ".netrc"}
	modelFiles    = []string{".env", ".ENV", ".env.local", "a.key", "KEY", ".key", "draft", "drafts.KEY", "abc", "aXXbc", "acb", "id_rsa", "x"}
)

// randomSettings fills in a deny-list: for everybody, for agents, under paths.
func randomSettings(rnd *rand.Rand, keys []string) (s Settings) {
	pattern := func() string { return modelPatterns[rnd.IntN(len(modelPatterns))] }
	under := func() string {
		p := modelPath(randomResource(rnd))
		for range rnd.IntN(4) {
			p = p[:max(1, strings.LastIndexByte(p, '/'))]
		}
		return p
	}
	switch rnd.IntN(4) {
	case 0:
		s.DenyNames = []string{}
	case 1:
		s.DenyNames = []string{pattern(), pattern()}
	}
	for range rnd.IntN(20) {
		r := NameRule{Name: pattern()}
		if rnd.IntN(5) > 0 {
			r.Agent = keys[rnd.IntN(len(keys))]
		}
		if rnd.IntN(2) == 0 {
			r.Under = under()
		}
		s.Rules = append(s.Rules, r)
	}
	for range rnd.IntN(3) {
		s.Exceptions = append(s.Exceptions, NameException{Name: pattern(), Under: under()})
	}
	return s
}

// named gives the place r for a file of a random name below it, as p's view does,
// and checks that the deny-lists judge as the model says.
func named(t *testing.T, f *Facts, p *Principal, r Resource, rnd *rand.Rand) Resource {
	t.Helper()
	name := modelFiles[rnd.IntN(len(modelFiles))]
	file := strings.TrimSuffix(modelPath(r), "/") + "/" + name
	r.Denied, r.Barred = p.NameDeniedAt(file), p.NameBarredAt(file)
	denied, barred := f.modelNames(p.id.agent, file)
	if r.Denied != denied || r.Barred != barred {
		t.Fatalf("%s for %s: denied %v, barred %v; the model says %v and %v\nsettings: %+v", file, p.id.agent, r.Denied, r.Barred, denied, barred, f.Settings)
	}
	for what, got := range map[string]func() (bool, bool, bool){
		"for all": func() (bool, bool, bool) { d, byPath := p.NameJudged(name); return d, byPath, denied },
		"own":     func() (bool, bool, bool) { b, byPath := p.NameBarred(name); return b, byPath, barred },
	} {
		if judged, byPath, want := got(); !byPath && judged != want {
			t.Fatalf("%s, %s: judged %v by its name alone, where it stands %v\nsettings: %+v", file, what, judged, want, f.Settings)
		}
	}
	if barred && !p.HasOwnNames() || byPathOnly(f, denied) && !p.NamesByPath() {
		t.Fatalf("%s: own names %v, by path %v\nsettings: %+v", file, p.HasOwnNames(), p.NamesByPath(), f.Settings)
	}
	return r
}

// byPathOnly tells whether a denial can only come of a rule under a path.
func byPathOnly(f *Facts, denied bool) bool {
	return denied && f.Settings.DenyNames != nil && len(f.Settings.DenyNames) == 0 &&
		!slices.ContainsFunc(f.Settings.Rules, func(r NameRule) bool { return r.Agent == "" && r.Under == "" })
}

// TestModelMatches: what the model makes of patterns is what they mean.
func TestModelMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{".env", ".ENV", true}, {".env", ".env2", false}, {"*.key", ".key", true}, {"*.key", "a.key.b", false}, {"a*b*c", "aXXbc", true},
		{"a*b*c", "acb", false}, {"*", "", true}, {"Draft*", "drafts", true},
	} {
		if got := modelMatch(c.pattern, c.name); got != c.want {
			t.Errorf("%s, %s: %v", c.pattern, c.name, got)
		}
	}
	f := Facts{Settings: Settings{Rules: []NameRule{{Name: "x", Agent: "a", Under: "/p"}}}}
	if d, b := f.modelNames("a", "/p/d/X"); d || !b {
		t.Error("a rule of one agent")
	}
	if d, b := f.modelNames("a", "/pp/x"); d || b {
		t.Error("a sibling")
	}
	if fmt.Sprint(f.deniesTo("a"), f.deniesTo("b"), f.deniesTo("")) != "true false false" {
		t.Error("who has a list")
	}
}
