package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// reply is the answer under way.
type reply struct {
	w       http.ResponseWriter
	r       *http.Request
	server  *Server
	stream  bool
	started bool
	log     *Answer
}

// wait returns false when the client left or the server closes before the gate opened. A nil gate is open.
func (p *reply) wait(gate <-chan struct{}) bool {
	if gate == nil {
		return p.r.Context().Err() == nil
	}
	select {
	case <-gate:
		return true
	case <-p.r.Context().Done():
		return false
	case <-p.server.stop:
		return false
	}
}

// hang waits until somebody ends it.
func (p *reply) hang(release <-chan struct{}) {
	select {
	case <-release:
	case <-p.r.Context().Done():
	case <-p.server.stop:
	}
}

// drop cuts the connection; the client sees it break.
func (p *reply) drop() { panic(http.ErrAbortHandler) }

func (p *reply) event(payload any) {
	data, err := json.Marshal(payload)
	if err != nil {
		p.drop()
	}
	p.raw(fmt.Sprintf("data: %s\n\n", data))
	p.log.mu.Lock()
	p.log.chunks++
	p.log.mu.Unlock()
}

func (p *reply) raw(text string) {
	if !p.started {
		p.w.Header().Set("Content-Type", "text/event-stream")
		p.started = true
	}
	if _, err := p.w.Write([]byte(text)); err != nil {
		return
	}
	p.w.(http.Flusher).Flush()
}

func (p *reply) delta(delta map[string]any) { p.event(chunk(delta, nil)) }

func (p *reply) finish(reason string, usage Usage) {
	p.event(chunk(map[string]any{}, reason))
	p.event(map[string]any{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "model": Model, "choices": []any{}, "usage": p.usage(usage)})
	p.raw("data: [DONE]\n\n")
}

func (p *reply) usage(usage Usage) map[string]any {
	if usage == (Usage{}) {
		usage = Usage{Prompt: 10, Completion: 5}
	}
	p.log.mu.Lock()
	p.log.usage = usage
	p.log.mu.Unlock()
	return map[string]any{
		"prompt_tokens": usage.Prompt, "completion_tokens": usage.Completion, "total_tokens": usage.Prompt + usage.Completion,
		"prompt_tokens_details": map[string]any{"cached_tokens": usage.Cached},
	}
}

// whole is the answer to a request without stream.
func (p *reply) whole(message map[string]any, reason string, usage Usage) {
	message["role"] = "assistant"
	writeJSON(p.w, 200, map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion", "created": time.Now().Unix(), "model": Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}}, "usage": p.usage(usage),
	})
}

func chunk(delta map[string]any, reason any) map[string]any {
	return map[string]any{
		"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": Model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
	}
}

func deltas(p *reply, text string, call *ToolCall) []map[string]any {
	var list []map[string]any
	for _, part := range split(text, 0) {
		list = append(list, map[string]any{"content": part})
	}
	if call != nil {
		list = append(list, call.fragments(p, 0)...)
	}
	return list
}

func first(n int, list []map[string]any) []map[string]any { return list[:min(n, len(list))] }

// split cuts text into parts of n characters, 8 when unset.
func split(text string, n int) []string {
	if n <= 0 {
		n = 8
	}
	var parts []string
	runes := []rune(text)
	for len(runes) > n {
		parts, runes = append(parts, string(runes[:n])), runes[n:]
	}
	if len(runes) > 0 {
		parts = append(parts, string(runes))
	}
	return parts
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
