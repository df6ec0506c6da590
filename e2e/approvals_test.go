package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

func removes(dir string) fakellm.Response {
	return fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "rm -rf " + dir}}
}

// waiting is the one call that waits for a person, on the command line.
func (d *daemon) waiting() (id string) {
	d.t.Helper()
	d.until("a call waits", func() bool {
		out, _, code := cli(d.t, d.home, "approvals", "--json")
		var list []struct{ ID string }
		if code != 0 || json.Unmarshal([]byte(out), &list) != nil || len(list) != 1 {
			return false
		}
		id = list[0].ID
		return true
	})
	return id
}

// A dangerous command waits for a person, who decides on the command line; one that waits when the daemon is killed was never
// run, is denied at the next start, and the conversation says so.
func TestADangerousCommandWaitsForAPersonOverAKill(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t, removes("build"), fakellm.Text{Text: "removed"}, removes("build"), fakellm.Text{Text: "I was refused"}, fakellm.Text{Text: "all right"})
	home := newHome(t, fmt.Sprintf("model: {base_url: %q, name: fake-model}\ntools: {terminal: ask, approval_timeout: 5m}\n", model.URL()))
	build := filepath.Join(home, "workspace", "build")
	if err := os.MkdirAll(build, 0o700); err != nil {
		t.Fatal(err)
	}
	d := start(t, home)
	said := make(chan error, 1)
	go func() { said <- d.say("s", "clean up", nil) }()
	id := d.waiting()
	if out, _, _ := cli(t, home, "approvals"); !strings.Contains(out, "rm -rf build") || !strings.Contains(out, "approvals approve "+id) {
		t.Errorf("the list says %s", out)
	}
	if _, err := os.Stat(build); err != nil {
		t.Errorf("it ran before it was approved: %v", err)
	}
	if out, errs, code := cli(t, home, "approvals", "approve", id); code != 0 || !strings.Contains(out, "approved (once)") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(build); err == nil {
		t.Error("it was approved and did not run")
	}
	if out, errs, code := cli(t, home, "approvals", "deny", id); code == 0 || !strings.Contains(errs, "was decided already") {
		t.Errorf("who is second is told %d %s %s", code, out, errs)
	}

	if err := os.Mkdir(build, 0o700); err != nil {
		t.Fatal(err)
	}
	go func() { said <- d.say("s", "again", nil) }()
	id = d.waiting()
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.end()
	<-said
	d = start(t, home)
	if out, _, _ := cli(t, home, "approvals"); !strings.Contains(out, "nothing waits") {
		t.Errorf("after the restart: %s", out)
	}
	if out, _, _ := cli(t, home, "approvals", "--all"); !strings.Contains(out, id+"  denied (restart)") {
		t.Errorf("the record says %s", out)
	}
	found := false
	for _, r := range d.rows("s") {
		found = found || r.Role == "tool" && strings.Contains(r.Content, "approval "+id) && r.Effect == "none"
	}
	if !found {
		t.Errorf("no row says that the call was not run: %+v", d.rows("s"))
	}
	if _, err := os.Stat(build); err != nil {
		t.Errorf("it ran although nobody approved it: %v", err)
	}
	if err := d.say("s", "go on", nil); err != nil {
		t.Error(err)
	}
	d.stop()
}

// The tools of an MCP server are the model's; its process ends with the daemon, also when that is killed.
func TestAnMCPServerEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	other := newHome(t, "model: {provider: offline}\n")
	if _, errs, code := cli(t, other, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	model := fakellm.New(t, fakellm.ToolCall{Name: "mcp_boards_kanban_list", Args: map[string]any{}}, fakellm.Text{Text: "no cards"})
	home := newHome(t, fmt.Sprintf("model: {base_url: %q, name: fake-model}\ntools: {terminal: allow}\nmcp_servers:\n  boards: {command: %q, args: [--home, %q, mcp]}\n", model.URL(), program, other))
	d := start(t, home)
	d.until("the server is connected", func() bool {
		var health struct {
			Checks []struct{ Name, Status string }
		}
		if d.try(http.MethodGet, "/health/detailed", nil, &health) != nil {
			return false
		}
		for _, c := range health.Checks {
			if c.Name == "mcp boards" && c.Status == "ok" {
				return true
			}
		}
		return false
	})
	if err := d.say("s", "what is on the board?", nil); err != nil {
		t.Fatal(err)
	}
	rows := d.rows("s")
	if len(rows) != 4 || rows[2].Role != "tool" || strings.HasPrefix(rows[2].Content, "error") {
		t.Errorf("%+v", rows)
	}
	if len(family(t, other)) == 0 {
		t.Error("no process of the server was found: this test looks for the wrong thing")
	}
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.end()
	if left := nobodyOf(t, other, 20*time.Second); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
