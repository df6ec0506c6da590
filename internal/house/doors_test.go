package house

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// door is one thing that only one room may do. Tests may pass by.
type door struct {
	what    string
	room    string
	imports []string            // import paths, and all below them
	names   []string            // "import/path.Name"
	texts   []string            // beginnings of string constants
	except  map[string][]string // by folder: imports, names and texts that are free there
}

var doors = []door{
	{
		what: "open SQLite files", room: "internal/sqlite",
		imports: []string{"github.com/ncruces", "database/sql", "modernc.org/sqlite", "github.com/mattn/go-sqlite3"},
	},
	{
		what: "start or signal processes", room: "reaper",
		imports: []string{"os/exec"},
		names: []string{
			"os.StartProcess", "os.FindProcess", "os.Process", "os.ProcAttr",
			"syscall.Kill", "syscall.ForkExec", "syscall.StartProcess", "syscall.Exec", "syscall.SYS_KILL", "syscall.SYS_TGKILL",
			"golang.org/x/sys/unix.Kill", "golang.org/x/sys/unix.Tgkill", "golang.org/x/sys/unix.Exec",
			"golang.org/x/sys/unix.PidfdOpen", "golang.org/x/sys/unix.PidfdSendSignal",
			"golang.org/x/sys/unix.SYS_KILL", "golang.org/x/sys/unix.SYS_TGKILL", "golang.org/x/sys/unix.SYS_PIDFD_SEND_SIGNAL",
		},
		// Of tests alone, which an arrow sees to.
		except: map[string][]string{"internal/peer": {"os/exec"}},
	},
	{
		what: "read the environment", room: "config",
		names: []string{
			"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.Setenv", "os.Unsetenv", "os.Clearenv",
			"os.UserHomeDir", "os.UserConfigDir", "os.UserCacheDir", "syscall.Getenv", "syscall.Environ",
			"golang.org/x/sys/unix.Getenv", "golang.org/x/sys/unix.Environ",
		},
		// Only in the build with the tag mutate.
		except: map[string][]string{"internal/mutation": {"os.Getenv"}},
	},
	{
		what: "read /proc", room: "internal/procfs",
		texts: []string{"/proc/"},
		// What a keeper is started from: a program to run, not a file to read.
		except: map[string][]string{"reaper": {"/proc/self/exe"}},
	},
}

func TestTheFourDoors(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.code() {
		for _, d := range doors {
			for _, breach := range d.breaches(all, s) {
				t.Errorf("%s: only %s may %s", breach, d.room, d.what)
			}
		}
	}
}

// breaches gives the places where a file passes by the door.
func (d door) breaches(t *tree, s *source) (places []string) {
	if under(s.dir, d.room) {
		return nil
	}
	for _, spec := range s.ast.Imports {
		if target := strings.Trim(spec.Path.Value, `"`); !slices.Contains(d.except[s.dir], target) && slices.ContainsFunc(d.imports, func(root string) bool { return under(target, root) }) {
			places = append(places, t.at(spec)+": import of "+target)
		}
	}
	s.uses(func(name string, node ast.Node) {
		if slices.Contains(d.names, name) && !slices.Contains(d.except[s.dir], name) {
			places = append(places, t.at(node)+": "+name)
		}
	})
	ast.Inspect(s.ast, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING || slices.Contains(d.except[s.dir], strings.Trim(text.Value, "\"`")) {
			return true
		}
		if slices.ContainsFunc(d.texts, func(start string) bool { return strings.HasPrefix(text.Value[1:], start) }) {
			places = append(places, t.at(text)+": "+text.Value)
		}
		return true
	})
	return places
}

// A dot import would let names through the doors unseen.
func TestNothingIsImportedWithoutItsName(t *testing.T) {
	all := wholeTree(t)
	for _, s := range all.files {
		for _, spec := range s.ast.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				t.Errorf("%s: dot import", all.at(spec))
			}
		}
	}
}

// The doors themselves must catch what they are for, or the test above proves nothing.
func TestTheDoorsCatch(t *testing.T) {
	for text, want := range map[string]int{
		`package p; import "os/exec"`:                                               1,
		`package p; import sq "github.com/ncruces/go-sqlite3/driver"`:               1,
		`package p; import k "syscall"; func f() { k.Kill(1, 9) }`:                  1,
		`package p; import "golang.org/x/sys/unix"; var f = unix.PidfdSendSignal`:   1,
		`package p; import "os"; func f(p *os.Process) { p.Kill() }`:                1,
		`package p; import "os"; var x = os.Getenv("X")`:                            1,
		`package p; import o "os"; func f() { _, _ = o.UserHomeDir() }`:             1,
		"package p; const x = `/proc/self/stat`":                                    1,
		`package p; const x = "/proc/%d/stat" // and "/proc/" in a comment is free`: 1,
		`package p; import "os"; var x = os.Args; const y = "/process"`:             0,
	} {
		all := &tree{fset: token.NewFileSet()}
		for _, path := range []string{"gateway/x.go", "kanban/dispatch/x.go"} {
			s, err := all.parseText(path, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, d := range doors {
				found = append(found, d.breaches(all, s)...)
			}
			if len(found) != want {
				t.Errorf("%s\nfound %q, want %d", text, found, want)
			}
		}
	}
}
