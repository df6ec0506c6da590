package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "gatewayd"

// source is one parsed Go file of the tree.
type source struct {
	path    string // from the top, with slashes
	dir     string // its package's folder; "" for the top
	test    bool
	ast     *ast.File
	imports map[string]string // local name to import path
}

type tree struct {
	fset  *token.FileSet
	files []*source
}

// readTree parses the tree once for all tests.
var readTree = sync.OnceValues(func() (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	err := eachFile(func(path string) error {
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		s, err := t.parse(path)
		if err == nil {
			t.files = append(t.files, s)
		}
		return err
	})
	return t, err
})

func wholeTree(t *testing.T) *tree {
	t.Helper()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.files) < 50 {
		t.Fatalf("only %d files were found: these tests read the wrong folder", len(all.files))
	}
	return all
}

const top = "../.."

// eachFile visits the files that belong to the project, by their path from the top.
func eachFile(visit func(path string) error) error {
	return fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "build", "node_modules"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || path == ".git" { // of a second working tree it is a file
			return nil
		}
		return visit(path)
	})
}

func (t *tree) parse(path string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		return nil, err
	}
	return t.parseText(path, text)
}

func (t *tree) parseText(path string, text []byte) (*source, error) {
	file, err := parser.ParseFile(t.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir := ""
	if i := strings.LastIndex(path, "/"); i >= 0 {
		dir = path[:i]
	}
	s := &source{path: path, dir: dir, test: strings.HasSuffix(path, "_test.go"), ast: file, imports: map[string]string{}}
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		s.imports[localName(spec, target)] = target
	}
	return s, nil
}

// localName is what a file calls an import. A version at the end of a path is not its name.
func localName(spec *ast.ImportSpec, target string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	parts := strings.Split(target, "/")
	last := parts[len(parts)-1]
	if len(parts) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		last = parts[len(parts)-2]
	}
	return last
}

// code gives the files that ship: everything but tests.
func (t *tree) code() []*source {
	var code []*source
	for _, s := range t.files {
		if !s.test {
			code = append(code, s)
		}
	}
	return code
}

func (t *tree) at(node ast.Node) string { return t.fset.Position(node.Pos()).String() }

// uses gives every NAME of a package that a file mentions, as "import/path.Name", with where.
func (s *source) uses(visit func(name string, node ast.Node)) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				if target, ok := s.imports[pkg.Name]; ok {
					visit(target+"."+sel.Sel.Name, sel)
				}
			}
		}
		return true
	})
}

// under reports whether a package folder is one of these or below one.
func under(dir string, rooms ...string) bool {
	return slices.ContainsFunc(rooms, func(room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") })
}
