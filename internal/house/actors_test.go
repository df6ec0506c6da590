package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	groupPath = "github.com/oklog/run"
	serveFile = "cmd/gatewayd/serve.go"
)

// order is the order of being told to stop. Every actor has its place in it; not every one exists yet.
var order = []string{"signals", "dispatcher", "api", "conversations", "gate", "notifier", "runs", "maintenance", "mcp", "watchdog", "reaper", "registry"}

// required are those without which the daemon is not the daemon.
var required = []string{"signals", "dispatcher", "api", "conversations", "maintenance", "watchdog", "reaper", "registry"}

// actorOf says which actor a package with a Run of its own is.
var actorOf = map[string]string{
	"gateway": "conversations", "gateway/runs": "runs", "gateway/provider": "gate", "gateway/tool": "mcp", "kanban/dispatch": "dispatcher", "kanban/notify": "notifier",
	"reaper": "reaper", "registry": "registry", "systemd": "watchdog",
}

func TestThereIsOneRunGroup(t *testing.T) {
	all := wholeTree(t)
	var made []string
	for _, s := range all.code() {
		for _, target := range s.imports {
			if target == groupPath && !under(s.dir, "cmd/gatewayd") {
				t.Errorf("%s imports %s: the one group is in %s", s.path, groupPath, serveFile)
			}
		}
		for _, node := range groupsMade(s) {
			made = append(made, all.at(node))
		}
	}
	if len(made) != 1 || !strings.HasPrefix(made[0], serveFile+":") {
		t.Errorf("a run.Group is made at %q, want one in %s", made, serveFile)
	}
}

// groupsMade gives the mentions of run.Group that are not behind a pointer: variables, fields, literals and new().
func groupsMade(s *source) (made []ast.Node) {
	behind := map[ast.Node]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok {
			behind[star.X] = true
		}
		return true
	})
	s.uses(func(name string, node ast.Node) {
		if name == groupPath+".Group" && !behind[node] {
			made = append(made, node)
		}
	})
	return made
}

func TestEveryActorIsInTheGroupInItsOrder(t *testing.T) {
	names, places := actorTable(t)
	for _, name := range required {
		if !slices.Contains(names, name) {
			t.Errorf("%s: actor %s is missing", serveFile, name)
		}
	}
	for i, name := range names {
		at := slices.Index(order, name)
		if at < 0 {
			t.Errorf("%s: actor %q has no place in the order of ending: give it one here and in the drawing", places[i], name)
		}
		if i > 0 && at <= slices.Index(order, names[i-1]) {
			t.Errorf("%s: actor %q must come before %q", places[i], name, names[i-1])
		}
	}
}

// actorTable reads the names out of the one table of actors in serve.go.
func actorTable(t *testing.T) (names, places []string) {
	t.Helper()
	all := wholeTree(t)
	for _, s := range all.code() {
		ast.Inspect(s.ast, func(n ast.Node) bool {
			table, ok := n.(*ast.CompositeLit)
			if !ok || !isActorList(table.Type) {
				return true
			}
			if s.path != serveFile {
				t.Errorf("%s: a second table of actors", all.at(table))
			}
			for _, row := range table.Elts {
				names, places = append(names, rowName(row)), append(places, all.at(row))
			}
			return false
		})
	}
	if len(names) == 0 {
		t.Fatalf("%s holds no table `[]actor{…}`", serveFile)
	}
	return names, places
}

func isActorList(e ast.Expr) bool {
	list, ok := e.(*ast.ArrayType)
	if !ok {
		return false
	}
	name, ok := list.Elt.(*ast.Ident)
	return ok && name.Name == "actor"
}

// rowName is the first text in a row: {name: "api", …} or {"api", …}.
func rowName(row ast.Expr) (name string) {
	ast.Inspect(row, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && name == "" {
			name, _ = strconv.Unquote(text.Value)
		}
		return name == ""
	})
	return name
}

// A package that has an actor but is in nobody's table would run for nobody, or beside the group.
func TestEveryPackageWithAnActorIsInTheTable(t *testing.T) {
	all := wholeTree(t)
	names, _ := actorTable(t)
	found := 0
	for _, s := range all.code() {
		for _, decl := range s.ast.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !isActor(f) || under(s.dir, "cmd") {
				continue
			}
			found++
			name, known := actorOf[s.dir]
			switch {
			case !known:
				t.Errorf("%s: %s has an actor that the table of actors does not know", all.at(f), s.dir)
			case !slices.Contains(names, name) || !all.importedBy("cmd/gatewayd", s.dir):
				t.Errorf("%s: the actor of %s is not in %s", all.at(f), s.dir, serveFile)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d actors were found: this test looks for the wrong thing", found)
	}
}

// isActor knows `Run(ctx context.Context) error` on a type, whose comment calls it an actor or which is exported.
func isActor(f *ast.FuncDecl) bool {
	if f.Recv == nil || f.Name.Name != "Run" || len(f.Type.Params.List) != 1 || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	param, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
	result, isName := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && isName && param.Sel.Name == "Context" && result.Name == "error"
}

func (t *tree) importedBy(dir, target string) bool {
	return slices.ContainsFunc(t.code(), func(s *source) bool {
		for _, path := range s.imports {
			if s.dir == dir && path == module+"/"+target {
				return true
			}
		}
		return false
	})
}
