package fakellm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// Model is the name the server gives its one model.
const Model = "fake-model"

// ContextLength is the window that /models reports.
const ContextLength = 128000

// Options is how a server behaves apart from its script. The zero value accepts any key and answers everything from the script.
type Options struct {
	Keys   []string               // accepted API keys; empty accepts every request
	Aux    Response               // answers requests without tools, which then do not use up the script; nil: the script answers all
	Script []Response             // one per request, in the order of arrival
	Each   func(Request) Response // asked when the script is used up; nil: an error

	Slots        func(n int) Response // answers the nth look at /slots, from 1; nil, and no response: there are none
	PromptTokens func(Request) int64  // what an answer without a Usage of its own reports for the prompt; nil: 10
	Addr         string               // where to listen; empty: 127.0.0.1 with a free port
	Listener     net.Listener         // instead of Addr: one that somebody else made, such as one inside a container
	Control      bool                 // other processes may add to the script and read the requests; see Serve
}

// Request is what a client sent. Gone is closed when the client has left or was answered.
type Request struct {
	N        int // 0 for the first
	Path     string
	Kind     string // main (with tools), aux, models
	Key      string // the bearer token
	Remote   string // the client's address, the same for each request of one connection
	Header   http.Header
	Body     []byte
	At       time.Time // when it arrived, by the monotonic clock
	Gone     <-chan struct{}
	Answered *Answer // how far the answer came
}

// JSON decodes the body; a body that is no object gives nil.
func (r Request) JSON() map[string]any {
	var body map[string]any
	if json.Unmarshal(r.Body, &body) != nil {
		return nil
	}
	return body
}

// Answer is how far an answer came. Safe to read while the server works.
type Answer struct {
	mu     sync.Mutex
	kind   string
	chunks int
	usage  Usage
}

// Kind is what the answer was: Text, ToolCall, Error, Hang, DropMidStream, StallMidStream or Raw.
func (a *Answer) Kind() string { a.mu.Lock(); defer a.mu.Unlock(); return a.kind }

func (a *Answer) is(response Response) {
	if _, ok := response.(Func); ok {
		return // what it decides says it
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kind = strings.TrimPrefix(fmt.Sprintf("%T", response), "fakellm.")
}

// Chunks is how many data chunks were flushed to the client.
func (a *Answer) Chunks() int { a.mu.Lock(); defer a.mu.Unlock(); return a.chunks }

// Usage is what the client was told it had used.
func (a *Answer) Usage() Usage { a.mu.Lock(); defer a.mu.Unlock(); return a.usage }

// Server is a running fake. Safe for concurrent use.
type Server struct {
	http *httptest.Server
	opts Options
	stop chan struct{} // closed by Close: releases everything that hangs

	mu       sync.Mutex
	script   []Response
	requests []Request
	changed  chan struct{} // closed and replaced with each request
	calls    int
	looks    int
	closed   bool
	faults   []string
}

// Start begins serving on 127.0.0.1 with a port of its own.
func Start(opts Options) *Server {
	s := &Server{opts: opts, stop: make(chan struct{}), script: slices.Clone(opts.Script), changed: make(chan struct{})}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if opts.Addr != "" {
		listener, err := net.Listen("tcp", opts.Addr)
		if err != nil {
			panic(fmt.Sprintf("fakellm: listen on %s: %v", opts.Addr, err))
		}
		_ = s.http.Listener.Close()
		s.http.Listener = listener
	}
	if opts.Listener != nil {
		_ = s.http.Listener.Close()
		s.http.Listener = opts.Listener
	}
	s.http.Start()
	return s
}

// Cleaner is the part of testing.TB that New needs.
type Cleaner interface{ Cleanup(func()) }

// New starts a server with this script that closes with the test.
func New(t Cleaner, script ...Response) *Server {
	s := Start(Options{Script: script})
	t.Cleanup(func() {
		s.Close()
		s.Blame(t)
	})
	return s
}

// Blame tells the test of every fault, when it can be told.
func (s *Server) Blame(t Cleaner) {
	if teller, ok := t.(interface{ Errorf(string, ...any) }); ok {
		for _, fault := range s.Faults() {
			teller.Errorf("fakellm: %s", fault)
		}
	}
}

// Faults are the panics of the functions that tests answer with.
func (s *Server) Faults() []string { s.mu.Lock(); defer s.mu.Unlock(); return slices.Clone(s.faults) }

func (s *Server) fault(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, text)
}

