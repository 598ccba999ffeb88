package server

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// apiDoc gives docs/api.md, and its section on who may ask what.
func apiDoc(t *testing.T) (all, rights string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	all, rights, found := strings.Cut(string(doc), "\n## Who may ask what\n")
	if !found {
		t.Fatal("docs/api.md does not say who may ask what")
	}
	return all, rights
}

// TestAPIDocNamesEveryRoute: docs/api.md has each route, and no other.
func TestAPIDocNamesEveryRoute(t *testing.T) {
	doc, _ := apiDoc(t)
	said := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`?]*)`").FindAllStringSubmatch(doc, -1) {
		said[m[1]] = true
	}
	for _, r := range new(Server).routes() {
		if !said[r.name()] {
			t.Errorf("docs/api.md does not have %s", r.name())
		}
		delete(said, r.name())
	}
	for name := range said {
		t.Errorf("docs/api.md has %s, which does not exist", name)
	}
}

// TestAPIDocTellsTheRights: its table of who may ask what is the router's.
func TestAPIDocTellsTheRights(t *testing.T) {
	_, doc := apiDoc(t)
	words := map[reach]string{never: "no", anyone: "yes", itself: "itself", below: "itself, below", sees: "sees", narrowed: "own view"}
	said := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` (\\|.*)$").FindAllStringSubmatch(doc, -1) {
		said[m[1]] = m[2]
	}
	for _, r := range new(Server).routes() {
		want := "| " + words[r.may.orchestrator] + " | " + words[r.may.soul] + " | " + words[r.may.shared] + " |"
		if r.may == admin {
			want = ""
		}
		if got := said[r.name()]; got != want {
			t.Errorf("docs/api.md says of %s: %q, and the router: %q", r.name(), got, want)
		}
		delete(said, r.name())
	}
	for name := range said {
		t.Errorf("docs/api.md gives rights on %s, which does not exist", name)
	}
}
