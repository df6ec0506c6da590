package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// entrance is a way by which a person reaches the agent. say brings a message to it and gives what came back.
type entrance struct {
	name string
	say  func(w *ways, text string) string
}

func entrances() []entrance {
	return []entrance{
		{"api stream", func(w *ways, text string) string { return w.hear(w.t.Context(), "stream", text).text }},
		{"api whole", func(w *ways, text string) string {
			var answer string
			if err := w.daemon.say("whole", text, &answer); err != nil {
				w.t.Error(err)
			}
			return answer
		}},
		{"chat", func(w *ways, text string) string {
			out, errs, code := cli(w.t, w.home, "chat", text)
			if code != 0 {
				w.t.Errorf("chat: code %d, %s", code, errs)
			}
			return out
		}},
		{"chat from a pipe", func(w *ways, text string) string {
			cmd := exec.Command(program, "--home", w.home, "chat")
			cmd.Env, cmd.Stdin = homeEnv(w.home), strings.NewReader(text+"\n")
			out, err := cmd.Output()
			if err != nil {
				w.t.Errorf("chat: %v", err)
			}
			return string(out)
		}},
		{"chat --jsonl", (*ways).lines},
		{"api accepted", (*ways).accepted},
		{"worker", (*ways).card},
		{"page", (*ways).page},
	}
}

// ways is a daemon with all its entrances.
type ways struct{ *scene }

// lines has a front end say it.
func (w *ways) lines(text string) string {
	f := w.front()
	f.enter("lines")
	f.prompt(text)
	answer := f.complete(patience).Params.Text
	_ = f.in.Close()
	f.leaves(exitBound)
	return answer
}

// accepted hands it over and reads what became of it in the rows.
func (w *ways) accepted(text string) (answer string) {
	w.handOver("accepted", text, "queue")
	w.until("what was accepted is answered", func() bool {
		rows := w.rows("accepted")
		if len(rows) == 0 {
			return false
		}
		answer = rows[len(rows)-1].Content
		return rows[len(rows)-1].Role == "assistant" && strings.Contains(answer, agreed)
	})
	return answer
}

const (
	houseRules = "House rules: answer with the word heron."
	agreed     = "heron"
)

// Whichever way a message comes in, the same agent answers: the same rules before it, the same tools, byte for byte, and the answer
// goes out the same way. Afterwards everything ends by itself.
func TestEachEntranceLeadsToTheSameAgent(t *testing.T) {
	t.Parallel()
	k := hasty()
	k.agent = `, system_prompt: "` + houseRules + `"`
	k.more = "kanban: {lanes: {helper: {preset: agent}}}\n"
	w := &ways{newScene(t, k, heron)}
	var first sentBody
	for i, e := range entrances() {
		if e.name == "page" && !hasBrowser(t) {
			continue
		}
		question := "What is the word? Asked by " + e.name + "."
		if answer := e.say(w, question); !strings.Contains(answer, agreed) {
			t.Errorf("%s answers %q", e.name, answer)
		}
		body := bodyOf(t, w.asked(e.name, question))
		if i == 0 {
			first = body
		}
		same(t, e.name, first, body)
	}
	w.leaveWith(0, exitBound)
	if left := nobodyOf(t, w.home, reapBound); len(left) > 0 {
		t.Errorf("outlived the daemon: %q", left)
	}
}

// asked is the first request with this question in it. A worker asks once more after its card is done, beside whoever comes next.
func (w *ways) asked(name, question string) fakellm.Request {
	w.t.Helper()
	for _, r := range w.model.Main() {
		if strings.Contains(string(r.Body), question) {
			return r
		}
	}
	w.t.Fatalf("%s asked nobody", name)
	return fakellm.Request{}
}

// heron is a model that looks and answers; a card it completes.
func heron(r fakellm.Request) fakellm.Response {
	sent := messagesOf(r)
	results := 0
	for _, m := range sent {
		if m.Role == "tool" {
			results++
		}
	}
	switch {
	case results == 0:
		return run("echo looked")
	case results == 1 && strings.Contains(string(r.Body), `"kanban_complete"`):
		return fakellm.ToolCall{Name: "kanban_complete", Args: map[string]any{"summary": agreed}}
	}
	return fakellm.Text{Text: "The word is " + agreed + "."}
}

// same demands the same rules and the same tools. A worker has those of its card beside them.
func same(t *testing.T, name string, first, body sentBody) {
	t.Helper()
	rules, got := systemOf(t, first), systemOf(t, body)
	if !strings.HasPrefix(got, rules) || !strings.Contains(rules, houseRules) {
		t.Errorf("%s has the rules %q, the first had %q", name, got, rules)
	}
	tools := map[string]bool{}
	for _, tool := range toolsOf(t, body) {
		tools[string(tool)] = true
	}
	for _, tool := range toolsOf(t, first) {
		if !tools[string(tool)] {
			t.Errorf("%s lacks the tool %s", name, tool)
		}
	}
	if name != "worker" && string(first.Tools) != string(body.Tools) {
		t.Errorf("%s has other tools: %s", name, body.Tools)
	}
}

func systemOf(t *testing.T, body sentBody) string {
	t.Helper()
	var m struct{ Role, Content string }
	if err := json.Unmarshal(body.Messages[0], &m); err != nil || m.Role != "system" {
		t.Fatalf("the first message is %s", body.Messages[0])
	}
	return m.Content
}

func toolsOf(t *testing.T, body sentBody) (tools []json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(body.Tools, &tools); err != nil || len(tools) == 0 {
		t.Fatalf("the tools are %s", body.Tools)
	}
	return tools
}

// card has a worker answer: a card of the board, whose summary is what it said.
func (w *ways) card(text string) string {
	if _, errs, code := cli(w.t, w.home, "kanban", "boards", "create", "default"); code != 0 {
		w.t.Fatal(errs)
	}
	var made struct{ Task card }
	w.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": text, "assignee": "helper"}, &made)
	w.until("the card is done", func() bool { return w.cards("default")[made.Task.ID].Status == "done" })
	var detail struct {
		Runs []struct{ Outcome, Summary string }
	}
	w.call(http.MethodGet, "/api/boards/default/tasks/"+made.Task.ID, nil, &detail)
	if len(detail.Runs) != 1 {
		w.t.Fatalf("runs: %+v", detail.Runs)
	}
	return detail.Runs[0].Summary
}
