package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
)

// obliging is a model that does what a new user asks for. What it says after a listing waits for the gate.
func obliging(listed <-chan struct{}) fakellm.Options {
	command := func(line string) fakellm.Response {
		return fakellm.ToolCall{Name: "terminal", Args: map[string]string{"command": line}}
	}
	answer := func(r fakellm.Request) fakellm.Response {
		var body struct {
			Messages []struct {
				Role    string
				Content any
			}
		}
		if err := json.Unmarshal(r.Body, &body); err != nil || len(body.Messages) == 0 {
			return fakellm.Error{Status: 400, Message: "no messages"}
		}
		last := body.Messages[len(body.Messages)-1]
		switch said := fmt.Sprint(last.Content); {
		case last.Role == "tool" && strings.Contains(said, "seen.txt"):
			return fakellm.Text{Text: "Seen.", Gate: listed}
		case last.Role == "user" && strings.Contains(said, "List"):
			return command("ls")
		case last.Role == "user" && strings.Contains(said, "Remove"):
			return command("rm -rf old")
		case last.Role == "user" && strings.Contains(said, "Sleep"):
			return command("echo $$ > nap.pid; exec sleep 600")
		}
		return fakellm.Text{Text: "That is that."}
	}
	return fakellm.Options{
		Each: answer, Aux: fakellm.Text{Text: "A title"},
		PromptTokens: func(r fakellm.Request) int64 { return int64(100 + 7*r.N) },
	}
}

// The acceptance script: a new user with the page and the binary alone, minute for minute.
func TestTheFirstTenMinutes(t *testing.T) {
	t.Parallel()
	listed := make(chan struct{})
	model := fakellm.Start(obliging(listed))
	t.Cleanup(model.Close)
	n := settlesIn(t, model)

	n.minute0()
	first := n.serves()
	n.minute1()
	n.minute2()
	n.minute3(listed)
	n.minute4()
	second := n.minute5()
	third := n.minute6()
	if best := min(first, second, third); best > time.Second {
		t.Errorf("three starts took %v, %v and %v until they were ready", first, second, third)
	}
	n.unanswered()
	n.minute7()
	n.minute8()
	n.minute9()
	if len(n.left) > 0 {
		t.Errorf("of the page these commands were not tried: %q", n.left)
	}
	n.everyFileIsExplained()
	n.daemon.types(ctrlC)
	if code := n.daemon.ends(); code != 0 {
		t.Errorf("the last stop ends with %d\n%s", code, n.daemon.all())
	}
}

