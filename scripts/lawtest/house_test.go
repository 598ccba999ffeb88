package lawtest

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The limits of the house. Numbers from counting the worst cases of good and
// bad code of our kind: medians are the same, the extremes tell them apart.
const (
	maxFile    = 800 // lines, tests too
	maxFunc    = 80  // lines
	maxMethods = 8   // of an interface
	maxFields  = 16  // of a struct
)

// longFuncs may be longer than maxFunc: tables and switches, which splitting
// would only hide. "dir.Func" or "dir.Type.Method", and why.
var longFuncs = map[string]string{
	"control/server.Server.routes": "the table of the API's verbs",
	"fusefs.registers":             "the table of what TestSchedules sets and gets",
}

// wideTypes may be wider than maxFields or maxMethods: "dir.Type", and why.
var wideTypes = map[string]string{
	"backend/tree.record": "the fields of an inode as stored (docs/format.md, rule 7)",
	"control.Node":        "an answer of the API: flat for who reads the JSON",
	"control.Status":      "an answer of the API: flat for who reads the JSON",
}

func TestEveryPackageHasADoc(t *testing.T) {
	type pkg struct {
		name, doc string
		onlyTests bool
	}
	pkgs := map[string]*pkg{}
	for _, s := range load(t) {
		p := pkgs[s.dir]
		if p == nil {
			p = &pkg{onlyTests: true}
			pkgs[s.dir] = p
		}
		if !s.test {
			p.onlyTests = false
		}
		if d := s.file.Doc.Text(); d != "" && (!s.test || p.doc == "") {
			p.doc = d
		}
		if !strings.HasSuffix(s.file.Name.Name, "_test") {
			p.name = s.file.Name.Name
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		p, want := pkgs[dir], "Package "+pkgs[dir].name+" "
		if p.name == "main" {
			want = "Command " + path.Base(dir) + " "
		}
		if first, _, _ := strings.Cut(p.doc, "\n"); !strings.HasPrefix(first+" ", want) {
			t.Errorf("%s: its package doc must start with %q, and starts with %q", dir, want, first)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range load(t) {
		if s.lines > maxFile {
			t.Errorf("%s has %d lines; at most %d: split it by duty", path.Join(s.dir, s.name), s.lines, maxFile)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	used := map[string]bool{}
	for _, s := range load(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.length(f) <= maxFunc {
				continue
			}
			name := funcName(s.dir, f)
			used[name] = true
			if longFuncs[name] == "" {
				t.Errorf("%s: %s has %d lines; at most %d, but for tables and switches named in longFuncs",
					s.at(f), name, s.length(f), maxFunc)
			}
		}
	}
	for name := range longFuncs {
		if !used[name] {
			t.Errorf("longFuncs lets %s be long, and it is not", name)
		}
	}
}

func TestTypesAreNarrow(t *testing.T) {
	used := map[string]bool{}
	for _, s := range load(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			count, limit, what := 0, 0, ""
			switch typ := spec.Type.(type) {
			case *ast.InterfaceType:
				count, limit, what = typ.Methods.NumFields(), maxMethods, "methods"
			case *ast.StructType:
				count, limit, what = typ.Fields.NumFields(), maxFields, "fields"
			default:
				return true
			}
			name := s.dir + "." + spec.Name.Name
			if count <= limit {
				return true
			}
			used[name] = true
			if wideTypes[name] == "" {
				t.Errorf("%s: %s has %d %s; at most %d", s.at(spec), name, count, what, limit)
			}
			return true
		})
	}
	for name := range wideTypes {
		if !used[name] {
			t.Errorf("wideTypes lets %s be wide, and it is not", name)
		}
	}
}

// TestNothingRegistersItself: no init function, so that importing a package
// does nothing and main says what takes part.
func TestNothingRegistersItself(t *testing.T) {
	for _, s := range load(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: an init function", s.at(f))
			}
		}
	}
}

// TestExportedNamesAreDocumented: what other packages may use says what it
// promises.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, s := range load(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d))) {
					t.Errorf("%s: %s has no doc", s.at(d), funcName(s.dir, d))
				}
			case *ast.GenDecl:
				for _, spec := range undocumented(d) {
					t.Errorf("%s: %s has no doc", s.at(spec), s.dir+"."+spec.Name)
				}
			}
		}
	}
}

// undocumented gives the exported names of d that neither have a comment nor
// stand in a group that has one.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	var bad []*ast.Ident
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
				bad = append(bad, spec.Name)
			}
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				if n.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					bad = append(bad, n)
				}
			}
		}
	}
	return bad
}

// receiver is the name of the type that f is a method of, "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	x := f.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.Name
		default:
			return ""
		}
	}
}

func funcName(dir string, f *ast.FuncDecl) string {
	if r := receiver(f); r != "" {
		return dir + "." + r + "." + f.Name.Name
	}
	return dir + "." + f.Name.Name
}

// TestNoMutableGlobals: package variables are errors, tables and assertions,
// which nothing assigns to after they are made.
func TestNoMutableGlobals(t *testing.T) {
	globals := map[string]map[string]*source{} // dir -> name -> where
	for _, s := range load(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				for _, n := range spec.(*ast.ValueSpec).Names {
					if globals[s.dir] == nil {
						globals[s.dir] = map[string]*source{}
					}
					globals[s.dir][n.Name] = s
				}
			}
		}
	}
	for _, s := range load(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			local := locals(f)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				for _, name := range assigned(n) {
					if name != "_" && globals[s.dir][name] != nil && !local[name] {
						t.Errorf("%s: assigns to the package variable %s", s.at(n), name)
					}
				}
				return true
			})
		}
	}
}

// assigned gives the plain names that n, if it is an assignment, assigns to,
// and the maps and arrays it stores into.
func assigned(n ast.Node) []string {
	var targets []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return nil
		}
		targets = n.Lhs
	case *ast.IncDecStmt:
		targets = []ast.Expr{n.X}
	}
	var names []string
	for _, x := range targets {
		if i, ok := x.(*ast.IndexExpr); ok {
			x = i.X
		}
		if id, ok := x.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
	}
	return names
}

// locals gives every name that f declares somewhere.
func locals(f *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					if id, ok := x.(*ast.Ident); ok {
						names[id.Name] = true
					}
				}
			}
		case *ast.Field:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok {
					names[id.Name] = true
				}
			}
		}
		return true
	})
	return names
}
