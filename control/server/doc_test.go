package server

import (
	"os"
	"regexp"
	"testing"
)

// TestAPIDocNamesEveryRoute: docs/api.md has each route, and no other.
func TestAPIDocNamesEveryRoute(t *testing.T) {
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`?]*)`").FindAllSubmatch(doc, -1) {
		said[string(m[1])] = true
	}
	for _, r := range new(Server).routes() {
		name := r.method + " " + r.path
		if !said[name] {
			t.Errorf("docs/api.md does not have %s", name)
		}
		delete(said, name)
	}
	for name := range said {
		t.Errorf("docs/api.md has %s, which does not exist", name)
	}
}
