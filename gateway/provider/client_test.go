package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// seen collects what a sink was shown.
type seen struct {
	mu     sync.Mutex
	deltas []Delta
	first  chan struct{} // closed with the first text
	once   sync.Once
}

func newSeen() *seen { return &seen{first: make(chan struct{})} }

func (s *seen) sink(d Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deltas = append(s.deltas, d)
	if d.Text != "" {
		s.once.Do(func() { close(s.first) })
	}
}

func (s *seen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, d := range s.deltas {
		b.WriteString(d.Text)
	}
	return b.String()
}

// waits replaces the pauses of a client and keeps them.
type waits struct{ list []time.Duration }

func (w *waits) pause(ctx context.Context, d time.Duration, _ func(Delta)) bool {
	w.list = append(w.list, d)
	return ctx.Err() == nil
}

func clientOf(t *testing.T, server *fakellm.Server, change ...func(*Options)) (*client, *waits) {
	t.Helper()
	opts := Options{BaseURL: server.URL(), Name: fakellm.Model, Key: "sk-very-secret-key", MaxRetries: 3}
	for _, c := range change {
		c(&opts)
	}
	c := New(opts).(*client)
	w := &waits{}
	c.pause, c.jitter = w.pause, func() float64 { return 0 }
	t.Cleanup(func() { c.http.Load().CloseIdleConnections() })
	return c, w
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var ask = Request{System: "be brief", Messages: []Message{{Role: "user", Content: "hi <there> & you"}}}

func sse(chunks ...string) string {
	var b strings.Builder
	for _, chunk := range chunks {
		b.WriteString("data: " + chunk + "\n\n")
	}
	return b.String()
}

const (
	hello = `{"choices":[{"delta":{"content":"hello"}}]}`
	stop  = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
)

func TestAnAnswerStreamsAndCounts(t *testing.T) {
	server := fakellm.New(t, fakellm.Text{Text: "eight by eight", Reasoning: "think", Usage: fakellm.Usage{Prompt: 11, Completion: 4, Cached: 3}})
	c, _ := clientOf(t, server)
	s := newSeen()
	got, err := c.Complete(bounded(t), ask, s.sink)
	if err != nil || got.Text != "eight by eight" || s.text() != got.Text || got.Reasoning != "think" || got.FinishReason != "stop" || got.Model != fakellm.Model {
		t.Fatalf("%+v, %v, shown %q", got, err, s.text())
	}
	if got.Usage != (Usage{Prompt: 11, Completion: 4, Cached: 3}) {
		t.Errorf("usage %+v", got.Usage)
	}
	request := server.Requests()[0]
	if request.Key != "sk-very-secret-key" || !strings.Contains(string(request.Body), `"stream_options":{"include_usage":true}`) || !strings.Contains(string(request.Body), "hi <there> & you") {
		t.Errorf("sent %s with key %q", request.Body, request.Key)
	}
}

func TestTheRequestKeepsItsBytes(t *testing.T) {
	raw := `{ "role":"user",  "content":"as \u003c it was" }`
	request := Request{
		Messages: []Message{{Raw: json.RawMessage(raw)}, {Role: "assistant", ToolCalls: []ToolCall{{"c", "ls", "{broken"}}}, {Role: "tool", ToolCallID: "c", Content: "no"}},
		Tools:    []ToolSpec{{Name: "ls", Parameters: json.RawMessage(`{"type": "object"}`)}, {Name: "now"}},
	}
	first, err := chatAPI{}.encode("m", request, manner{})
	if err != nil {
		t.Fatal(err)
	}
	again, _ := chatAPI{}.encode("m", request, manner{})
	if string(first) != string(again) || !json.Valid(first) {
		t.Errorf("not stable or not JSON: %s", first)
	}
	for _, want := range []string{raw, `"parameters":{"type": "object"}`, emptySchema, `"arguments":"{}"`, `"tool_call_id":"c"`} {
		if !strings.Contains(string(first), want) {
			t.Errorf("lacks %s: %s", want, first)
		}
	}
	request.Messages[0].Raw = json.RawMessage(`{"half":`)
	if _, err := (chatAPI{}).encode("m", request, manner{}); err == nil {
		t.Error("half a message was sent")
	}
}

// TestWhatOnlyChatServersDo is the rest of the table of misbehaviour: what has no counterpart on the other wire.
func TestWhatOnlyChatServersDo(t *testing.T) {
	good := fakellm.Text{Text: "fine"}
	raw := func(body string) fakellm.Raw { return fakellm.Raw{Body: body} }
	const again = `{"choices":[{"delta":{},"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`
	cases := []struct {
		name   string
		script []fakellm.Response
		text   string // of the answer
		class  Class  // or of the error
		calls  int
	}{
		{"an answer without stream", []fakellm.Response{fakellm.Raw{ContentType: "application/json", Body: `
			{"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}`}}, "whole", "", 1},
		{"objects line by line", []fakellm.Response{raw(hello + "\n" + stop + "\n")}, "hello", "", 1},
		{"the whole answer once more at the end", []fakellm.Response{raw(sse(hello, again, "[DONE]"))}, "hello", "", 1},
		{"an error with a code", []fakellm.Response{raw(sse(`{"error":{"message":"busy","code":503}}`)), good}, "fine", "", 2},
		{"an error event", []fakellm.Response{raw("event: error\ndata: {\"message\":\"bad request\",\"code\":400}\n\n"), good}, "", FormatError, 1},
		{"an error without data field", []fakellm.Response{raw(": hi\n\n{\"error\":\"out of memory\"}\n"), good}, "fine", "", 2},
		{"an error in a list", []fakellm.Response{fakellm.Raw{ContentType: "application/json", Body: `[{"error":{"code":401,"message":"no"}}]`}, good}, "", Auth, 1},
		{"an error object", []fakellm.Response{raw(sse(`{"object":"error","message":"no","code":404}`)), good}, "", ModelNotFound, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := fakellm.New(t, c.script...)
			client, _ := clientOf(t, server)
			s := newSeen()
			got, err := client.Complete(bounded(t), ask, s.sink)
			failed, _ := errors.AsType[*Error](err)
			if calls := len(server.Requests()); calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
			if c.class == "" && (err != nil || got.Text != c.text || s.text() != c.text) || c.class != "" && (failed == nil || failed.Class != c.class) {
				t.Errorf("got %q, shown %q, %v; want %q or %s", got.Text, s.text(), err, c.text, c.class)
			}
		})
	}
}

