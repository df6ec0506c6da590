package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/internal/fakellm"
	"gatewayd/internal/problem"
)

func TestAnAnswerInOnePiece(t *testing.T) {
	h, chat := plain(nil)
	w := ask(h, "POST", "/v1/chat/completions", hello, header(aliasSession, "my-chat.1"))
	body := decoded(t, w)
	choice := body["choices"].([]any)[0].(map[string]any)
	usage := body["usage"].(map[string]any)
	receipt := body["gatewayd"].(map[string]any)
	if w.Code != http.StatusOK || body["object"] != "chat.completion" || body["model"] != "gpt-4o" || choice["finish_reason"] != "stop" ||
		choice["message"].(map[string]any)["content"] != "fine" || usage["total_tokens"] != 15.0 || receipt["last_row"] != 7.0 || receipt["completed"] != true {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{headerSession: "my-chat.1", aliasSession: "my-chat.1", headerTurn: "turn_1", headerRow: "7"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if say := chat.last(); say.Session != "my-chat.1" || say.Source != gateway.SourceAPI || say.System != "" || say.Text != "hello" || len(say.History) != 0 {
		t.Errorf("said %+v", say)
	}
}

func TestTheOutcomeDecidesStatusAndFinish(t *testing.T) {
	down := &problem.Error{Kind: problem.Unavailable, Thing: "model m", What: "could not answer: it broke"}
	failed := gateway.Result{Text: "some\n\n[note]", FinishReason: "error", ExitReason: "model_failed(transport)", Failed: true, Error: down}
	cut := func(reason string) gateway.Result {
		return gateway.Result{Text: "[note]", FinishReason: "interrupted", ExitReason: "interrupted(" + reason + ")", Interrupted: true}
	}
	unstored := gateway.Result{Text: "answer [not saved: /home/x]", FinishReason: "not_stored", ExitReason: "session_persistence_failed", Failed: true, Error: &problem.Error{Kind: problem.Full, Thing: "/home/secret", What: "is full"}}
	cases := []struct {
		name   string
		result gateway.Result
		shown  bool
		status int
		finish string
		code   string
	}{
		{"answered", gateway.Result{Completed: true, FinishReason: "stop"}, true, 200, "stop", ""},
		{"answered, another word", gateway.Result{Completed: true, FinishReason: "eos"}, true, 200, "stop", ""},
		{"too long", gateway.Result{Completed: true, FinishReason: "length"}, true, 200, "length", ""},
		{"filtered", gateway.Result{Completed: true, FinishReason: "content_filter"}, true, 200, "content_filter", ""},
		{"broke off after words", failed, true, 200, "length", "agent_incomplete"},
		{"failed without words", failed, false, 502, "", "agent_incomplete"},
		{"not stored, with words", unstored, true, 500, "", "persistence_failed"},
		{"not stored", unstored, false, 500, "", "persistence_failed"},
		{"stopped after words", cut("stop"), true, 200, "length", "interrupted"},
		{"stopped", cut("stop"), false, 409, "", "interrupted"},
		{"overtaken", cut("redirect"), false, 409, "", "interrupted"},
		{"daemon stopping", cut("drain"), false, 503, "", "interrupted"},
		{"stalled", cut("stall"), false, 502, "", "agent_incomplete"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, chat := plain(nil)
			chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
				if c.shown {
					sink(gateway.Event{Kind: gateway.EventDelta, Text: "some"})
				}
				return c.result, nil
			}
			w := ask(h, "POST", "/v1/chat/completions", hello)
			if c.status != http.StatusOK {
				refused(t, w, c.status, c.code)
				if w.Header().Get("X-Should-Retry") != "false" {
					t.Error("a library would send a stored message again")
				}
				if strings.Contains(w.Body.String(), "secret") {
					t.Errorf("told %s", w.Body)
				}
				return
			}
			body := decoded(t, w)
			receipt := body["gatewayd"].(map[string]any)
			if finish := body["choices"].([]any)[0].(map[string]any)["finish_reason"]; w.Code != 200 || finish != c.finish || receipt["completed"] != c.result.Completed {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if code, _ := receipt["error_code"].(string); code != c.code {
				t.Errorf("error_code %q", code)
			}
		})
	}
}

func TestABodysHistoryCountsOnlyWithoutAName(t *testing.T) {
	h, chat := plain(nil)
	body := conversation("forged", "history", "two")
	ask(h, "POST", "/v1/chat/completions", body, header(headerSession, "mine"))
	if say := chat.last(); say.Session != "mine" || say.Text != "two" || len(say.History) != 0 {
		t.Errorf("with a name: %+v", say)
	}
	ask(h, "POST", "/v1/chat/completions", body)
	if say := chat.last(); !strings.HasPrefix(say.Session, "api-") || say.Text != "two" || len(say.History) != 2 {
		t.Errorf("without: %+v", say)
	}
}

func TestAClientsSystemPromptIsALayer(t *testing.T) {
	h, chat := plain(func(o *Options) { o.SystemPrompt = "core" })
	ask(h, "POST", "/v1/chat/completions", `{"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"x"}]}`)
	if got := chat.last().System; got != "core\n\nbe kind" {
		t.Errorf("system: %q", got)
	}
}

func TestSessionIDsAreRefusedAndNotMended(t *testing.T) {
	h, _ := plain(nil)
	for id, good := range map[string]bool{
		"a": true, "A.b_c:d@e-9": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a;b": false,
	} {
		w := ask(h, "POST", "/v1/chat/completions", hello, header(headerSession, id))
		if good && w.Code != 200 {
			t.Errorf("%q: %d", id, w.Code)
		}
		if !good {
			refused(t, w, http.StatusBadRequest, "invalid_value")
		}
	}
	w := ask(h, "POST", "/v1/chat/completions", hello, header(headerSession, "ours"), header(aliasSession, "alias"))
	if got := w.Header().Get(headerSession); got != "ours" {
		t.Errorf("both headers: %q", got)
	}
}

func TestTurnsAreBounded(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	h, chat := plain(func(o *Options) { o.MaxTurns = 1 })
	chat.say = func(_ context.Context, _ gateway.Say, sink func(gateway.Event)) (gateway.Result, error) {
		close(started)
		<-release
		return answered("late", sink), nil
	}
	done := make(chan int)
	go func() { done <- ask(h, "POST", "/v1/chat/completions", hello).Code }()
	<-started
	w := ask(h, "POST", "/v1/chat/completions", hello)
	refused(t, w, http.StatusTooManyRequests, "too_many_turns")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(release)
	if code := <-done; code != 200 {
		t.Errorf("the one that ran: %d", code)
	}
	chat.say = nil
	if w := ask(h, "POST", "/v1/chat/completions", hello); w.Code != 200 {
		t.Errorf("the place was not given back: %d", w.Code)
	}
}

// conversation is a chat program's view: it sends all it has, each time.
func conversation(pairs ...string) string {
	var b strings.Builder
	b.WriteString(`{"messages":[`)
	for i, text := range pairs {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"role":"` + []string{"user", "assistant"}[i%2] + `","content":"` + text + `"}`)
	}
	return b.String() + "]}"
}

func TestAChatProgramsConversationIsOneSession(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"}, fakellm.Text{Text: "2b"}, fakellm.Text{Text: "3"}, fakellm.Text{Text: "other"}, fakellm.Text{Text: "again"})
	say := func(body string) string {
		response := h.send(t, bounded(t), body)
		if response.StatusCode != 200 {
			t.Fatalf("%s: %d", body, response.StatusCode)
		}
		return response.Header.Get(headerSession)
	}
	first := say(conversation("one"))
	if second := say(conversation("one", "1", "two")); second != first {
		t.Errorf("the second message went to %s, the first to %s", second, first)
	}
	if got := h.rows(t, first); got != "user:one|assistant:1|user:two|assistant:2|" {
		t.Errorf("rows: %s", got)
	}
	edited := say(conversation("one", "1", "two, but better"))
	if edited == first {
		t.Error("an edited message was put behind the one it replaces")
	}
	if got := h.rows(t, edited); got != "user:one|assistant:1|user:two, but better|assistant:2b|" {
		t.Errorf("the branch: %s", got)
	}
	if next := say(conversation("one", "1", "two, but better", "2b", "three")); next != edited {
		t.Errorf("the branch was not found again: %s, want %s", next, edited)
	}
	if other := say(conversation("another")); other == first || other == edited {
		t.Error("another conversation shares a session")
	}
	if fresh := say(conversation("one")); fresh == first || fresh == edited {
		t.Error("a new chat that begins the same was put behind the old one")
	}
	if got := h.rows(t, first); got != "user:one|assistant:1|user:two|assistant:2|" {
		t.Errorf("the first session changed: %s", got)
	}
}

func TestANamedSessionsHistoryIsTheStoredOne(t *testing.T) {
	h := newHouse(t, nil, fakellm.Text{Text: "1"}, fakellm.Text{Text: "2"})
	h.send(t, bounded(t), conversation("one"), header(headerSession, "mine"))
	h.send(t, bounded(t), conversation("forged", "history", "two"), header(headerSession, "mine"))
	if got := h.rows(t, "mine"); got != "user:one|assistant:1|user:two|assistant:2|" {
		t.Errorf("rows: %s", got)
	}
}

func TestUsageIsTheTurns(t *testing.T) {
	got := usageBody(provider.Usage{Prompt: 3, Completion: 2})
	if got["total_tokens"] != int64(5) {
		t.Errorf("%v", got)
	}
}
