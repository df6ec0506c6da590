package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gatewayd/gateway"
	"gatewayd/gateway/provider"
	"gatewayd/gateway/slash"
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
	if begunBefore(r.Context()) && s.recall(w, r, c) {
		return
	}
	if err := s.fetch(r.Context(), c.Images); err != nil {
		s.fail(w, r, err)
		return
	}
	at, say, err := s.message(r, &c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply, command, err := s.run(r.Context(), at, c.Text)
	if command {
		hasEffect(r.Context())
	}
	if command && (err != nil || reply.Say == nil) {
		s.answerCommand(w, r, c, reply, err)
		return
	}
	if command {
		say = *reply.Say
		say.Images = c.Images
	}
	say.Wishes = c.Wishes
	if !s.enter() {
		s.fail(w, r, errTurns(s.MaxTurns))
		return
	}
	defer s.leave()
	nameSession(w.Header(), say.Session)
	if c.Stream {
		s.stream(w, r, c, say)
		return
	}
	s.whole(w, r, c, say)
}

func nameSession(h http.Header, session string) {
	for _, name := range []string{headerSession, aliasSession} {
		h.Set(name, session)
	}
}

// message is what the gateway is told, and the place that a command would be run at. With a session or a key in the header the
// stored rows are the history; without one the body's are.
func (s *server) message(r *http.Request, c *completion) (slash.Context, gateway.Say, error) {
	if c.isSideTask() {
		say := aside(c.Text)
		say.UID = onceUID(r.Context())
		return slash.Context{Session: say.Session, Source: say.Source}, say, nil
	}
	at, err := s.place(r, c)
	say := gateway.Say{
		Session: at.Session, Source: gateway.SourceAPI, Text: c.Text, Images: c.Images, History: c.History, UID: onceUID(r.Context()),
	}
	if c.System != "" {
		say.System = s.layered(c.System)
	}
	return at, say, err
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
	nameTurn(w.Header(), result)
	if end.refused != nil {
		s.fail(w, r, end.refused)
		return
	}
	writeJSON(w, http.StatusOK, c.whole("chatcmpl-"+result.TurnID, result.Text, end.finish, usageBody(result.Usage), about(result, end)))
}

// nameTurn puts what identifies a turn's end into the headers of an answer in one piece.
func nameTurn(h http.Header, result gateway.Result) {
	h.Set(headerTurn, result.TurnID)
	h.Set(headerRow, strconv.FormatInt(result.LastRow, 10))
	h.Set("X-Gatewayd-Completed", strconv.FormatBool(result.Completed))
	if text := receiptOf(result); text != "" {
		h.Set(headerReceipt, text)
	}
}

// whole is an answer in one piece.
func (c completion) whole(id, text, finish string, usage, about map[string]any) map[string]any {
	return map[string]any{
		"id": id, "object": "chat.completion", "created": time.Now().Unix(), "model": c.modelOr(),
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": text, "refusal": nil}, "logprobs": nil, "finish_reason": finish,
		}},
		"usage": usage, "gatewayd": about,
	}
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

func usageBody(u provider.Usage) map[string]any {
	return map[string]any{
		"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
	}
}
