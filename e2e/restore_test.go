package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A restore is rehearsed as it would happen: a daemon with conversations and boards, a backup beside it, the daemon killed, its databases
// gone, and everything back, on this machine and on a new one.
func TestWhatWasBackedUpIsBackAfterTheHomeIsGone(t *testing.T) {
	t.Parallel()
	home := newHome(t, "api: {addr: \"127.0.0.1:0\"}\nmodel: {provider: offline}\nkanban: {dispatch: false}\n")
	d := start(t, home)
	plan := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(plan, []byte("the plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := func(args ...string) string {
		t.Helper()
		out, errs, code := cli(t, home, args...)
		if code != 0 {
			t.Fatalf("%v ended with %d: %s", args, code, errs)
		}
		return out
	}
	for _, board := range []string{"default", "side"} {
		done("kanban", "boards", "create", board)
		card := done("kanban", "create", "A card of "+board, "--board", board, "--body", "what is to be done", "--json")
		_, id, _ := strings.Cut(card, `"id": "`)
		id, _, _ = strings.Cut(id, `"`)
		done("kanban", "attach", id, plan, "--board", board)
	}
	done("chat", "hello")
	sessions, boards := done("sessions", "export", "--all"), func() string {
		return done("kanban", "list", "--json", "--board", "default") + done("kanban", "list", "--json", "--board", "side")
	}
	cards := boards()
	done("backup", "--with-secrets")
	backups := filepath.Join(home, "backups")

	// Beside the daemon nothing is restored, and it is named.
	if _, errs, code := cli(t, home, "restore", backups); code == 0 || !strings.Contains(errs, "gatewayd") || !strings.Contains(errs, "pid") && !strings.Contains(errs, "process") {
		t.Errorf("beside the daemon: %d, %s", code, errs)
	}
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.end()
	for _, name := range []string{"state.db", "state.db-wal", "state.db-shm", "kanban.db", "kanban.db-wal", "kanban.db-shm", "kanban", ".env", "api.key", "keys.json"} {
		if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	whole := func() {
		t.Helper()
		done("sessions", "verify", "--deep")
		if got := done("sessions", "export", "--all"); got != sessions {
			t.Errorf("conversations were\n%s\nand are\n%s", sessions, got)
		}
		if got := boards(); strings.ReplaceAll(got, home, "") != strings.ReplaceAll(cards, filepath.Dir(backups), "") {
			t.Errorf("cards were\n%s\nand are\n%s", cards, got)
		}
		for _, dir := range []string{"kanban", "kanban/boards/side"} {
			if found, _ := filepath.Glob(filepath.Join(home, dir, "attachments", "*", "plan.txt")); len(found) != 1 {
				t.Errorf("attachments below %s: %v", dir, found)
			}
		}
		for _, board := range []string{"default", "side"} {
			if got := done("kanban", "attach-get", "1", "--board", board); got != "the plan" {
				t.Errorf("the file of board %s is %q", board, got)
			}
		}
		if _, err := os.Stat(filepath.Join(home, "api.key")); err != nil {
			t.Error(err)
		}
	}
	done("restore", backups)
	whole()

	home = filepath.Join(t.TempDir(), "new") // another machine
	done("restore", backups)
	whole()
	start(t, home).stop()
}
