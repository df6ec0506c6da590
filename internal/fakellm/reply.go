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
	speech  speech
	request Request
	log     *Answer
}

// speech is how an answer is written on one wire.
type speech interface {
	piece(p *reply, s piece)
	finish(p *reply, reason string, usage Usage)
	end(p *reply, reason string) // the reason alone, as a server that breaks off behind it sends it
	whole(p *reply, pieces []piece, reason string, usage Usage)
	envelope(message, code string, status int) any
}

// piece is what one chunk brings: text, reasoning, or a part of a call.
type piece struct {
	text, reasoning string
	call            *callPiece
}

// callPiece is a part of one tool call; the first has its id and name, the others arguments.
type callPiece struct {
	index     int
	id, name  string
	arguments string
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

// delay lets time pass between two chunks; false as with wait.
func (p *reply) delay(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.r.Context().Done():
		return false
	case <-p.server.stop:
		return false
	}
}

// hang waits until somebody ends it, or for so long.
func (p *reply) hang(release <-chan struct{}, most time.Duration) {
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-release:
	case <-over:
	case <-p.r.Context().Done():
	case <-p.server.stop:
	}
}

// drop cuts the connection; the client sees it break.
func (p *reply) drop() { panic(http.ErrAbortHandler) }

// event sends one chunk that counts.
func (p *reply) event(name string, payload any) {
	p.send(name, payload)
	p.log.mu.Lock()
	p.log.chunks++
	p.log.mu.Unlock()
}

// send sends one that does not.
func (p *reply) send(name string, payload any) {
	data, err := json.Marshal(payload)
	if err != nil {
		p.drop()
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	p.raw(fmt.Sprintf("%sdata: %s\n\n", name, data))
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

// used decides what an answer reports, and keeps it.
func (p *reply) used(usage Usage) Usage {
	if usage == (Usage{}) {
		usage = Usage{Prompt: 10, Completion: 5}
		if count := p.server.opts.PromptTokens; count != nil {
			usage.Prompt = count(p.request)
		}
	}
	p.log.mu.Lock()
	p.log.usage = usage
	p.log.mu.Unlock()
	return usage
}

// fail is an HTTP error.
func (p *reply) fail(status int, message, code string) {
	writeJSON(p.w, status, p.speech.envelope(message, code, status))
}

func pieces(p *reply, text, reasoning string, call *ToolCall) []piece {
	var list []piece
	for _, part := range split(reasoning, 0) {
		list = append(list, piece{reasoning: part})
	}
	for _, part := range split(text, 0) {
		list = append(list, piece{text: part})
	}
	if call != nil {
		list = append(list, call.pieces(p, 0)...)
	}
	return list
}

func first(n int, list []piece) []piece { return list[:min(n, len(list))] }

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
