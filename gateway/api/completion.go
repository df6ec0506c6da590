package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
)

// modelName is what /v1/models lists: a client talks to the agent, whichever model is behind it.
const modelName = "gatewayd"

const retryTurns = 5 * time.Second

// chat answers POST /v1/chat/completions.
func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	c, err := parseCompletion(body)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	say, err := s.message(r, c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !s.enter() {
		s.fail(w, r, errTurns(s.MaxTurns))
		return
	}
	defer s.leave()
	for _, name := range []string{headerSession, aliasSession} {
		w.Header().Set(name, say.Session)
	}
	if c.Stream {
		s.stream(w, r, c, say)
		return
	}
	s.whole(w, r, c, say)
}

// message is what the gateway is told. With a session in the header the stored rows are the history; without one the body's are.
func (s *server) message(r *http.Request, c completion) (gateway.Say, error) {
	say := gateway.Say{Source: gateway.SourceAPI, Text: c.Text}
	if c.System != "" {
		// A client's system prompt is a layer on ours, which says what the tools are and how to use them.
		say.System = s.SystemPrompt + "\n\n" + c.System
	}
	named, err := namedSession(r.Header)
	if err != nil || named != "" {
		say.Session = named
		return say, err
	}
	say.History = c.History
	say.Session, err = s.session(r.Context(), c)
	return say, err
}

// enter takes a place among the turns, if there is one.
func (s *server) enter() bool {
	if s.turns == nil {
		return true
	}
	select {
	case s.turns <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *server) leave() {
	if s.turns != nil {
		<-s.turns
	}
}

// whole waits for the turn's end and answers in one piece. What was shown tells a turn that broke off from one that said nothing.
func (s *server) whole(w http.ResponseWriter, r *http.Request, c completion, say gateway.Say) {
	shown := false
	result, err := s.Chat.Say(r.Context(), say, func(e gateway.Event) {
		shown = shown || e.Kind == gateway.EventDelta && strings.TrimSpace(e.Text) != ""
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	end := judge(result, shown)
	h := w.Header()
	h.Set(headerTurn, result.TurnID)
	h.Set(headerRow, strconv.FormatInt(result.LastRow, 10))
	h.Set("X-Gatewayd-Completed", strconv.FormatBool(result.Completed))
	if end.refused != nil {
		s.fail(w, r, end.refused)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": "chatcmpl-" + result.TurnID, "object": "chat.completion", "created": time.Now().Unix(), "model": c.modelOr(),
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": result.Text, "refusal": nil}, "logprobs": nil, "finish_reason": end.finish,
		}},
		"usage": usageBody(result.Usage), "gatewayd": receipt(result, end),
	})
}

func (c completion) modelOr() string {
	if c.Model == "" {
		return modelName
	}
	return c.Model
}

// ending is what a turn's result is for a client: an answer with a finish reason, or a refusal.
type ending struct {
	finish  string // stop, length, content_filter
	code    string // of what was wrong, also when there is text
	refused *refusal
}

// judge is the table of outcomes. A turn that broke off after its words were seen is an answer of finish length, as if it had been cut;
// one without words is a failure. Either way the message is stored, so a library must not send it again by itself.
func judge(result gateway.Result, shown bool) ending {
	refuse := func(status int, code string) ending {
		message := result.Text
		if result.Error != nil && code != codeNotStored {
			message = result.Error.Error()
		}
		return ending{code: code, refused: &refusal{status: status, code: code, message: message, noRetry: true, cause: causeOf(result)}}
	}
	switch {
	case result.Completed && (result.FinishReason == "length" || result.FinishReason == "content_filter"):
		return ending{finish: result.FinishReason}
	case result.Completed:
		return ending{finish: "stop"}
	case result.FinishReason == "not_stored":
		return refuse(http.StatusInternalServerError, codeNotStored)
	case shown:
		return ending{finish: "length", code: codeOf(result)}
	case result.ExitReason == "interrupted(drain)":
		return refuse(http.StatusServiceUnavailable, "interrupted")
	case result.Interrupted && result.ExitReason != "interrupted(stall)":
		return refuse(http.StatusConflict, "interrupted")
	}
	return refuse(http.StatusBadGateway, "agent_incomplete")
}

const codeNotStored = "persistence_failed"

func codeOf(result gateway.Result) string {
	if result.Interrupted {
		return "interrupted"
	}
	return "agent_incomplete"
}

func causeOf(result gateway.Result) error {
	if result.Error == nil {
		return errors.New(result.ExitReason)
	}
	return result.Error
}

// receipt lets a client prove what it was acknowledged: the conversation, the turn and its last stored row.
func receipt(result gateway.Result, end ending) map[string]any {
	body := map[string]any{
		"session": result.Session, "turn_id": result.TurnID, "last_row": result.LastRow, "completed": result.Completed,
		"partial": !result.Completed, "failed": result.Failed, "interrupted": result.Interrupted, "exit_reason": result.ExitReason,
	}
	if end.code != "" {
		body["error_code"] = end.code
		if result.Error != nil && end.code != codeNotStored {
			body["error"] = result.Error.Error()
		}
	}
	return body
}

func usageBody(u provider.Usage) map[string]any {
	return map[string]any{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}
