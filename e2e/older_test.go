package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/vigil"
)

var older = flag.Bool("older", false, "build the newest program of an earlier schema from the history, and go back to it (make older)")

// schemaLine is where the program says which version of the store it knows.
var schemaLine = regexp.MustCompile(`const schemaVersion = (\d+)`)

// buildOlder makes the last program that knew only an earlier version of the store, from the commit that it was.
func buildOlder(t *testing.T) (path, version string) {
	t.Helper()
	const file = "sessiondb/schema.go"
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", ".."}, args...)...).Output()
		if err != nil {
			t.Skipf("SKIPPED: git %s: %v: there is no history here that an older program could be built from", strings.Join(args, " "), err)
		}
		return string(out)
	}
	text, err := os.ReadFile("../" + file)
	if err != nil {
		t.Fatal(err)
	}
	now, commit := schemaLine.FindStringSubmatch(string(text))[1], ""
	for _, c := range strings.Fields(git("log", "--format=%H", "--", file)) {
		if m := schemaLine.FindStringSubmatch(git("show", c+":"+file)); m != nil && m[1] != now {
			commit, version = c, m[1]
			break
		}
	}
	if commit == "" {
		t.Skip("SKIPPED: the history that is here knows no earlier version of the store")
	}
	dir := t.TempDir()
	source, path := filepath.Join(dir, "source.tar"), filepath.Join(dir, "gatewayd")
	git("archive", "--output="+source, commit)
	if out, err := exec.Command("tar", "-x", "-C", dir, "-f", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/gatewayd")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", commit, err, out)
	}
	t.Logf("the older program is %s, of version %s", commit, version)
	return path, version
}

// A program of an earlier version is put back: on the store of this one it refuses in one line that names both versions and changes
// nothing; with the copy from before the upgrade it goes on, with all that was there then.
func TestAnOlderProgramRefusesANewerStoreAndGoesOnWithTheCopy(t *testing.T) {
	if !*older {
		t.Skip("SKIPPED: it builds a program of an earlier commit; make older")
	}
	was, version := buildOlder(t)
	home := newHome(t, "api: {addr: \"127.0.0.1:0\"}\nmodel: {provider: offline}\nkanban: {dispatch: false}\n")
	run := func(with string, args ...string) (string, string, int) {
		t.Helper()
		return cliOf(t, with, "", home, args...)
	}
	must := func(with string, args ...string) string {
		t.Helper()
		out, errs, code := run(with, args...)
		if code != 0 {
			t.Fatalf("%s %v: %d: %s", filepath.Base(filepath.Dir(with)), args, code, errs)
		}
		return out
	}
	serve := func(with string) (stop func()) {
		t.Helper()
		d := exec.Command(with, "--home", home)
		d.Env = homeEnv(home)
		if err := d.Start(); err != nil {
			t.Fatal(err)
		}
		if !vigil.Until(patience, nil, func() bool { _, _, code := run(with, "status"); return code == 0 }) {
			_ = d.Process.Kill()
			t.Fatalf("%s is not ready", with)
		}
		return func() {
			_ = d.Process.Signal(syscall.SIGTERM)
			_ = d.Wait()
		}
	}
	stop := serve(was)
	must(was, "chat", "said to the older one")
	must(was, "kanban", "boards", "create", "default")
	must(was, "kanban", "create", "A card of the older one")
	stop()
	before := must(was, "sessions", "export", "--all")

	stop = serve(program) // the upgrade
	must(program, "chat", "said to the newer one")
	must(program, "kanban", "create", "A card of the newer one")
	stop()

	files := func() string {
		var sums strings.Builder
		for _, name := range []string{"state.db", "state.db-wal"} {
			fmt.Fprintf(&sums, "%s %x\n", name, digest(t, filepath.Join(home, name)))
		}
		return sums.String()
	}
	kept := files()
	stop = serve(was)
	out, errs, code := run(was, "chat", "and again?")
	t.Logf("the older program says: %d, %s", code, errs)
	line := strings.TrimSpace(errs)
	if code == 0 || out != "" || strings.Contains(line, "\n") || !strings.Contains(line, "schema version") || !strings.Contains(line, "up to "+version) {
		t.Errorf("on the newer store: %d, %q, %q", code, out, errs)
	}
	if out := must(was, "kanban", "list"); !strings.Contains(out, "A card of the newer one") {
		t.Errorf("the board, whose format only grows: %s", out)
	}
	stop()
	if got := files(); got != kept {
		t.Errorf("it changed files:\n%s\nto\n%s", kept, got)
	}

	var listed struct {
		Backups []struct {
			Dir      string
			Manifest struct {
				Database string
				Upgrade  bool
			}
		}
	}
	if err := json.Unmarshal([]byte(must(program, "backup", "list", "--json")), &listed); err != nil {
		t.Fatal(err)
	}
	for _, b := range listed.Backups {
		if b.Manifest.Upgrade && b.Manifest.Database == "state.db" {
			must(was, "restore", b.Dir)
		}
	}
	if after := must(was, "sessions", "export", "--all"); after != before {
		t.Errorf("the conversations were\n%s\nand are\n%s", before, after)
	}
	stop = serve(was)
	must(was, "chat", "and it goes on")
	stop()
	if aside, _ := filepath.Glob(filepath.Join(home, "state.db.replaced-*")); len(aside) == 0 {
		t.Error("what was said after the upgrade is not kept aside")
	}
}
