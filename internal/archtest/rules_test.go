package archtest

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestImportsFollowTheLayers(t *testing.T) {
	for _, p := range packages(t) {
		i := slices.IndexFunc(layers, func(l layer) bool { return matches(p.name, l.pkg) })
		if i < 0 {
			t.Errorf("%s has no layer: say in policy_test.go what it may import, and why", p.name)
			continue
		}
		for _, path := range p.imports {
			if strings.HasPrefix(path, module+"/") && !matches(relative(path), layers[i].mayImport) {
				t.Errorf("%s imports %s: %s", p.name, relative(path), layers[i].reason)
			}
		}
	}
}

func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	for _, p := range packages(t) {
		for _, path := range p.imports {
			first, _, _ := strings.Cut(path, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(path, module) {
				continue
			}
			i := slices.IndexFunc(libraries, func(l library) bool { return path == l.module || strings.HasPrefix(path, l.module+"/") })
			switch {
			case i < 0:
				t.Errorf("%s imports %s, which no row of libraries allows", p.name, path)
			case !matches(p.name, libraries[i].onlyIn):
				t.Errorf("%s imports %s: %s", p.name, path, libraries[i].reason)
			}
		}
	}
}

func TestEffectsPassTheSeam(t *testing.T) {
	for _, p := range packages(t) {
		for _, offence := range p.calls(effects) {
			t.Errorf("%s changes durable state outside internal/faultio", offence)
		}
	}
}

func TestProcessEndsInMainOnly(t *testing.T) {
	for _, p := range packages(t) {
		for _, offence := range p.calls(endings) {
			t.Errorf("%s ends the process below main", offence)
		}
	}
}

// calls lists where a package names one of the functions, called or not, and no
// exception allows it.
func (p *pkg) calls(functions []string) []string {
	var found []string
	for _, file := range p.files {
		harmless := p.readOnlyOpens(file)
		ast.Inspect(file, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			if !ok || harmless[ident] {
				return true
			}
			function, ok := p.info.Uses[ident].(*types.Func)
			if ok && slices.Contains(functions, function.FullName()) && !p.excepted(file, function.FullName()) {
				found = append(found, p.at(ident.Pos())+": "+function.FullName())
			}
			return true
		})
	}
	return found
}

// The rules must see through renamed imports, functions as values and flags by name.
func TestRulesSeeOffences(t *testing.T) {
	const text = `package bad
import (
	"log"
	disk "os"
)
const quiet, loud = disk.O_RDONLY, disk.O_RDWR
func f(flags int) {
	rename := disk.Rename            // line 8
	_, _ = disk.OpenFile("", quiet, 0)
	_, _ = disk.OpenFile("", loud, 0) // line 10
	_, _ = disk.OpenFile("", flags, 0) // line 11
	open := disk.OpenFile            // line 12
	file, _ := disk.Open("")
	_ = file.Sync()                  // line 14
	_, _ = rename, open
	log.Fatal()                      // line 16
}`
	_, exports, err := list()
	if err != nil {
		t.Fatal(err)
	}
	p := &pkg{name: "bad", fset: token.NewFileSet()}
	file, err := parser.ParseFile(p.fset, "bad.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.files = []*ast.File{file}
	p.check("bad", exports)
	want := []string{
		"bad/bad.go:8: os.Rename", "bad/bad.go:10: os.OpenFile", "bad/bad.go:11: os.OpenFile",
		"bad/bad.go:12: os.OpenFile", "bad/bad.go:14: (*os.File).Sync",
	}
	if got := p.calls(effects); !slices.Equal(got, want) {
		t.Errorf("effects seen: %q", got)
	}
	if got := p.calls(endings); !slices.Equal(got, []string{"bad/bad.go:16: log.Fatal"}) {
		t.Errorf("endings seen: %q", got)
	}
}

func (p *pkg) excepted(file *ast.File, function string) bool {
	name := filepath.Base(p.fset.Position(file.Package).Filename)
	for _, e := range exceptions {
		if e.pkg != p.name || e.file != "" && e.file != name {
			continue
		}
		for allowed := range strings.FieldsSeq(e.functions) {
			prefix, open := strings.CutSuffix(allowed, "*")
			if function == allowed || open && strings.HasPrefix(function, prefix) {
				return true
			}
		}
	}
	return false
}

// readOnlyOpens finds the os.OpenFile of calls whose flags are constant and change nothing.
func (p *pkg) readOnlyOpens(file *ast.File) map[*ast.Ident]bool {
	found := map[*ast.Ident]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 3 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		function, ok := p.info.Uses[selector.Sel].(*types.Func)
		if ok && function.FullName() == "os.OpenFile" && !p.writes(call.Args[1]) {
			found[selector.Sel] = true
		}
		return true
	})
	return found
}

// writes reports whether open flags may change a file; flags that are not constant may.
func (p *pkg) writes(flags ast.Expr) bool {
	value := p.info.Types[flags].Value
	if value == nil {
		return true
	}
	n, exact := constant.Int64Val(value)
	const changing = os.O_WRONLY | os.O_RDWR | os.O_CREATE | os.O_TRUNC | os.O_APPEND
	return !exact || n&int64(changing) != 0
}

// The build for use and the build under test must be the same program.
func TestOnlyTheSeamKnowsTheFaultTag(t *testing.T) {
	for _, s := range tree(t) {
		if s.isTest() || filepath.Dir(s.path) == "internal/faultio" {
			continue
		}
		for line := range strings.Lines(string(s.text)) {
			if strings.HasPrefix(line, "//go:build ") && strings.Contains(line, "faultinject") {
				t.Errorf("%s differs under faultinject", s.path)
			}
		}
	}
}

func TestPolicyHasOneRuleForEachWithItsReason(t *testing.T) {
	seen := map[string]bool{}
	row := func(name, reason string) {
		if seen[name] || reason == "" {
			t.Errorf("%s: two rows, or one without a reason", name)
		}
		seen[name] = true
	}
	for _, l := range layers {
		row(l.pkg, l.reason)
	}
	for _, l := range libraries {
		row(l.module, l.reason)
	}
	for _, e := range exceptions {
		row(strings.Join([]string{e.pkg, e.file, "exception"}, " "), e.reason)
	}
}
