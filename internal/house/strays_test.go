package house

import (
	"go/ast"
	"slices"
	"testing"
)

// opens are what gives a writable handle on a file of ours.
var opens = []string{
	module + "/kanban.Open", module + "/sessiondb.Open", module + "/internal/sqlite.Open",
}

// The daemon opens through the registry only: a second handle beside the shared one would have its own idea of the
// file's identity, and closing it would end nothing that the registry knows. The verbs of the command line are
// processes of their own and open for themselves.
func TestTheDaemonOpensThroughTheRegistryOnly(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.code() {
		s.uses(func(name string, node ast.Node) {
			if slices.Contains(opens, name) && !under(s.dir, "cmd/gatewayd", "kanban", "sessiondb", "internal/chamber") {
				t.Errorf("%s: %s opens a file beside the registry", all.at(node), s.dir)
			}
		})
	}
	throughRegistry := 0
	daemonSide, plain := daemonFunctions(all)
	for name, f := range daemonSide {
		for _, node := range f.strays(plain) {
			if f.inRegistry[node] || registered(all, name) {
				throughRegistry++
				continue
			}
			t.Errorf("%s: %s opens a file of the daemon beside the registry", all.at(node), name)
		}
	}
	if throughRegistry < 2 {
		t.Errorf("%d ways through the registry were found: this test looks for the wrong thing", throughRegistry)
	}
}

// function is one function of cmd: what it opens, what stands inside a call of registry.For, whom it calls.
type function struct {
	opens      []ast.Node
	inRegistry map[ast.Node]bool
	calls      map[string]ast.Node
}

// strays gives the opens of a function and its calls of plain functions that open.
func (f function) strays(plain map[string]function) []ast.Node {
	found := slices.Clone(f.opens)
	for name, node := range f.calls {
		if called, ok := plain[name]; ok && len(called.opens) > 0 {
			found = append(found, node)
		}
	}
	return found
}

// daemonFunctions gives the methods of the daemon and of what holds a *daemon, and the plain functions beside them.
func daemonFunctions(t *tree) (daemonSide, plain map[string]function) {
	daemonSide, plain = map[string]function{}, map[string]function{}
	types := daemonTypes(t)
	for _, s := range t.code() {
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok || s.dir != "cmd/gatewayd":
			case f.Recv == nil:
				plain[f.Name.Name] = opensIn(s, f)
			case slices.Contains(types, receiver(f)):
				daemonSide[f.Name.Name] = opensIn(s, f)
			}
		}
	}
	return daemonSide, plain
}

func daemonTypes(t *tree) []string {
	types := []string{"daemon"}
	for _, s := range t.code() {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || s.dir != "cmd/gatewayd" {
				return true
			}
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				if star, ok := n.(*ast.StarExpr); ok {
					if name, ok := star.X.(*ast.Ident); ok && name.Name == "daemon" {
						types = append(types, spec.Name.Name)
					}
				}
				return true
			})
			return false
		})
	}
	return types
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

func opensIn(s *source, f *ast.FuncDecl) function {
	result := function{inRegistry: map[ast.Node]bool{}, calls: map[string]ast.Node{}}
	part := &source{imports: s.imports, ast: &ast.File{Name: s.ast.Name, Decls: []ast.Decl{f}}}
	part.uses(func(name string, node ast.Node) {
		if slices.Contains(opens, name) {
			result.opens = append(result.opens, node)
		}
	})
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok {
				result.calls[name.Name] = call
			}
		}
		return true
	})
	for _, call := range callsOfFor(part) {
		for _, node := range result.opens {
			if call.Pos() <= node.Pos() && node.End() <= call.End() {
				result.inRegistry[node] = true
			}
		}
	}
	return result
}

func callsOfFor(s *source) (calls []*ast.CallExpr) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if name, ok := call.Fun.(*ast.SelectorExpr); ok && name.Sel.Name == "For" {
			if pkg, ok := name.X.(*ast.Ident); ok && s.imports[pkg.Name] == module+"/registry" {
				calls = append(calls, call)
			}
		}
		return true
	})
	return calls
}

// registered reports whether a method is itself what registry.For was given.
func registered(t *tree, name string) bool {
	for _, s := range t.code() {
		for _, call := range callsOfFor(s) {
			for _, argument := range call.Args {
				if given, ok := argument.(*ast.SelectorExpr); ok && given.Sel.Name == name {
					return true
				}
			}
		}
	}
	return false
}
