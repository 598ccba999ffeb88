package lawtest

import (
	"bytes"
	"strings"
	"testing"
)

// banned are words that tell of one machine or of how the work was done there,
// and hosts of package registries: what is built must come by name from
// wherever the reader gets it. Each is written in two parts, so that this file
// does not have it.
var banned = []string{
	"/work/" + "main", "/work/" + "shared", "/work/" + "steering", "/work/" + ".library",
	"/tmp/" + "brief", "farm" + "-bench", "shared/" + "design", "/root/" + "go",
	"proxy." + "golang.org", "registry." + "npmjs", "deb." + "debian.org", "pypi." + "org",
}

func TestNoFileTellsOfThisMachine(t *testing.T) {
	err := walk(func(name string, data []byte) error {
		if bytes.IndexByte(data, 0) >= 0 {
			return nil // not text
		}
		for _, b := range banned {
			if i := bytes.Index(data, []byte(b)); i >= 0 {
				t.Errorf("%s:%d: %q", name, 1+bytes.Count(data[:i], []byte("\n")), b)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoUnfinishedWork: what is not there is not there; it is not announced in
// a comment.
func TestNoUnfinishedWork(t *testing.T) {
	for _, s := range load(t) {
		for _, g := range s.file.Comments {
			for _, c := range g.List {
				for _, w := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"} {
					if strings.Contains(c.Text, w) {
						t.Errorf("%s: %s", s.at(c), w)
					}
				}
			}
		}
	}
}