// URL is the base URL for clients, without the endpoint: http://127.0.0.1:PORT/v1.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Addr is host and port.
func (s *Server) Addr() string { return strings.TrimPrefix(s.http.URL, "http://") }

// Close releases what hangs, drops the connections and waits for the handlers. It may be called again.
func (s *Server) Close() {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		close(s.stop)
		s.http.CloseClientConnections()
	}
	s.http.Close()
}

// Push adds responses to the end of the script.
func (s *Server) Push(script ...Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, script...)
}

// Left is how many responses of the script are still unused.
func (s *Server) Left() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.script) }

// Requests gives all chat requests so far, in the order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Main gives the requests that carried tools.
func (s *Server) Main() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Kind != "main" })
}

// Wait returns the requests as soon as there are n of them, or the context's error naming how many there were.
func (s *Server) Wait(ctx context.Context, n int) ([]Request, error) {
	for {
		s.mu.Lock()
		requests, changed := slices.Clone(s.requests), s.changed
		s.mu.Unlock()
		if len(requests) >= n {
			return requests, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return requests, fmt.Errorf("wait for %d requests, %d came: %w", n, len(requests), ctx.Err())
		}
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := or(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("X-Api-Key"))
	var speech speech = chat{}
	if strings.HasSuffix(r.URL.Path, "/messages") {
		speech = &messages{}
	}
	switch {
	case s.opts.Control && strings.HasPrefix(r.URL.Path, controlPath):
		s.control(w, r, body)
	case len(s.opts.Keys) > 0 && !slices.Contains(s.opts.Keys, key):
		writeJSON(w, 401, speech.envelope("Incorrect API key provided: "+key, "invalid_api_key", 401))
	case strings.HasSuffix(r.URL.Path, "/models"):
		writeJSON(w, 200, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": Model, "object": "model", "owned_by": "fakellm", "context_length": ContextLength},
		}})
	case strings.HasSuffix(r.URL.Path, "/chat/completions"), strings.HasSuffix(r.URL.Path, "/messages"):
		s.complete(w, r, speech, key, body)
	case s.opts.Slots != nil && strings.HasSuffix(r.URL.Path, "/slots"):
		s.look(w, r)
	default:
		writeJSON(w, 404, envelope("no such address: "+r.URL.Path, "not_found"))
	}
}

// look answers a look at the slots as llama.cpp does. It is no request of the record.
func (s *Server) look(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.looks++
	n := s.looks
	s.mu.Unlock()
	response := s.opts.Slots(n)
	if response == nil {
		response = Error{Status: 404, Message: "no such address: " + r.URL.Path}
	}
	response.answer(&reply{w: w, r: r, server: s, speech: chat{}, log: &Answer{}})
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, speech speech, key string, body []byte) {
	request := Request{Path: r.URL.Path, Kind: "aux", Key: key, Remote: r.RemoteAddr, Header: r.Header.Clone(), Body: body, Gone: r.Context().Done(), Answered: &Answer{}}
	var parsed struct {
		Stream bool
		Tools  []json.RawMessage
	}
	if json.Unmarshal(body, &parsed) == nil && len(parsed.Tools) > 0 {
		request.Kind = "main"
	}
	response := s.take(&request)
	request.Answered.is(response)
	response.answer(&reply{w: w, r: r, server: s, speech: speech, stream: parsed.Stream, request: request, log: request.Answered})
}

// take records the request and decides its answer, in one step, so that the order of both is the same.
func (s *Server) take(request *Request) Response {
	s.mu.Lock()
	request.N, request.At = len(s.requests), time.Now()
	s.requests = append(s.requests, *request)
	close(s.changed)
	s.changed = make(chan struct{})
	var response Response
	switch {
	case s.opts.Aux != nil && request.Kind == "aux":
		response = s.opts.Aux
	case len(s.script) > 0:
		response, s.script = s.script[0], s.script[1:]
	}
	s.mu.Unlock()
	if response == nil && s.opts.Each != nil {
		response = s.asked(s.opts.Each, *request)
	}
	if response == nil {
		return Error{Status: 400, Message: fmt.Sprintf("fakellm: the script is used up, request %d has no answer", request.N)}
	}
	return response
}

// nextCall numbers the tool calls of this server: call_fake_1, call_fake_2.
func (s *Server) nextCall() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return fmt.Sprintf("call_fake_%d", s.calls)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func envelope(message, code string) map[string]any {
	return map[string]any{"error": map[string]any{"message": message, "type": "fake_error", "code": code}}
}