func opened() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestRetryAfterDecidesTheWait(t *testing.T) {
	server := fakellm.New(t, fakellm.Error{Status: 429, RetryAfter: "7"}, fakellm.Error{Status: 503}, fakellm.Error{Status: 500, RetryAfter: "99999"}, fakellm.Text{Text: "ok"})
	c, w := clientOf(t, server)
	s := newSeen()
	if _, err := c.Complete(bounded(t), ask, s.sink); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{7 * time.Second, 30 * time.Second, 600 * time.Second}
	if fmt.Sprint(w.list) != fmt.Sprint(want) {
		t.Errorf("waited %v, want %v", w.list, want)
	}
	notices := 0
	for _, d := range s.deltas {
		if d.Notice != "" {
			notices++
		}
	}
	if notices != 1 {
		t.Errorf("%d waits were announced; want the one that is longer than a minute", notices)
	}
}

func TestNoRetriesMeansNone(t *testing.T) {
	server := fakellm.New(t, fakellm.Error{Status: 500}, fakellm.Text{Text: "ok"})
	c, _ := clientOf(t, server, func(o *Options) { o.MaxRetries = 0 })
	if _, err := c.Complete(bounded(t), ask, nil); err == nil || len(server.Requests()) != 1 {
		t.Errorf("%v after %d calls", err, len(server.Requests()))
	}
}

func TestReasoningIsNotShownTwice(t *testing.T) {
	thinking := `{"choices":[{"delta":{"reasoning_content":"hm"}}]}`
	server := fakellm.New(t, fakellm.Raw{Body: sse(thinking)}, fakellm.Text{Text: "ok", Reasoning: "hm"})
	c, _ := clientOf(t, server)
	s := newSeen()
	got, err := c.Complete(bounded(t), ask, s.sink)
	var shown string
	for _, d := range s.deltas {
		shown += d.Reasoning
	}
	if err != nil || shown != "hm" || got.Reasoning != "hm" || s.text() != "ok" {
		t.Errorf("shown %q, kept %q, %v", shown, got.Reasoning, err)
	}
}

