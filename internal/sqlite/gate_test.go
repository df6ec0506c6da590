package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maintains is what gives maintenance away in the code: statements that rewrite or move a whole file, and the calls of
// the library that do.
var maintains = regexp.MustCompile(`^"?(VACUUM|REINDEX|optimize|(fresh\.)?journal_mode=.*|PRAGMA journal_mode=.*|wal_checkpoint.*)"?$|^(WALCheckpoint|BackupInit|Backup|Restore)$`)

// gated are the functions that may: each is reached through admit, or works alone on a file that it holds or made.
var gated = map[string]string{
	"checkpoint":    "asked by maintain and by mayCheckpoint",
	"Optimize":      "through maintain",
	"vacuum":        "through maintain",
	"copyTo":        "after admit, or on a file held alone",
	"changeJournal": "alone",
	"settleAlone":   "alone",
	"promote":       "alone",
	"sameJournal":   "alone",
	"reinstate":     "alone",
	"strategies":    "on a scratch copy",
	"recreateIndex": "on a scratch copy",
	"remakeIndexes": "on a scratch copy",
	"pourInto":      "on a scratch copy",
	"Copy":          "of a borrowed copy",
	"set":           "the decision of an open, which quarantines nothing yet",
	"OpenBare":      "tests and benchmarks",
	"checkWord":     "only names what callers may not run",
}

// Nothing maintains a database but what the gate has let through.
func TestNothingMaintainsADatabaseBesideTheGate(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range []string{".", "../../sessiondb", "../../kanban", "../../registry", "../../cmd/gatewayd", "../../gateway"} {
		for _, f := range parsed(t, dir) {
			ast.Inspect(f, func(n ast.Node) bool {
				fn, ok := n.(*ast.FuncDecl)
				if !ok {
					return true
				}
				for _, what := range maintenanceIn(fn) {
					if seen[fn.Name.Name] = true; gated[fn.Name.Name] == "" || dir != "." {
						t.Errorf("%s: %s runs %s beside the gate", dir, fn.Name.Name, what)
					}
				}
				return false
			})
		}
	}
	for name := range gated {
		if !seen[name] {
			t.Errorf("%s is said to maintain, and does not", name)
		}
	}
}

// maintenanceIn looks for texts of SQL, and for calls on the library's own connection.
func maintenanceIn(fn *ast.FuncDecl) (found []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BasicLit:
			if x.Kind == token.STRING && maintains.MatchString(strings.ReplaceAll(x.Value, "`", `"`)) {
				found = append(found, x.Value)
			}
		case *ast.SelectorExpr:
			if on, ok := x.X.(*ast.SelectorExpr); ok && on.Sel.Name == "db" && maintains.MatchString(x.Sel.Name) {
				found = append(found, x.Sel.Name)
			}
		}
		return true
	})
	return found
}

func parsed(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// Each constant of the type stands in the list, so that the tables of the rooms, which go by the list, miss none.
func TestTheListHoldsEachOperation(t *testing.T) {
	var consts []string
	for _, f := range parsed(t, ".") {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Operation" {
				consts = append(consts, strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
			}
			return true
		})
	}
	if len(consts) != len(Operations) {
		t.Errorf("%d operations are named, %d are in the list", len(consts), len(Operations))
	}
	for _, name := range consts {
		if !slices.Contains(Operations[:], Operation(name)) {
			t.Errorf("%s is not in the list", name)
		}
	}
}
