package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Response is one step of a script: Text, ToolCall, Error, Hang, DropMidStream, StallMidStream, Raw or Func.
type Response interface{ answer(*reply) }

// Usage is what an answer reports. With nothing set, an answer reports 10 and 5.
type Usage struct{ Prompt, Completion, Cached, CacheWrite int64 }

// Text answers in words.
type Text struct {
	Text         string
	Reasoning    string
	ChunkChars   int             // characters in a chunk; default 8
	Gate         <-chan struct{} // when set, each chunk waits for one receive (a closed gate lets all through)
	Delay        time.Duration   // before each chunk, for servers that no test holds in its hand
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
	Delay    time.Duration // before each chunk
	Usage    Usage
}

// Error is an HTTP failure in the usual envelope. RetryAfter goes into the header as it is: seconds or a date.
type Error struct {
	Status     int
	Message    string
	Code       string
	RetryAfter string
}

// Hang says nothing until it is released, its time is over, the client leaves or the server closes, and then drops the connection.
type Hang struct {
	Release <-chan struct{}
	For     time.Duration // 0: as long as it takes
}

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
	var list []piece
	for _, part := range split(t.Reasoning, t.ChunkChars) {
		list = append(list, piece{reasoning: part})
	}
	for _, part := range split(t.Text, t.ChunkChars) {
		list = append(list, piece{text: part})
	}
	if !p.stream {
		if !p.wait(t.Gate) || !p.delay(t.Delay*time.Duration(len(list))) {
			p.drop()
		}
		p.speech.whole(p, list, reason, t.Usage)
		return
	}
	for i, s := range list {
		if !p.wait(t.Gate) || !p.delay(t.Delay) {
			p.drop()
		}
		p.speech.piece(p, s)
		if t.Sent != nil {
			t.Sent(i + 1)
		}
	}
	p.speech.finish(p, reason, t.Usage)
}

func (c ToolCall) answer(p *reply) {
	if !p.wait(c.Gate) {
		p.drop()
	}
	var list []piece
	if c.Text != "" {
		list = append(list, piece{text: c.Text})
	}
	for i, call := range append([]ToolCall{c}, c.Parallel...) {
		list = append(list, call.pieces(p, i)...)
	}
	if !p.stream {
		p.speech.whole(p, list, "tool_calls", c.Usage)
		return
	}
	for _, s := range list {
		if !p.delay(c.Delay) {
			p.drop()
		}
		p.speech.piece(p, s)
	}
	p.speech.finish(p, "tool_calls", c.Usage)
}

// pieces are the chunks of one call: the name first, the arguments in pieces.
func (c ToolCall) pieces(p *reply, index int) []piece {
	list := []piece{{call: &callPiece{index: index, id: p.server.nextCall(), name: c.Name}}}
	for _, part := range split(c.arguments(), 8) {
		list = append(list, piece{call: &callPiece{index: index, arguments: part}})
	}
	return list
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
	p.fail(e.Status, or(e.Message, http.StatusText(e.Status)), or(e.Code, strconv.Itoa(e.Status)))
}

func (h Hang) answer(p *reply) {
	p.hang(h.Release, h.For)
	p.drop()
}

func (d DropMidStream) answer(p *reply) {
	for _, s := range first(d.After, pieces(p, d.Text, "", d.Call)) {
		p.speech.piece(p, s)
	}
	if d.Finish != "" {
		p.speech.end(p, d.Finish)
	}
	p.drop()
}

func (s StallMidStream) answer(p *reply) {
	for _, part := range first(s.After, pieces(p, s.Text, s.Reasoning, nil)) {
		p.speech.piece(p, part)
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
	p.hang(s.Release, 0)
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
	response := p.server.asked(f, p.request)
	if response == nil {
		p.drop()
	}
	p.log.is(response)
	response.answer(p)
}

// asked asks a function of the test. One that panics is a fault, which the test is told: the dropped connection alone would look like a scripted one.
func (s *Server) asked(f func(Request) Response, request Request) (response Response) {
	defer func() {
		if fault := recover(); fault != nil {
			s.fault(fmt.Sprintf("request %d: %v", request.N, fault))
			response = DropMidStream{}
		}
	}()
	return f(request)
}
