package house

import "go/ast"

// bubbles are the functions of a package's tests in which time is faked, by their names.
type bubbles struct {
	inside map[string]bool // each is only ever called from within a bubble
	opens  map[string]bool // each makes a bubble around what it is handed
}

func bubblesOf(files []*source) bubbles {
	b := bubbles{inside: map[string]bool{}, opens: openers(files)}
	for grown := true; grown; {
		grown = false
		for name, inside := range b.calls(files) {
			grown = grown || inside && !b.inside[name]
			b.inside[name] = inside
		}
	}
	return b
}

// openers are the functions that take a function and make a bubble.
func openers(files []*source) map[string]bool {
	found := map[string]bool{}
	for _, s := range files {
		walk(s.ast, func(path []ast.Node) {
			if len(path) < 2 || s.nameOf(path[len(path)-1]) != "testing/synctest.Test" {
				return
			}
			if f, ok := path[1].(*ast.FuncDecl); ok && takesAFunction(f) {
				found[f.Name.Name] = true
			}
		})
	}
	return found
}

func takesAFunction(f *ast.FuncDecl) bool {
	for _, field := range f.Type.Params.List {
		if _, ok := field.Type.(*ast.FuncType); ok {
			return true
		}
	}
	return false
}

// calls tells of each function that is called by its name whether all its calls are in bubbles.
func (b bubbles) calls(files []*source) map[string]bool {
	inside := map[string]bool{}
	for _, s := range files {
		walk(s.ast, func(path []ast.Node) {
			if call, ok := path[len(path)-1].(*ast.CallExpr); ok {
				name := called(call)
				before, known := inside[name]
				inside[name] = (before || !known) && b.hold(s, path)
			}
		})
	}
	return inside
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// hold says whether the end of a path lies in what is handed to a bubble, or in a function that is only called there.
func (b bubbles) hold(s *source, path []ast.Node) bool {
	for i, n := range path[:len(path)-1] {
		switch n := n.(type) {
		case *ast.CallExpr:
			if path[i+1] != n.Fun && (s.nameOf(n.Fun) == "testing/synctest.Test" || b.opens[called(n)]) {
				return true
			}
		case *ast.FuncDecl:
			if b.inside[n.Name.Name] {
				return true
			}
		}
	}
	return false
}
