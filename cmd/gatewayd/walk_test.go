package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gatewayd/internal/sqlite"
)

// ruined are the boards that no verb may write, each with what makes it. Nothing lies beside the file.
var ruined = map[string]func(t *testing.T, path string){
	"corrupt": func(t *testing.T, path string) {
		need(t, os.WriteFile(path, bytes.Repeat([]byte("this is no database "), 500), 0o600))
	},
	"missing": func(*testing.T, string) {},
	"empty":   func(t *testing.T, path string) { need(t, os.WriteFile(path, nil, 0o600)) },
	"foreign": func(t *testing.T, path string) {
		f, err := sqlite.Open(t.Context(), sqlite.Options{
			Path: path, Create: true, Journal: sqlite.JournalConfig{Mode: "delete"}, Stale: func(*sqlite.Conn) (bool, error) { return true, nil },
			Migrate: func(tx *sqlite.Tx) error { return tx.Script("CREATE TABLE bookmarks(url TEXT)") },
		})
		need(t, err)
		need(t, f.Close())
	},
}

// contents is every file below a directory with what is in it.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	need(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		sum := ""
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = fmt.Sprintf(" %d %x", len(raw), sha256.Sum256(raw))
		}
		fmt.Fprintf(&out, "%s %v%s\n", path, info.Mode(), sum)
		return nil
	}))
	return out.String()
}

// leaves gives every verb below one that does something by itself.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.Name() == "boards" || c.Name() == "dispatch" { // about the directory of boards, of which create makes one; about the daemon
			continue
		}
		if c.HasSubCommands() {
			list = append(list, leaves(c)...)
			continue
		}
		list = append(list, c)
	}
	return list
}

// arguments for the verbs to which a card is not enough.
var arguments = map[string][]string{
	"create": {"a title"}, "list": {}, "stats": {}, "events": {}, "diagnostics": {}, "watch": {}, "assignees": {}, "timers": {}, "workflow": {}, "gc": {},
	"pause": {"because"}, "resume": {}, "drain": {}, "outbox": {}, "subscriptions": {},
	"subscribe": {"t_1", "--session", "s_1"}, "notify-subscribe": {"t_1", "--session", "s_1"},
	"link": {"t_1", "t_2"}, "unlink": {"t_1", "t_2"}, "assign": {"t_1", "lane"}, "comment": {"t_1", "words"}, "block": {"t_1", "why"},
}

func TestNoVerbWritesOrMakesABoardThatIsNotWhole(t *testing.T) {
	for name, ruin := range ruined {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			path := filepath.Join(home, "kanban.db")
			ruin(t, path)
			before := contents(t, home)
			run := func(args ...string) (code int, out, err string) {
				var stdout, stderr bytes.Buffer
				code = execute(t.Context(), args, stdio{in: strings.NewReader(""), out: &stdout, err: &stderr, environ: []string{"HOME=" + home, "GATEWAYD_HOME=" + home, "PATH=/usr/bin:/bin", "USER=me"}})
				return code, stdout.String(), stderr.String()
			}
			tried := 0
			for _, verb := range leaves((&cli{}).kanbanVerb()) {
				code, said := attempt(run, verb)
				if code == exitUsage {
					t.Logf("kanban %s was not tried: %s", verb.Name(), said)
					continue
				}
				tried++
				if code == 0 || strings.Count(said, "\n") != 1 || !strings.Contains(said, "kanban.db") {
					t.Errorf("kanban %s: exit code %d, %q", verb.Name(), code, said)
				}
				if after := contents(t, home); after != before {
					t.Fatalf("kanban %s changed the directory\nbefore:\n%safter:\n%s", verb.Name(), before, after)
				}
			}
			if tried < 20 {
				t.Errorf("only %d verbs were tried", tried)
			}
			for _, args := range [][]string{{"why"}, {"why", "t_1"}, {"status"}, {"doctor"}} {
				run(args...)
				if after := contents(t, home); after != before {
					t.Fatalf("%v changed the directory\nbefore:\n%safter:\n%s", args, before, after)
				}
			}
		})
	}
}

// attempt gives a verb as many cards as it wants.
func attempt(run func(...string) (int, string, string), verb *cobra.Command) (code int, said string) {
	given, known := arguments[verb.Name()]
	tries := [][]string{given}
	if !known {
		tries = [][]string{{"t_1"}, {}, {"t_1", "words"}, {"1"}}
	}
	for _, args := range tries {
		if code, _, said = run(append(strings.Fields(verb.CommandPath()), args...)...); code != exitUsage {
			break
		}
	}
	return code, said
}

func TestWhyAnswersForADamagedBoardToo(t *testing.T) {
	home := t.TempDir()
	ruined["corrupt"](t, filepath.Join(home, "kanban.db"))
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"why", "t_1"}, stdio{in: strings.NewReader(""), out: &out, err: &errs, environ: []string{"HOME=" + home, "GATEWAYD_HOME=" + home}})
	if code != 0 || !strings.Contains(out.String(), "board_disabled") || !strings.Contains(out.String(), "remedy:") {
		t.Errorf("%d %s %s", code, out.String(), errs.String())
	}
}
