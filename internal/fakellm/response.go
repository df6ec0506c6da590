package fakellm

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Response is one step of a script: Text, ToolCall, Error, Hang, DropMidStream, StallMidStream, Raw or Func.
type Response interface{ answer(*reply) }

// Usage is what an answer reports. With nothing set, an answer reports 10 and 5.
type Usage struct{ Prompt, Completion, Cached int64 }

// Text answers in words.
type Text struct {
	Text         string
	Reasoning    string
	ChunkChars   int             // characters in a chunk; default 8
	Gate         <-chan struct{} // when set, each chunk waits for one receive (a closed gate lets all through)
	Sent         func(n int)     // called after chunk n (from 1) was flushed
	FinishReason string          // default stop
	Usage        Usage
}

// ToolCall asks for a tool, after some text when there is any. Args that are a string go out as they are, anything else as JSON.
type ToolCall struct {
	Name     string
	Args     any
	Text     string
	Parallel []ToolCall // further calls in the same answer
	Gate     <-chan struct{}
	Usage    Usage
}

// Error is an HTTP failure in the usual envelope. RetryAfter goes into the header as it is: seconds or a date.
type Error struct {
	Status     int
	Message    string
	Code       string
	RetryAfter string
}

// Hang says nothing until it is released, the client leaves or the server closes, and then drops the connection.
type Hang struct{ Release <-chan struct{} }

// DropMidStream closes the connection after so many chunks.
type DropMidStream struct {
	Text   string
	After  int
	Call   *ToolCall // when set, the chunks are this call's fragments
	Finish string    // when set, this finish_reason is sent before the drop
}

// StallMidStream goes silent after so many chunks until it is released, then drops the connection. With Comments it is not quite
// silent: one keep-alive comment for each receive from that channel.
type StallMidStream struct {
	Text      string
	Reasoning string // before the text; the chunks of both count
	After     int
	Release   <-chan struct{}
	Comments  <-chan struct{}
}

// Raw answers with these bytes, whatever they are.
type Raw struct {
	Status      int // default 200
	ContentType string
	Body        string
	Header      map[string]string
}

// Func decides when the request is there; no response drops the connection.
type Func func(Request) Response

func (t Text) answer(p *reply) {
	reason := or(t.FinishReason, "stop")
	if !p.stream {
		if !p.wait(t.Gate) {
			p.drop()
		}
		message := map[string]any{"content": t.Text}
		if t.Reasoning != "" {
			message["reasoning_content"] = t.Reasoning
		}
		p.whole(message, reason, t.Usage)
		return
	}
	sent := 0
	send := func(field, text string) {
		for _, part := range split(text, t.ChunkChars) {
			if !p.wait(t.Gate) {
				p.drop()
			}
			p.delta(map[string]any{field: part})
			sent++
			if t.Sent != nil {
				t.Sent(sent)
			}
		}
	}
	send("reasoning_content", t.Reasoning)
	send("content", t.Text)
	p.finish(reason, t.Usage)
}

func (c ToolCall) answer(p *reply) {
	if !p.wait(c.Gate) {
		p.drop()
	}
	calls := append([]ToolCall{c}, c.Parallel...)
	if !p.stream {
		list := make([]any, len(calls))
		for i, call := range calls {
			list[i] = map[string]any{"id": p.server.nextCall(), "type": "function", "function": map[string]any{"name": call.Name, "arguments": call.arguments()}}
		}
		p.whole(map[string]any{"content": c.Text, "tool_calls": list}, "tool_calls", c.Usage)
		return
	}
	if c.Text != "" {
		p.delta(map[string]any{"content": c.Text})
	}
	for i, call := range calls {
		for _, fragment := range call.fragments(p, i) {
			p.delta(fragment)
		}
	}
	p.finish("tool_calls", c.Usage)
}

// fragments are the chunks of one call: the name first, the arguments in pieces.
func (c ToolCall) fragments(p *reply, index int) []map[string]any {
	list := []map[string]any{toolDelta(map[string]any{
		"index": index, "id": p.server.nextCall(), "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""},
	})}
	for _, part := range split(c.arguments(), 8) {
		list = append(list, toolDelta(map[string]any{"index": index, "function": map[string]any{"arguments": part}}))
	}
	return list
}

func toolDelta(call map[string]any) map[string]any {
	return map[string]any{"tool_calls": []any{call}}
}

func (c ToolCall) arguments() string {
	if text, ok := c.Args.(string); ok {
		return text
	}
	if c.Args == nil {
		return "{}"
	}
	data, err := json.Marshal(c.Args)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (e Error) answer(p *reply) {
	if e.RetryAfter != "" {
		p.w.Header().Set("Retry-After", e.RetryAfter)
	}
	writeJSON(p.w, e.Status, envelope(or(e.Message, http.StatusText(e.Status)), or(e.Code, strconv.Itoa(e.Status))))
}

func (h Hang) answer(p *reply) {
	p.hang(h.Release)
	p.drop()
}

func (d DropMidStream) answer(p *reply) {
	for _, delta := range first(d.After, deltas(p, d.Text, d.Call)) {
		p.delta(delta)
	}
	if d.Finish != "" {
		p.event(chunk(map[string]any{}, d.Finish))
	}
	p.drop()
}

func (s StallMidStream) answer(p *reply) {
	var list []map[string]any
	for _, part := range split(s.Reasoning, 0) {
		list = append(list, map[string]any{"reasoning_content": part})
	}
	for _, delta := range first(s.After, append(list, deltas(p, s.Text, nil)...)) {
		p.delta(delta)
	}
	for s.Comments != nil {
		select {
		case _, open := <-s.Comments:
			if !open {
				s.Comments = nil
				break
			}
			p.raw(": keep-alive\n\n")
		case <-s.Release:
			p.drop()
		case <-p.r.Context().Done():
			p.drop()
		case <-p.server.stop:
			p.drop()
		}
	}
	p.hang(s.Release)
	p.drop()
}

func (r Raw) answer(p *reply) {
	for name, value := range r.Header {
		p.w.Header().Set(name, value)
	}
	p.w.Header().Set("Content-Type", or(r.ContentType, "text/event-stream"))
	status := r.Status
	if status == 0 {
		status = 200
	}
	p.w.WriteHeader(status)
	_, _ = p.w.Write([]byte(r.Body))
}

func (f Func) answer(p *reply) {
	requests := p.server.Requests()
	for _, request := range requests {
		if request.Answered != p.log {
			continue
		}
		if response := f(request); response != nil {
			response.answer(p)
			return
		}
	}
	p.drop()
}
