package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// source is one Go file of the tree, whatever its build tags.
type source struct {
	path string
	text []byte
	fset *token.FileSet
	file *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

func tree(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		s := source{path: strings.TrimPrefix(path, root+"/"), fset: token.NewFileSet()}
		if s.text, err = os.ReadFile(path); err != nil {
			return err
		}
		if s.file, err = parser.ParseFile(s.fset, path, s.text, parser.ParseComments); err == nil && !ast.IsGenerated(s.file) {
			all = append(all, s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSourceIsFormatted(t *testing.T) {
	for _, s := range tree(t) {
		want, err := format.Source(s.text)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, s.text) {
			t.Errorf("%s is not as gofmt would have it", s.path)
		}
	}
}

func TestSizesStayInBudget(t *testing.T) {
	var functions, files []int
	for _, s := range tree(t) {
		length := s.fset.File(s.file.Pos()).LineCount()
		if length > maxFile {
			t.Errorf("%s: %d lines, budget %d", s.path, length, maxFile)
		}
		budget := maxFunction
		if s.isTest() {
			budget = maxTest
		} else {
			files = append(files, length)
		}
		for _, f := range functionsOf(s.file) {
			n := s.lines(f)
			if n > budget {
				t.Errorf("%s: %s is %d lines, budget %d", s.at(f), f.Name.Name, n, budget)
			}
			if s.isTest() {
				continue
			}
			functions = append(functions, n)
			if depth := nesting(f.Body, 0); depth > maxNesting {
				t.Errorf("%s: %s nests %d deep, budget %d", s.at(f), f.Name.Name, depth, maxNesting)
			}
		}
	}
	if n := p95(functions); n > p95Function {
		t.Errorf("functions: p95 is %d lines, budget %d", n, p95Function)
	}
	if n := p95(files); n > p95File {
		t.Errorf("files: p95 is %d lines, budget %d", n, p95File)
	}
}

func functionsOf(file *ast.File) []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			found = append(found, f)
		}
	}
	return found
}

func p95(sizes []int) int {
	slices.Sort(sizes)
	return sizes[len(sizes)*95/100]
}

// nesting counts branches and loops inside each other; "else if" counts as one
// more, a function literal as none.
func nesting(body ast.Node, depth int) int {
	deepest := depth
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if n == body {
				return true
			}
			deepest = max(deepest, nesting(n, depth+1))
			return false
		}
		return true
	})
	return deepest
}

func TestExportedNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range tree(t) {
		dir := filepath.Dir(s.path)
		if s.isTest() || s.file.Name.Name == "main" && dir == "." {
			continue
		}
		documented[dir] = documented[dir] || s.file.Doc != nil
		for _, decl := range s.file.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no comment", s.at(decl), name)
			}
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

// undocumented lists exported names without a comment. One comment may serve a
// group of constants or variables.
func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && reachable(d) && !wellKnown(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil || d.Tok == token.IMPORT {
			return nil
		}
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if s.Doc == nil && s.Comment == nil && name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// reachable reports whether a function is no method of an unexported type, which
// nobody outside can name.
func reachable(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if index, ok := receiver.(*ast.IndexExpr); ok {
		receiver = index.X
	}
	name, ok := receiver.(*ast.Ident)
	return !ok || name.IsExported()
}

func wellKnown(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains(strings.Fields(docException), f.Name.Name)
}
