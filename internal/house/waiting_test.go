package house

import (
	"go/ast"
	"go/token"
	"testing"
)

// rhythms are the tests in which something has to happen every so often: what beats is the test's own doing.
var rhythms = map[string]string{
	"e2e/compaction_test.go":           "a model that tells a summary slowly",
	"e2e/figures_daemon_test.go":       "descriptors are counted while a daemon starts",
	"e2e/figures_store_test.go":        "rows are appended at the pace of a conversation",
	"e2e/gateway_chats_test.go":        "people write every so often",
	"e2e/life_test.go":                 "somebody presses Ctrl-C again and again",
	"e2e/soak_house_test.go":           "people write every so often, for an hour",
	"e2e/soak_test.go":                 "memory is sampled for an hour",
	"internal/hermeshome/kill_test.go": "the moment to kill at is over in less than a millisecond",
	"kanban/dispatch/fixture_test.go":  "ticks are what is tested",
	"sessiondb/bench_test.go":          "rows are appended at the pace of a conversation",
}

// A test waits for what happens. What gives no sign is asked for in internal/vigil and nowhere else, which is also where
// time is let pass, for a reason that is written beside it. On the faked clock of a bubble waiting costs nothing.
func TestNoTestSleeps(t *testing.T) {
	all := wholeTree(t)
	inUse := map[string]bool{}
	for _, files := range testsByFolder(all) {
		bubbles := bubblesOf(files)
		for _, s := range files {
			waitings(s, func(what string, loop bool, path []ast.Node) {
				if bubbles.hold(s, path) {
					return
				}
				if loop && rhythms[s.path] != "" {
					inUse[s.path] = true
					return
				}
				t.Errorf("%s: %s in a test; see internal/vigil", all.at(path[len(path)-1]), what)
			})
		}
	}
	for path := range rhythms {
		if !inUse[path] {
			t.Errorf("%s beats no more: take it off the list", path)
		}
	}
}

func testsByFolder(all *tree) map[string][]*source {
	out := map[string][]*source{}
	for _, s := range all.files {
		if s.test && !under(s.dir, "internal/tools") {
			out[s.dir] = append(out[s.dir], s)
		}
	}
	return out
}

// waitings gives each place where real time would pass: a sleep, the bare receipt from a timer, and (loop) what asks or
// acts every so often. The path leads from the file to the name.
func waitings(s *source, visit func(what string, loop bool, path []ast.Node)) {
	walk(s.ast, func(path []ast.Node) {
		name := s.nameOf(path[len(path)-1])
		switch {
		case name == "time.Sleep":
			visit("a sleep", false, path)
		case name == "time.NewTicker" || name == "time.Tick":
			visit("a ticker", true, path)
		case name == "time.After" && among[*ast.CommClause](path):
			if loopAround(path) {
				visit("a loop that asks every so often", true, path)
			}
		case name == "time.After" && among[*ast.UnaryExpr](path):
			visit("a sleep by another name", false, path)
		}
	})
}

// walk visits each node with the path that leads to it.
func walk(root ast.Node, visit func(path []ast.Node)) {
	var path []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		visit(path)
		return true
	})
}

// nameOf gives "import/path.Name" of a mention of another package, else nothing.
func (s *source) nameOf(n ast.Node) string {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok && s.imports[pkg.Name] != "" {
			return s.imports[pkg.Name] + "." + sel.Sel.Name
		}
	}
	return ""
}

// among says whether a node of this kind holds the last one as its own: no function literal and no block lies between.
func among[N ast.Node](path []ast.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		if _, ok := path[i].(N); ok {
			return true
		}
		switch path[i].(type) {
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// loopAround says whether a loop of the same function goes round the last node. A deadline that is made before the loop is
// not in it; one `time.After` with a bound far off is: that is a bound for each turn, and no question.
func loopAround(path []ast.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch path[i].(type) {
		case *ast.ForStmt:
			return short(path)
		case *ast.FuncLit, *ast.RangeStmt:
			return false
		}
	}
	return false
}

// short says whether the time after which the last node of a path fires is given in milliseconds or less.
func short(path []ast.Node) bool {
	call, ok := path[len(path)-2].(*ast.CallExpr)
	found := false
	if ok && len(call.Args) == 1 {
		ast.Inspect(call.Args[0], func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				found = found || sel.Sel.Name == "Millisecond" || sel.Sel.Name == "Microsecond"
			}
			return true
		})
	}
	return found
}

func TestTheWaitingIsSeen(t *testing.T) {
	for _, c := range []struct {
		body string
		seen int
	}{
		{"time.Sleep(1)", 1},
		{"<-time.After(time.Second)", 1},
		{"go func() { time.Sleep(1) }()", 1},
		{"tick := time.NewTicker(1); <-tick.C", 1},
		{"for { select { case <-time.After(5 * time.Millisecond): } }", 1},
		{"for { select { case <-time.After(time.Minute): } }", 0},
		{"select { case <-time.After(5 * time.Millisecond): }", 0},
		{"synctest.Test(t, func(t *testing.T) { time.Sleep(1); naps() })", 0},
		{"synctest.Test(t, func(t *testing.T) { go func() { <-time.After(1) }() })", 0},
		{"opens(func() { time.Sleep(1) })", 0},
		{"time.Sleep(1); synctest.Test(t, func(t *testing.T) {})", 1},
		{"naps()", 1}, // called outside of a bubble, so it sleeps in truth
	} {
		all := &tree{fset: token.NewFileSet()}
		s, err := all.parseText("gateway/x_test.go", []byte(`package x
import ("testing"; "testing/synctest"; "time")
func naps() { time.Sleep(1) }
func opens(f func()) { synctest.Test(nil, func(t *testing.T) { f(); naps() }) }
func TestX(t *testing.T) { `+c.body+` }`))
		if err != nil {
			t.Fatal(err)
		}
		seen, b := 0, bubblesOf([]*source{s})
		waitings(s, func(_ string, _ bool, path []ast.Node) {
			if !b.hold(s, path) {
				seen++
			}
		})
		if seen != c.seen {
			t.Errorf("%s: seen %d times instead of %d", c.body, seen, c.seen)
		}
	}
}
