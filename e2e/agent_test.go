package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

// A card of an agent lane is worked on by our own agent in a process of its own: it reads the card, uses the
// terminal, and completes the card through the board's tool.
func TestAgentLaneCompletesACard(t *testing.T) {
	t.Parallel()
	model := fakellm.New(t,
		fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "echo worked > proof.txt && pwd"}},
		fakellm.ToolCall{Name: "kanban_complete", Args: map[string]any{"summary": "wrote the proof"}},
		fakellm.Text{Text: "The card is done."},
	)
	home := newHome(t, fmt.Sprintf("model: {base_url: %q, name: fake-model}\ntools: {terminal: allow}\nkanban:\n  lanes:\n    helper: {preset: agent}\n", model.URL()))
	if _, errs, code := cli(t, home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	d := start(t, home)
	var made struct{ Task card }
	d.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "Prove it", "body": "Write a file; $(touch never) `touch never`", "assignee": "helper"}, &made)
	d.until("the card is done", func() bool { return d.cards("default")[made.Task.ID].Status == "done" })

	var detail struct {
		Runs   []struct{ Outcome, Summary string }
		Events []struct{ Kind string }
	}
	d.call(http.MethodGet, "/api/boards/default/tasks/"+made.Task.ID, nil, &detail)
	if len(detail.Runs) != 1 || detail.Runs[0].Summary != "wrote the proof" {
		t.Errorf("runs: %+v", detail.Runs)
	}
	first := string(model.Requests()[0].Body)
	if !strings.Contains(first, "Prove it") || !strings.Contains(first, "touch never") {
		t.Error("the card's text did not reach the model")
	}
	var list struct{ Sessions []struct{ Source string } }
	d.call(http.MethodGet, "/api/sessions", nil, &list)
	if len(list.Sessions) != 1 || list.Sessions[0].Source != "worker" {
		t.Errorf("the worker's conversation is not stored as a worker's: %+v", list.Sessions)
	}
	d.stop()
}

// A card that its agent did not end says what happened and what to do, in a sentence and without the log's lines.
func TestACardSaysWhyItsAgentDidNotEndIt(t *testing.T) {
	t.Parallel()
	k := hasty()
	k.iterations, k.retries = 2, 0
	k.more = "kanban: {lanes: {helper: {preset: agent}}}\n"
	w := newScene(t, k, func(r fakellm.Request) fakellm.Response {
		switch {
		case strings.Contains(string(r.Body), "only talks"):
			return fakellm.Text{Text: "I would say that it is done."}
		case strings.Contains(string(r.Body), "never ends"):
			return run("echo again")
		}
		return fakellm.Error{Status: http.StatusUnauthorized, Message: "no such key"}
	})
	if _, errs, code := cli(t, w.home, "kanban", "boards", "create", "default"); code != 0 {
		t.Fatal(errs)
	}
	for title, want := range map[string][]string{
		"only talks":  {"crashed", "without a call of kanban_complete or kanban_block", "I would say that it is done."},
		"never ends":  {"timed_out", "all steps of its turn were used up; raise agent.max_iterations", "max_iterations_reached(2/2)"},
		"has no keys": {"crashed", "no such key", "check the API key"},
	} {
		var made struct{ Task card }
		w.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": title, "assignee": "helper", "max_retries": 1}, &made)
		w.until(title+" is blocked", func() bool { return w.cards("default")[made.Task.ID].Status == "blocked" })
		var detail struct {
			Runs []struct{ Outcome, Error string }
		}
		w.call(http.MethodGet, "/api/boards/default/tasks/"+made.Task.ID, nil, &detail)
		if len(detail.Runs) != 1 {
			t.Fatalf("%s: %+v", title, detail.Runs)
		}
		for _, word := range want {
			if said := detail.Runs[0].Outcome + ": " + detail.Runs[0].Error; !strings.Contains(said, word) || strings.Contains(said, "[the card") || strings.Contains(said, `"level"`) {
				t.Errorf("%s: it lacks %q: %s", title, word, said)
			}
		}
	}
	w.stop()
}

// A model that answers garbage ends the turn in words; the daemon, and the conversation, go on.
func TestGarbageFromTheModelEndsInWords(t *testing.T) {
	t.Parallel()
	garbage := fakellm.Raw{Body: "<html>not a model at all</html>", ContentType: "text/html"}
	model := fakellm.New(t, garbage, garbage, fakellm.Text{Text: "I am back."})
	d := start(t, newHome(t, fmt.Sprintf("model: {base_url: %q, name: fake-model, max_retries: 1}\n", model.URL())))
	err := d.say("s", "hello", nil)
	if err == nil || !strings.Contains(err.Error(), "502") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("garbage was answered with: %v", err)
	}
	var answer string
	if err := d.say("s", "again", &answer); err != nil || !strings.Contains(answer, "I am back.") {
		t.Errorf("next turn: %v %s", err, answer)
	}
	if got := roles(d.rows("s")); got != "user assistant user assistant" {
		t.Errorf("roles %q", got)
	}
	d.stop()
}
