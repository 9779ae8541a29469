package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/loopx-project/loopx-migrate"

// pkg is a type-checked package of this module, without its tests.
type pkg struct {
	name    string // relative to the module
	imports []string
	fset    *token.FileSet
	files   []*ast.File
	info    *types.Info
}

type listed struct {
	ImportPath, Dir, Export string
	Standard                bool
	GoFiles, Imports        []string
	Module                  *struct{ Path string }
}

// load reads the module once for all tests. It takes the export data that the go
// command keeps in its cache, so nothing is compiled twice. A package that does not
// compile is judged by what can be made out: saying that it does not is the build's
// task.
var load = sync.OnceValues(func() ([]*pkg, error) {
	own, exports, err := list()
	if err != nil {
		return nil, err
	}
	var all []*pkg
	for _, l := range own {
		p, err := parse(l)
		if err != nil {
			return nil, err
		}
		p.check(l.ImportPath, exports)
		all = append(all, p)
	}
	return all, nil
})

// list returns the packages of this module and where the export data of every
// package is.
func list() ([]listed, map[string]string, error) {
	command := exec.Command("go", "list", "-e", "-export", "-deps", "-json=ImportPath,Dir,Export,Standard,GoFiles,Imports,Module", "./...")
	command.Dir = root
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, complaint.String())
	}
	export := map[string]string{}
	var own []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		export[l.ImportPath] = l.Export
		if l.Module != nil && l.Module.Path == module {
			own = append(own, l)
		}
	}
	return own, export, nil
}

func parse(l listed) (*pkg, error) {
	p := &pkg{name: relative(l.ImportPath), imports: l.Imports, fset: token.NewFileSet()}
	for _, name := range l.GoFiles {
		file, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, file)
	}
	return p, nil
}

// check finds out what each name means.
func (p *pkg) check(path string, exports map[string]string) {
	p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{
		Importer: importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }),
		Error:    func(error) {},
	}
	// With an Error function the result is as complete as the source allows.
	_, _ = config.Check(path, p.fset, p.files, p.info)
}

func packages(t *testing.T) []*pkg {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const root = "../.."

func relative(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// at writes a place relative to the module.
func (p *pkg) at(pos token.Pos) string {
	place := p.fset.Position(pos)
	return fmt.Sprintf("%s:%d", filepath.Join(p.name, filepath.Base(place.Filename)), place.Line)
}

// matches reports whether name is covered by one of the space-separated patterns.
func matches(name, patterns string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		prefix, open := strings.CutSuffix(pattern, "...")
		if name == strings.TrimSuffix(prefix, "/") || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
