package lawtest

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answers are the types of package control that commands print with --json.
var answers = []string{"Status", "Figures", "Latency", "Cache", "DenialCounts", "LogFigures", "CommitFigures", "SegmentFigures",
	"User", "Agent", "Project", "Mount", "Policy", "NameException", "Explanation",
	"PolicyRule", "ItemInfo", "Item", "Field", "FieldChange", "Session", "Message", "Workspace", "Binding", "Setting", "Config", "Context", "Node", "Edited", "Match", "Searched", "Problem", "Check", "Error", "Transfer", "Skipped", "Backup", "Restored"}

// TestScriptingDocNamesEveryField: docs/scripting.md has every field that a
// script may meet.
func TestScriptingDocNamesEveryField(t *testing.T) {
	doc := read(t, "docs/scripting.md")
	found := map[string]bool{}
	for _, s := range load(t) {
		if s.dir != "control" || s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !slices.Contains(answers, spec.Name.Name) {
				return true
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			found[spec.Name.Name] = true
			for _, name := range jsonNames(st) {
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(doc) {
					t.Errorf("docs/scripting.md does not have the field %s of %s", name, spec.Name.Name)
				}
			}
			return true
		})
	}
	for _, a := range answers {
		if !found[a] {
			t.Errorf("package control has no type %s", a)
		}
	}
}

func jsonNames(st *ast.StructType) []string {
	var names []string
	for _, f := range st.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		if name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// TestScriptingDocNamesEveryExitCode: each constant exit… of the command line
// stands in docs/scripting.md.
func TestScriptingDocNamesEveryExitCode(t *testing.T) {
	doc := read(t, "docs/scripting.md")
	codes := 0
	for _, s := range load(t) {
		if s.dir != "cmd/warren" || s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				return true
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if len(v.Values) == 0 || !strings.HasPrefix(v.Names[0].Name, "exit") {
					continue
				}
				code, ok := v.Values[0].(*ast.BasicLit)
				if !ok {
					continue
				}
				codes++
				if !regexp.MustCompile(`\b` + code.Value + `\b`).MatchString(doc) {
					t.Errorf("docs/scripting.md does not have the exit code %s (%s)", code.Value, v.Names[0].Name)
				}
			}
			return true
		})
	}
	if codes < 10 {
		t.Errorf("found only %d exit codes", codes)
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinksLeadSomewhere: relative links of every Markdown page.
func TestLinksLeadSomewhere(t *testing.T) {
	err := walk(func(name string, data []byte) error {
		if !strings.HasSuffix(name, ".md") {
			return nil
		}
		for _, m := range link.FindAllSubmatch(data, -1) {
			target := path.Join(path.Dir(name), string(m[1]))
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: a link to %s, which does not exist", name, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var citation = regexp.MustCompile(`docs/format\.md[,)]? rules? (\d+)(?: to (\d+))?`)

// TestCitedRulesExist: rules of docs/format.md that code cites by number.
func TestCitedRulesExist(t *testing.T) {
	doc := read(t, "docs/format.md")
	cited := 0
	for _, s := range load(t) {
		for _, g := range s.file.Comments {
			for _, m := range citation.FindAllStringSubmatch(strings.ReplaceAll(g.Text(), "\n", " "), -1) {
				for _, n := range m[1:] {
					if n == "" {
						continue
					}
					cited++
					if !strings.Contains(doc, "\n"+n+". **") {
						t.Errorf("%s: cites rule %s of docs/format.md, which has none", s.at(g), n)
					}
				}
			}
		}
	}
	if cited == 0 {
		t.Error("no rule is cited anywhere")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
