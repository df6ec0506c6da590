package fakellm

import (
	"encoding/json"
	"maps"
	"time"
)

// chat is the wire of /chat/completions.
type chat struct{}

func (chat) piece(p *reply, s piece) { p.event("", chatChunk(chatDelta(s), nil)) }

func chatDelta(s piece) map[string]any {
	switch {
	case s.call == nil && s.reasoning != "":
		return map[string]any{"reasoning_content": s.reasoning}
	case s.call == nil:
		return map[string]any{"content": s.text}
	}
	call := map[string]any{"index": s.call.index, "function": map[string]any{"arguments": s.call.arguments}}
	if s.call.id != "" {
		maps.Copy(call, map[string]any{"id": s.call.id, "type": "function"})
		call["function"] = map[string]any{"name": s.call.name, "arguments": s.call.arguments}
	}
	return map[string]any{"tool_calls": []any{call}}
}

func (c chat) finish(p *reply, reason string, usage Usage) {
	c.end(p, reason)
	p.event("", map[string]any{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "model": Model, "choices": []any{}, "usage": chatUsage(p.used(usage))})
	p.raw("data: [DONE]\n\n")
}

func (chat) end(p *reply, reason string) { p.event("", chatChunk(map[string]any{}, reason)) }

func chatUsage(usage Usage) map[string]any {
	return map[string]any{
		"prompt_tokens": usage.Prompt, "completion_tokens": usage.Completion, "total_tokens": usage.Prompt + usage.Completion,
		"prompt_tokens_details": map[string]any{"cached_tokens": usage.Cached},
	}
}

// whole is the answer to a request without stream.
func (chat) whole(p *reply, pieces []piece, reason string, usage Usage) {
	text, reasoning, calls := gathered(pieces)
	message := map[string]any{"role": "assistant", "content": text}
	if reasoning != "" {
		message["reasoning_content"] = reasoning
	}
	var list []any
	for _, call := range calls {
		list = append(list, map[string]any{"id": call.id, "type": "function", "function": map[string]any{"name": call.name, "arguments": call.arguments}})
	}
	if len(list) > 0 {
		message["tool_calls"] = list
	}
	writeJSON(p.w, 200, map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": time.Now().Unix(), "model": Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}}, "usage": chatUsage(p.used(usage)),
	})
}

func (chat) envelope(message, code string, _ int) any { return envelope(message, code) }

func chatChunk(delta map[string]any, reason any) map[string]any {
	return map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": Model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
	}
}

// gathered puts pieces together again.
func gathered(pieces []piece) (text, reasoning string, calls []callPiece) {
	for _, s := range pieces {
		text += s.text
		reasoning += s.reasoning
		switch {
		case s.call == nil:
		case s.call.id != "":
			calls = append(calls, *s.call)
		default:
			calls[len(calls)-1].arguments += s.call.arguments
		}
	}
	return text, reasoning, calls
}

// messages is Anthropic's wire, /messages. It is made anew for each answer, because it counts blocks.
type messages struct {
	begun bool
	open  string // the kind of the open block
	block int
}

func (m *messages) piece(p *reply, s piece) {
	kind, start, delta := "text", map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": s.text}
	switch {
	case s.call != nil:
		kind, delta = "call", map[string]any{"type": "input_json_delta", "partial_json": s.call.arguments}
		start = map[string]any{"type": "tool_use", "id": s.call.id, "name": s.call.name, "input": map[string]any{}}
	case s.reasoning != "":
		kind, delta = "thinking", map[string]any{"type": "thinking_delta", "thinking": s.reasoning}
		start = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
	}
	m.begin(p)
	if kind != m.open || s.call != nil && s.call.id != "" {
		m.close(p)
		m.open = kind
		p.send("content_block_start", map[string]any{"type": "content_block_start", "index": m.block, "content_block": start})
	}
	p.event("content_block_delta", map[string]any{"type": "content_block_delta", "index": m.block, "delta": delta})
}

func (m *messages) begin(p *reply) {
	if m.begun {
		return
	}
	m.begun = true
	p.send("message_start", map[string]any{"type": "message_start", "message": map[string]any{
		"id": "msg_fake", "type": "message", "role": "assistant", "model": Model, "content": []any{}, "stop_reason": nil, "usage": map[string]any{},
	}})
	p.send("ping", map[string]any{"type": "ping"})
}

// close ends the open block; a thought gets its signature first.
func (m *messages) close(p *reply) {
	if m.open == "" {
		return
	}
	if m.open == "thinking" {
		p.send("content_block_delta", map[string]any{
			"type": "content_block_delta", "index": m.block, "delta": map[string]any{"type": "signature_delta", "signature": "signed-by-the-fake"},
		})
	}
	p.send("content_block_stop", map[string]any{"type": "content_block_stop", "index": m.block})
	m.open = ""
	m.block++
}

func (m *messages) finish(p *reply, reason string, usage Usage) {
	m.begin(p)
	m.close(p)
	p.event("message_delta", map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": stopReason(reason), "stop_sequence": nil}, "usage": messagesUsage(p.used(usage)),
	})
	p.send("message_stop", map[string]any{"type": "message_stop"})
}

func (m *messages) end(p *reply, reason string) {
	m.begin(p)
	m.close(p)
	p.event("message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stopReason(reason)}})
}

func (m *messages) whole(p *reply, pieces []piece, reason string, usage Usage) {
	text, reasoning, calls := gathered(pieces)
	content := []any{}
	if reasoning != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": reasoning, "signature": "signed-by-the-fake"})
	}
	if text != "" {
		content = append(content, map[string]any{"type": "text", "text": text})
	}
	for _, call := range calls {
		content = append(content, map[string]any{"type": "tool_use", "id": call.id, "name": call.name, "input": json.RawMessage(call.arguments)})
	}
	writeJSON(p.w, 200, map[string]any{
		"id": "msg_fake", "type": "message", "role": "assistant", "model": Model, "content": content, "stop_reason": stopReason(reason),
		"usage": messagesUsage(p.used(usage)),
	})
}

func (*messages) envelope(message, code string, status int) any {
	kinds := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
		429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
	}
	return map[string]any{"type": "error", "error": map[string]any{"type": or(kinds[status], code), "message": message}}
}

// messagesUsage: this wire counts what came from a cache apart from the rest of the prompt.
func messagesUsage(usage Usage) map[string]any {
	return map[string]any{
		"input_tokens": usage.Prompt - usage.Cached - usage.CacheWrite, "output_tokens": usage.Completion,
		"cache_read_input_tokens": usage.Cached, "cache_creation_input_tokens": usage.CacheWrite,
	}
}

func stopReason(reason string) string {
	ours := map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
	return or(ours[reason], reason)
}
