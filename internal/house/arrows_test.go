package house

import (
	"go/token"
	"strings"
	"testing"
)

// arrow is a direction in which nobody may know anybody. from and to are folders with all below them; except are
// parts of to that are free.
type arrow struct {
	from, to string
	except   []string
	why      string
}

// anywhere is every package of the module.
const anywhere = ""

var arrows = []arrow{
	{from: anywhere, to: "cmd", why: "cmd wires, nothing knows it"},
	{from: anywhere, to: "e2e", why: "tests of the whole are nobody's part"},
	{from: anywhere, to: "internal/house", why: "the house's rules are tests"},
	{from: anywhere, to: "internal/sqlite/faultfs", why: "disks are broken by tests alone"},
	{from: anywhere, to: "internal/peer", why: "only tests start whoever they like"},
	{from: anywhere, to: "internal/vigil", why: "only tests ask again and again"},
	{from: "internal/problem", to: anywhere, why: "what everybody uses knows nobody"},
	{from: "internal/procfs", to: anywhere, except: []string{"internal/problem", "internal/mutation"}, why: "what everybody uses knows nobody"},
	{from: "internal/sqlite", to: anywhere, except: []string{"internal"}, why: "the door to SQLite knows no room"},
	{from: "config", to: anywhere, except: []string{"internal"}, why: "settings know no room"},
	{from: "registry", to: anywhere, except: []string{"internal/problem", "internal/mutation"}, why: "the registry is generic"},
	{from: "reaper", to: anywhere, except: []string{"internal"}, why: "a keeper knows no card and no turn"},
	{from: "systemd", to: anywhere, except: []string{"internal"}, why: "it tells, it does not ask"},
	{from: "sessiondb", to: anywhere, except: []string{"internal"}, why: "rows know nobody, the registry least"},
	{from: "kanban", to: "gateway", why: "boards do not know conversations"},
	{from: "kanban", to: "sessiondb", why: "boards do not know conversations"},
	{from: "gateway", to: "kanban/dispatch", why: "the api declares what it wants to know of the dispatcher"},
}

func TestTheArrows(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.code() {
		for _, wrong := range wrongArrows(all, s) {
			t.Error(wrong)
		}
	}
}

func wrongArrows(t *tree, s *source) (wrong []string) {
	for _, spec := range s.ast.Imports {
		target, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if !ours {
			continue
		}
		for _, a := range arrows {
			if a.forbids(s.dir, target) {
				wrong = append(wrong, t.at(spec)+": "+s.dir+" must not import "+target+": "+a.why)
			}
		}
	}
	return wrong
}

// forbids leaves a folder free to use its own parts.
func (a arrow) forbids(from, to string) bool {
	switch {
	case a.from != anywhere && !under(from, a.from):
		return false
	case a.to != anywhere && !under(to, a.to):
		return false
	case a.from != anywhere && under(to, a.from), a.to != anywhere && under(from, a.to):
		return false
	}
	return !under(to, a.except...)
}

func TestTheArrowsCatch(t *testing.T) {
	for _, c := range []struct {
		path, target string
		wrong        bool
	}{
		{"kanban/worker/x.go", "gateway", true},
		{"kanban/x.go", "gateway/provider", true},
		{"kanban/dispatch/x.go", "sessiondb", true},
		{"kanban/dispatch/x.go", "kanban/worker", false},
		{"kanban/dispatch/x.go", "registry", false},
		{"sessiondb/x.go", "registry", true},
		{"sessiondb/x.go", "internal/sqlite", false},
		{"gateway/api/x.go", "cmd/gatewayd", true},
		{"gateway/x.go", "sessiondb", false},
		{"internal/problem/x.go", "internal/procfs", true},
		{"internal/procfs/x.go", "config", true},
		{"registry/x.go", "internal/sqlite", true},
		{"cmd/gatewayd/x.go", "gateway", false},
		{"cmd/gatewayd/x.go", "cmd/gatewayd/verb", false},
	} {
		all := &tree{fset: token.NewFileSet()}
		s, err := all.parseText(c.path, []byte(`package p; import _ "`+module+"/"+c.target+`"`))
		if err != nil {
			t.Fatal(err)
		}
		if wrong := wrongArrows(all, s); (len(wrong) > 0) != c.wrong {
			t.Errorf("%s imports %s: %q", c.path, c.target, wrong)
		}
	}
}
