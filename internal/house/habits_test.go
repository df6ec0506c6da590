package house

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	all := wholeTree(t)
	comment, where := map[string]string{}, map[string]string{}
	for _, s := range all.code() {
		if where[s.dir] = s.path; s.ast.Doc != nil {
			if comment[s.dir] != "" {
				t.Errorf("%s: a second package comment", s.path)
			}
			comment[s.dir] = s.ast.Doc.Text()
		}
	}
	for dir := range where {
		name := dir[strings.LastIndex(dir, "/")+1:]
		text := comment[dir]
		if want := "Package " + name + " "; !strings.HasPrefix(text, want) && !(under(dir, "cmd") && strings.HasPrefix(text, "Command "+name+" ")) {
			t.Errorf("%s: the package comment must begin %q", dir, want)
		}
		if len(strings.Fields(text)) < 12 {
			t.Errorf("%s: the package comment says too little", dir)
		}
	}
}

func TestNothingHappensBeforeMain(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.code() {
		for _, decl := range s.ast.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init", all.at(f))
			}
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.files {
		if lines := all.fset.Position(s.ast.FileEnd).Line; lines > 600 {
			t.Errorf("%s has %d lines; at most 600", s.path, lines)
		}
	}
}

// hidingLock may be named by the door to SQLite, which refuses to be built with it.
const hidingLock = "a lock that hides from other processes"

// words that must not be anywhere. They are put together here so that this file does not hold them.
var words = map[string]*regexp.Regexp{
	hidingLock:                       regexp.MustCompile("sqlite3_" + "(flock|dotlk)"),
	"a folder of somebody's machine": regexp.MustCompile(`(?m)(^|[^\w.])/(ro` + `ot|wo` + `rk|Us` + `ers)/\w`),
	"a package host":                 regexp.MustCompile(`proxy\.` + `golang|registry\.` + `npmjs|deb\.` + `debian`),
	"work that is not done":          regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`),
}

func TestNoForbiddenWords(t *testing.T) {
	seen := 0
	err := eachFile(func(path string) error {
		text, err := os.ReadFile(filepath.Join(top, path))
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		seen++
		for what, word := range words {
			if what == hidingLock && strings.HasPrefix(path, "internal/sqlite/") {
				continue
			}
			for _, at := range word.FindAllIndex(text, -1) {
				t.Errorf("%s:%d: %s: %q", path, 1+bytes.Count(text[:at[0]+1], []byte("\n")), what, text[at[0]:at[1]])
			}
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("read %d files: %v", seen, err)
	}
}

// What ships is listed in go.mod and fetched as it is: no copies, no other places, no tools among it.
func TestTheModuleListsWhatShips(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, forbidden := range []string{"replace ", "\ntool ", "honnef.co", "mvdan.cc/gofumpt", "golang.org/x/vuln"} {
		if strings.Contains(string(text), forbidden) {
			t.Errorf("go.mod holds %q", forbidden)
		}
	}
	for _, path := range []string{"vendor", "go.work"} {
		if _, err := os.Stat(filepath.Join(top, path)); err == nil {
			t.Errorf("%s is in the tree", path)
		}
	}
}
