package house

import (
	"go/ast"
	"strings"
	"testing"

	"gatewayd/internal/mutation"
)

// Each mutation of the list stands in the code, each one in the code is in the list, and its test exists.
func TestTheMutationsAreTheList(t *testing.T) {
	all := wholeTree(t)
	inCode := map[string]bool{}
	tests := map[string]bool{}
	for _, s := range all.files {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[s.dir+"."+f.Name.Name] = true
			}
		}
		for _, name := range mutationsOf(s) {
			inCode[name] = true
		}
	}
	for _, m := range mutation.List {
		if !inCode[m.Name] {
			t.Errorf("mutation %q is in the list and nowhere in the code", m.Name)
		}
		delete(inCode, m.Name)
		if top, _, _ := strings.Cut(m.Test, "/"); !tests[m.Package+"."+top] {
			t.Errorf("mutation %q: there is no test %s in %s", m.Name, m.Test, m.Package)
		}
	}
	for name := range inCode {
		t.Errorf("mutation %q is not in the list: nobody proves it", name)
	}
}

// mutationsOf gives the names that a file asks for; one that is no literal stands for itself and is in no list.
func mutationsOf(s *source) (names []string) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "On" {
			return true
		}
		if pkg, ok := f.X.(*ast.Ident); !ok || s.imports[pkg.Name] != module+"/internal/mutation" {
			return true
		}
		name := "(not a literal in " + s.path + ")"
		if text, ok := call.Args[0].(*ast.BasicLit); ok {
			name = strings.Trim(text.Value, "\"")
		}
		names = append(names, name)
		return true
	})
	return names
}
