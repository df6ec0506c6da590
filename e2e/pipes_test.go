package e2e

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/fakellm"
)

// What a pipe says: text and what is piped are one message, standard output is the answer and nothing else, and a reader that has
// enough ends it quietly.
func TestChatInAPipe(t *testing.T) {
	t.Parallel()
	w := newScene(t, forever(), func(r fakellm.Request) fakellm.Response {
		text, tool := lastSaid(r.JSON())
		switch {
		case text == "work" && !tool:
			return fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "true"}}
		case text == "endless":
			return fakellm.Text{Text: strings.Repeat("again and again\n", 100_000), ChunkChars: 20_000}
		}
		return fakellm.Text{Text: "heard: " + strings.ReplaceAll(text, "\n", "/")}
	})
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"from a pipe\n", nil, "heard: from a pipe\n"},
		{"the log\n", []string{"explain", "this"}, "heard: explain this//the log\n"},
		{"all\nof it\n", []string{"-"}, "heard: all/of it\n"},
		{"the log\n", []string{"--no-stream", "explain", "-"}, "heard: explain//the log\n"},
		{"", []string{"work"}, "heard: work\n"},
	} {
		cmd := exec.Command(program, append([]string{"--home", w.home, "chat"}, c.args...)...)
		cmd.Env, cmd.Stdin = append(homeEnv(w.home), "TERM=xterm-256color"), strings.NewReader(c.stdin)
		out, err := cmd.Output()
		if err != nil || string(out) != c.want {
			t.Errorf("%q < %q: %q, %v", c.args, c.stdin, out, err)
		}
	}
	cmd := exec.Command(program, "--home", w.home, "chat", "endless")
	cmd.Env = homeEnv(w.home)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1_000)); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	_ = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGPIPE || errs.String() != "" {
		t.Errorf("a reader that has enough: %v, %q", cmd.ProcessState, errs.String())
	}
	w.nothingRuns()
	w.stop()
}

// --new takes no conversation that is there, a title leads to its conversation, and one line says that there is no daemon.
func TestChatFindsItsConversation(t *testing.T) {
	t.Parallel()
	w := newScene(t, hasty(), script(fakellm.Text{Text: "ok"}))
	if out, errs, code := cli(t, w.home, "chat", "--new", "--session", "garden", "hello"); code != 0 || out != "ok\n" {
		t.Errorf("%d %q %q", code, out, errs)
	}
	_, errs, code := cli(t, w.home, "chat", "--new", "--session", "garden", "hello")
	oneLine(t, errs, code, 1, "session garden", "exists already")
	w.call("PATCH", "/api/sessions/garden", map[string]string{"title": "Winter plans"}, nil)
	if _, errs, code := cli(t, w.home, "chat", "--session", "Winter plans", "again"); code != 0 {
		t.Errorf("%d %q", code, errs)
	}
	if got := roles(w.rows("garden")); got != "user assistant user assistant" {
		t.Errorf("rows: %s", got)
	}
	if out, _, _ := cli(t, w.home, "__complete", "chat", "--session", "gar"); !strings.HasPrefix(out, "garden\tWinter plans") {
		t.Errorf("completion: %q", out)
	}
	w.stop()
	_, errs, code = cli(t, w.home, "chat", "hello")
	oneLine(t, errs, code, 69, "is not running")
}