func TestTheCallersCauseEndsTheCallAndIsKept(t *testing.T) {
	gate := make(chan struct{}, 1)
	gate <- struct{}{}
	server := fakellm.New(t, fakellm.Text{Text: "eight by eight", Gate: gate})
	c, _ := clientOf(t, server)
	stopped := errors.New("the person said stop")
	ctx, cancel := context.WithCancelCause(bounded(t))
	s := newSeen()
	go func() { <-s.first; cancel(stopped) }()
	_, err := c.Complete(ctx, ask, s.sink)
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Class != Interrupted || !errors.Is(err, stopped) || failed.Partial.Text != "eight by" {
		t.Fatalf("%+v", err)
	}
	select {
	case <-server.Requests()[0].Gone:
	case <-bounded(t).Done():
		t.Error("the server was not told")
	}
}

func TestTheKeyIsInNoError(t *testing.T) {
	key := "sk-very-secret-key"
	echo := fakellm.Error{Status: 401, Message: "Incorrect API key provided: " + key + strings.Repeat(" "+key, 40)}
	stream := fakellm.Raw{Body: sse(`{"error":{"message":"key ` + key + ` is revoked","code":401}}`)}
	page := fakellm.Raw{Body: "who is " + key + "\n"}
	for _, response := range []fakellm.Response{echo, stream, page} {
		c, _ := clientOf(t, fakellm.New(t, response), func(o *Options) { o.MaxRetries = 0 })
		_, err := c.Complete(bounded(t), ask, nil)
		for e := err; e != nil; e = errors.Unwrap(e) {
			if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(e.Error(), "secret") || strings.Contains(text, key) {
				t.Errorf("key in %s", text)
			}
		}
		if err == nil {
			t.Error("no error")
		}
	}
	c, _ := clientOf(t, fakellm.New(t), func(o *Options) { o.BaseURL = "http://user:pass-word@127.0.0.1:1/v1?key=abc" })
	_, err := c.Complete(bounded(t), ask, nil)
	if text := fmt.Sprint(err, c.Describe()); strings.Contains(text, "pass-word") || strings.Contains(text, "abc") || !strings.Contains(text, "refused") {
		t.Errorf("got %s", text)
	}
}

func TestAWindowIsLearnedFromTheOverflow(t *testing.T) {
	c, _ := clientOf(t, fakellm.New(t, fakellm.Error{Status: 400, Message: "maximum context length is 4096 tokens"}), func(o *Options) { o.ContextLength = 128000 })
	if _, err := c.Complete(bounded(t), ask, nil); err == nil || c.Describe().ContextLength != 4096 {
		t.Errorf("%v, %+v", err, c.Describe())
	}
}

func TestANamelessModelIsAskedFor(t *testing.T) {
	server := fakellm.New(t, fakellm.Text{Text: "ok"})
	c, _ := clientOf(t, server, func(o *Options) { o.Name = "" })
	if _, err := c.Complete(bounded(t), ask, nil); err != nil || c.Describe().Name != fakellm.Model || server.Requests()[0].JSON()["model"] != fakellm.Model {
		t.Errorf("%v, %+v", err, c.Describe())
	}
}

func TestABaseURLThatIsNoneSaysSo(t *testing.T) {
	for _, base := range []string{"", "localhost:11434", "ftp://x/v1", "http://", "http://a b/", "http://user:secret@ho st/"} {
		_, err := New(Options{BaseURL: base, Name: "m"}).Complete(bounded(t), ask, nil)
		failed, ok := errors.AsType[*Error](err)
		if !ok || failed.Class != FormatError || failed.Remedy == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	server := fakellm.New(t, fakellm.Text{Text: "a"}, fakellm.Text{Text: "b"}, fakellm.Text{Text: "c"})
	c, _ := clientOf(t, server)
	from := map[string]bool{}
	for range 3 {
		if _, err := c.Complete(bounded(t), ask, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range server.Requests() {
		from[request.Remote] = true
	}
	if len(from) != 1 {
		t.Errorf("three calls came over %d connections", len(from))
	}
}
