package workspace

import (
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// TestTOMLDepth: what would make the decoder spend memory without end is refused, also
// behind strings and comments that look like one thing and are another; what people
// write is not.
func TestTOMLDepth(t *testing.T) {
	deep, keys := strings.Repeat("[", 100), strings.Repeat("a.", 100)+"a"
	for _, bad := range []string{
		"[" + keys + "]\n", keys + " = 1\n", "x = " + deep, "x = " + strings.Repeat("{a = ", 100),
		"x = [\"\"\"a\"\"\"\", " + deep, "x = ['''a''''', " + deep, "x = [\"\\\"\", " + deep, `x = ['\', ` + deep,
		"# \"\n[" + keys + "]", "x = \"\"\n[" + keys + "]", "x = \"\"\"\n\\\"\"\"\"\n[" + keys + "]", "# '''\r\n[" + keys + "]",
		strings.Repeat(`"a".`, 100) + "a = 1", "[[" + keys + "]]", strings.Repeat("a . ", 100) + "a = 1",
	} {
		if checkTOML(bad) == nil {
			t.Errorf("taken: %.60q", bad)
		}
	}
	for _, good := range []string{
		"", "x = \"" + deep + keys + "\"", "x = '" + deep + keys + "'", "# " + deep + keys, "x = \"\"\"\n" + deep + "\n" + keys + "\"\"\"\n",
		"x = '''\n" + deep + "'''", strings.Repeat("[[a.b.c]]\nd.e = 1.5\n", 1000), "x = [" + strings.Repeat("1.5, ", 1000) + "]",
		"x = [" + strings.Repeat("[1.5, \"a\"],\n", 1000) + "]", "x = {a = {b = {c = [1, 2]}}}", "x = \"\\\"" + deep + "\"",
	} {
		var v map[string]any
		if err := checkTOML(good); err != nil || toml.Unmarshal([]byte(good), &v) != nil {
			t.Errorf("%.60q: %v", good, err)
		}
	}
}

// FuzzTOMLDepth: what is let through and read is not deep.
func FuzzTOMLDepth(f *testing.F) {
	for _, s := range []string{"a.b.c = 1", "[a.b]\nc = {d = [1, [2]]}", "x = \"\"\"a\"\"\"\"\n", "x = '''a'''''", "# c\r[a]", `x = "\\"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v map[string]any
		if len(text) > 4096 || checkTOML(text) != nil || toml.Unmarshal([]byte(text), &v) != nil {
			return
		}
		if d := depthOf(v); d > 2*maxTOMLDepth+1 { // a header, and what stands below it
			t.Fatalf("%d deep", d)
		}
	})
}

func depthOf(v any) (most int) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			most = max(most, 1+depthOf(e))
		}
	case []any:
		for _, e := range v {
			most = max(most, 1+depthOf(e))
		}
	case []map[string]any:
		for _, e := range v {
			most = max(most, 1+depthOf(e))
		}
	}
	return most
}