func (n *newcomer) minute0() {
	n.t.Helper()
	n.says(n.does("gatewayd init", 0), "config.yaml", "gatewayd --foreground")
	for name, mode := range map[string]fs.FileMode{".": 0o700, "api.key": 0o600, "config.yaml": 0o600} {
		if info, err := os.Stat(n.own(name)); err != nil || info.Mode().Perm() != mode {
			n.t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	check := n.next("gatewayd config check")
	n.configures("  name:", "  nmae:")
	n.says(n.runs(check, 78), strings.TrimSpace(n.blocks("text")[0]))
	n.configures()
	n.runs(check, 0)
}

// minute1: what the daemon decided and why, at one glance.
func (n *newcomer) minute1() {
	n.t.Helper()
	banner := n.daemon.all()
	for _, row := range []string{
		`home +` + n.own() + ` +default`, `API keys .*keys\.json`, `API +http://` + n.put["127.0.0.1:8642"] + ` +\S*config\.yaml:\d+`,
		`state\.db +wal +a new file, on a file system that carries WAL`, `model +qwen3:8b +configured`, `model's window +65536 tokens +configured`,
		`terminal tool +ask`, `dispatcher +on +at most 4 workers; lanes: .*chores, slow`, `switched off +writing files \(tools\.files\)`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(banner) {
			n.t.Errorf("the banner has no row %s\n%s", row, banner)
		}
	}
}

func (n *newcomer) minute2() {
	n.t.Helper()
	n.says(n.does("curl -s http://127.0.0.1:8642/health", 0), `"status":"ok"`)
	detailed := n.does("curl -s http://127.0.0.1:8642/health/detailed", 0)
	var health struct {
		Status string
		Checks []struct{ Name, Status, Reason string }
	}
	if err := json.Unmarshal([]byte(detailed), &health); err != nil || health.Status != "ok" || len(health.Checks) < 5 {
		n.t.Errorf("%v\n%s", err, detailed)
	}
	for _, check := range health.Checks {
		if check.Status != "ok" && check.Reason == "" {
			n.t.Errorf("%s is %s and does not say why", check.Name, check.Status)
		}
	}
}

// minute3: what there is to see is seen while the model still thinks.
func (n *newcomer) minute3(listed chan struct{}) {
	n.t.Helper()
	need(n.t, os.MkdirAll(n.own("workspace", "old"), 0o700))
	need(n.t, os.WriteFile(n.own("workspace", "seen.txt"), nil, 0o600))
	curl := n.begins(n.next("curl -sN http://127.0.0.1:8642/v1/chat/completions"))
	curl.sees(`gatewayd\.tool\.progress\ndata: .*"label":"ls".*"status":"completed"`)
	close(listed)
	curl.ends()
	lines := strings.Split(strings.TrimSpace(curl.printed()), "\n\n")
	if end := lines[len(lines)-1]; end != "data: [DONE]" {
		n.t.Errorf("it ends with %s", end)
	}
	n.says(lines[len(lines)-2], `"usage":{`, `"total_tokens":`)
	n.says(curl.printed(), `"content":"Seen."`)
}

func (n *newcomer) minute4() {
	n.t.Helper()
	chat := n.begins(n.next("gatewayd chat --session garden"))
	n.daemon.sees("approval needed", "rm -rf old")
	n.says(n.does("curl -s http://127.0.0.1:8642/api/approvals", 0), `"effect":"rm -rf old"`, `"state":"pending"`)
	list := n.does("gatewayd approvals", 0)
	n.says(list, "rm -rf old", "because it ")
	n.put["abcd2345"], _, _ = strings.Cut(list, " ")
	n.says(n.does("gatewayd approvals approve", 0), "approved")
	chat.sees("That is that.")
	chat.ends()
	if _, err := os.Stat(n.own("workspace", "old")); !os.IsNotExist(err) {
		n.t.Errorf("what was approved was not done: %v", err)
	}
}

// naps begins a turn that is in the middle of a command, and gives the command's process.
func (n *newcomer) naps() (*window, int) {
	n.t.Helper()
	mark := n.own("workspace", "nap.pid")
	_ = os.Remove(mark)
	chat := n.begins(n.next("gatewayd chat --session nap"))
	pid := 0
	if !vigil.Until(patience, nil, func() bool {
		raw, _ := os.ReadFile(mark)
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
		return err == nil
	}) {
		n.t.Fatalf("the command never began\n%s\n%s", chat.printed(), n.daemon.all())
	}
	return chat, pid
}

// minute5: a stop in the middle of a turn is bounded and leaves nothing at work; the rows say what was cut off.
func (n *newcomer) minute5() time.Duration {
	n.t.Helper()
	chat, pid := n.naps()
	began := time.Now()
	n.daemon.types(ctrlC)
	if code := n.daemon.ends(); code != 0 {
		n.t.Errorf("Ctrl-C ends it with %d\n%s", code, n.daemon.all())
	}
	if took := time.Since(began); took > 15*time.Second {
		n.t.Errorf("a stop with a grace of 1 s took %v", took)
	}
	n.gone(pid)
	chat.ends()
	n.says(chat.printed(), "gatewayd was stopping")
	took := n.serves()
	n.says(n.daemon.all(), "last run")
	n.says(n.does("gatewayd sessions show nap", 0), "interrupted", "UNKNOWN")
	n.says(n.does("gatewayd chat --session nap", 0), "That is that.")
	return took
}

// minute6: what was in flight is named, and no row that was acknowledged is lost.
func (n *newcomer) minute6() time.Duration {
	n.t.Helper()
	chat, pid := n.naps()
	n.runs(n.next("kill -9"), 0)
	n.daemon.ends()
	n.gone(pid)
	n.configures("  terminal: ask", "  terminal: ask\n  approval_timeout: 1s")
	took := n.serves()
	n.daemon.sees("was killed without a chance to say why", "interrupted turn found")
	chat.ends()
	n.says(n.does("gatewayd status --all", 0), "last run: was killed", "nap turn_")
	n.says(n.does("gatewayd sessions show nap", 0), "Sleep for ten minutes.", "Are you awake?", "Sleep again.", "UNKNOWN")
	return took
}

// unanswered: what nobody approves is denied.
func (n *newcomer) unanswered() {
	n.t.Helper()
	need(n.t, os.MkdirAll(n.own("workspace", "old"), 0o700))
	n.runs(`gatewayd chat --session garden "Remove it again."`, 0)
	n.says(n.runs("gatewayd sessions show garden", 0), "nobody approved it in time")
	if _, err := os.Stat(n.own("workspace", "old")); err != nil {
		n.t.Errorf("what nobody approved was done: %v", err)
	}
}

// minute7: numbers come from rows, and they are the model server's.
func (n *newcomer) minute7() {
	n.t.Helper()
	asked := len(n.model.Requests())
	n.says(n.does("gatewayd chat --session nap /status", 0), "nap", "qwen3:8b", "of 65536 tokens")
	n.does(`gatewayd chat --session nap "/compress --preview"`, 0)
	usage := n.does("gatewayd chat --session nap /usage", 0)
	if now := len(n.model.Requests()); now != asked {
		n.t.Errorf("the model was asked %d times for numbers", now-asked)
	}
	var calls, in, out int64
	for _, r := range n.model.Main() {
		if strings.Contains(string(r.Body), "Sleep for ten minutes.") {
			u := r.Answered.Usage()
			calls, in, out = calls+1, in+u.Prompt, out+u.Completion
		}
	}
	n.says(usage, fmt.Sprintf("%d in, %d out, 0 cached, in %d calls", in, out, calls))
}

func (n *newcomer) minute8() {
	n.t.Helper()
	n.does("gatewayd kanban boards create", 0)
	n.daemon.sees("board opened")
	if strings.Contains(n.daemon.all(), "cannot be served") {
		n.t.Errorf("somebody makes a board, and the daemon complains of it\n%s", n.daemon.all())
	}
	n.creates()
	tail := n.does("gatewayd kanban tail", 0)
	n.says(tail, "claimed", "spawned", "completed")
	n.says(n.does("gatewayd kanban list", 0), "done", "Tidy the shed")
	n.creates()
	watch := n.begins("gatewayd kanban tail " + n.put["t_12345678"])
	pid, err := strconv.Atoi(watch.sees(`spawned +pid=(\d+)`)[1])
	need(n.t, err)
	n.does("gatewayd kanban archive", 0)
	n.gone(pid)
	watch.ends()
	n.creates()
	n.says(n.does("gatewayd why", 0), "no lane is called nobody")
}

// creates types the page's next card and keeps its name for the commands after it.
func (n *newcomer) creates() {
	n.t.Helper()
	delete(n.put, "t_12345678")
	n.put["t_12345678"] = regexp.MustCompile(`t_[0-9a-f]+`).FindString(n.does("gatewayd kanban create", 0))
}

func (n *newcomer) minute9() {
	n.t.Helper()
	install := n.shell(n.next("gatewayd install --dry-run"))
	install.Env = append(install.Env, "TMPDIR=/nowhere") // the program under test lies among temporary files
	unit, err := install.CombinedOutput()
	if err != nil {
		n.t.Errorf("install: %v", err)
	}
	n.says(string(unit), "Type=notify", "WatchdogSec=", "RestartPreventExitStatus=78")
	doctor := n.does("gatewayd doctor", 0)
	if strings.Contains(doctor, "✗") {
		n.t.Errorf("the doctor is not content\n%s", doctor)
	}
	logs := n.begins(n.next("gatewayd logs -f"))
	logs.sees("run ended")
	need(n.t, logs.cmd.Process.Signal(syscall.SIGINT))
	logs.ends()
}

// everyFileIsExplained: what is left in a home that was played with has a row in docs/operations.md, and is closed to others.
func (n *newcomer) everyFileIsExplained() {
	n.t.Helper()
	raw, err := os.ReadFile("../docs/operations.md")
	need(n.t, err)
	_, section, _ := strings.Cut(string(raw), "\n## Files of the home\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var known []string
	for line := range strings.Lines(section) {
		if cell, isRow := strings.CutPrefix(line, "| "); isRow {
			cell, _, _ = strings.Cut(cell, " |")
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				known = append(known, m[1])
			}
		}
	}
	need(n.t, filepath.WalkDir(n.own(), func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // a temporary file that went meanwhile
		}
		name, _ := filepath.Rel(n.own(), at)
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(name, "workspace/") && !strings.HasPrefix(name, "kanban/workspaces/") {
			n.t.Errorf("%s is open to others: %v", name, info.Mode())
		}
		if !e.IsDir() && !hasRow(known, name) {
			n.t.Errorf("%s has no row in docs/operations.md", name)
		}
		return nil
	}))
}

// hasRow reports a path that a row of the table is about.
func hasRow(rows []string, name string) bool {
	for _, row := range rows {
		dir, below := strings.CutSuffix(row, "/**")
		first, _, deep := strings.Cut(name, "/")
		if below && deep && strings.HasPrefix(name, dir+"/") {
			return true
		}
		if below && deep {
			row, name := dir, first
			if is, _ := path.Match(row, name); is {
				return true
			}
		}
		if is, _ := path.Match(row, name); is {
			return true
		}
	}
	return false
}

func need(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
