// Package lawtest holds what every package of warren must keep to: which may
// import which (law_test.go), how its source is shaped (house_test.go) and what
// may not stand in any file (text_test.go). It has tests only.
package lawtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/warrenfs/warren"

// root is the top of the repository, seen from this directory.
const root = "../.."

// source is one Go file.
type source struct {
	dir     string // "backend/tree"; "." is the top
	name    string // "keys.go"
	test    bool
	lines   int
	imports []string
	fset    *token.FileSet
	file    *ast.File
}

// at says where in the repository a node stands.
func (s *source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	return path.Join(s.dir, s.name) + ":" + strconv.Itoa(p.Line)
}

// length is the number of lines n takes.
func (s *source) length(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// sources parses every Go file of the repository, once.
var sources = sync.OnceValues(func() ([]*source, error) {
	var all []*source
	fset := token.NewFileSet()
	err := walk(func(name string, data []byte) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := &source{
			dir: path.Dir(name), name: path.Base(name), test: strings.HasSuffix(name, "_test.go"),
			lines: bytes.Count(data, []byte("\n")), fset: fset, file: f,
		}
		for _, i := range f.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, p)
		}
		all = append(all, s)
		return nil
	})
	return all, err
})

// load is sources for a test.
func load(t *testing.T) []*source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

// walk calls fn for every file of the repository but those of git, of the
// build and of testdata that is not text of ours.
func walk(fn func(name string, data []byte) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			switch name {
			case ".git", "bin", "dist":
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return fn(name, data)
	})
}
